"""HCAPO: in a success, the turns that hindsight makes likelier get more of the return.

The policy, told that the attempt succeeded, scores each turn of a success: exp(mean log-probability / ``temperature``).
The turn's share is that over its mean in the episode, cut to 1 ± ``clip``, and its value share·``gamma``^(turns to
go)·R; all turns of failures are worth 0. Values are centred on their mean over all turns of the group and divided by
their sample deviation; added to GRPO's advantage ``omega`` times, except that a success is never charged (a negative
term is left out). Source: arXiv 2603.08754.

Without a success all values are 0 and the advantages are GRPO's; when all succeed, or a group has one member, GRPO's
are 0 and successes still tell their turns apart. A success whose hint does not fit has shares of 1. Groups may differ
in size; action spans, state keys and snapshots are not read.

Invariant: ``omega=0`` and a group without a success are GRPO bit for bit, and ask nothing of the policy; the term that
is added is never negative for a success and one and the same number for all turns of all failures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from pydantic import Field

from agentgym.agents.prompts import Hint, HintPlace
from agentgym.episode import Group

from .base import Credit, CreditMethod, ScoreRequest, TurnScores
from .grpo import GrpoOptions, group_stats, normalise, turn_advantages, turn_table
from .peer import succeeded
from .pooled import count
from .reweight import Array
from .step_opsd import OUTCOMES


class HcapoOptions(GrpoOptions):
    """Options of HCAPO; the others are those of :class:`~agentgym.trainers.credit.grpo.GrpoOptions`.

    Attributes:
        omega: factor on the turns' own term.
        temperature: mean log-probabilities are divided by it.
        clip: shares are cut to 1 ± this.
        gamma: discount a turn, from the last one back.
        smooth: whether a turn's value is averaged with the next turn's.
        success_threshold: least score of a success; None takes the environment's own word.
        place: where the outcome stands in the prompt; see :data:`~agentgym.agents.prompts.HintPlace`.
    """

    omega: float = Field(default=1.0, ge=0)
    temperature: float = Field(default=5.0, gt=0)
    clip: float = Field(default=0.2, gt=0, lt=1)
    gamma: float = Field(default=0.95, ge=0, le=1)
    smooth: bool = False
    success_threshold: float | None = Field(default=None, ge=0, le=1)
    place: HintPlace = "before_format"


class Hcapo(CreditMethod):
    """One advantage a turn: the episode's, plus what hindsight says of the turn."""

    def __init__(self, options: HcapoOptions | None = None) -> None:
        self.options = options or HcapoOptions()

    def requests(self, group: Group, *, step: int = 0) -> list[ScoreRequest]:
        """For each success: the prompts with the outcome."""
        hint = Hint((OUTCOMES[True],), self.options.place)
        return [ScoreRequest(group.episodes[index], hint) for index in self._judged(group)]

    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """Rows of kind ``turn`` for every turn of every completed episode."""
        options = self.options
        advantages = turn_advantages(group, options)
        judged = self._judged(group)
        answers = dict(zip(judged, scores, strict=True))
        values: dict[int, Array] = {}
        for index in advantages:
            episode = group.episodes[index]
            values[index] = np.zeros(len(episode.turns))
            if index in answers:
                share = shares(answers[index], len(episode.turns), options.temperature, options.clip)
                togo = np.arange(len(episode.turns))[::-1]
                values[index] = share * options.gamma**togo * options.reward_of(episode)
                if options.smooth:
                    values[index] = smoothed(values[index])
        flat = normalise([float(value) for turns in values.values() for value in turns], options.scale)
        terms = np.split(flat, np.cumsum([len(turns) for turns in values.values()])[:-1]) if values else []
        for index, term in zip(values, terms, strict=True):
            if judged:
                advantages[index] += options.omega * (np.maximum(term, 0.0) if index in answers else term)
        stats = group_stats(group, options)
        stats["hindsight/overflow"] = count(sum(answer is None for answer in scores))
        return Credit(turn_table(group, advantages), stats)

    def _judged(self, group: Group) -> list[int]:
        """The positions of the successes; none where the term would be 0."""
        if self.options.omega == 0:
            return []
        threshold = self.options.success_threshold
        return [i for i, e in enumerate(group.episodes) if e.completed and succeeded(e, threshold)]


def shares(scores: TurnScores | None, turns: int, temperature: float, clip: float) -> Array:
    """How much likelier than the episode's average turn each turn is in hindsight, shape ``[turns]``.

    Args:
        scores: informed log-probabilities; None if they are not known, which gives 1.
        turns: number of turns.
        temperature: mean log-probabilities are divided by it.
        clip: shares are cut to 1 ± this.
    """
    if scores is None or turns == 0:
        return np.ones(turns)
    means = np.array([math.fsum(turn) / max(1, len(turn)) for turn in scores])
    likely = np.exp(means / temperature)
    found: Array = np.clip(likely / likely.mean(), 1 - clip, 1 + clip)
    return found


def smoothed(values: Array) -> Array:
    """Each turn's value averaged with the next turn's; the last keeps its own."""
    return np.append((values[:-1] + values[1:]) / 2, values[-1:])
