"""SCPO: before GiGPO compares turns, a failure is paid for what it did as a successful sibling did, once and in order.

Each turn of a failure (what was seen and what was done, as text) is compared with the turns of one success of the
group. It is a candidate for the turn that it is most like, if it is at least ``threshold`` like it. Candidates are
accepted from the most alike down (of equal ones, the earlier first), unless their turn of the success is paid for
already, or they are out of order with one that was accepted: later turns of the failure must stand for later turns of
the success. An accepted turn's reward rises by ``beta``·``reward_scale``·similarity; then GiGPO follows. Source: arXiv
2606.25852, whose exact formula is not public: the order of acceptance is its description's, threshold, ``beta`` and the
choice of the sibling are this reading's.

Without a success (no success, a group of one failure) or without a failure (all succeed) it is GiGPO; successes are
never paid. Groups may differ in size; action spans and snapshots are not read. Without state keys, ``anchor="state"``
is an error.

Invariant: ``beta=0`` and a group without both outcomes are GiGPO bit for bit; a failure is paid
``beta``·``reward_scale`` at most once for each of its turns and for each of the success's, and never less than 0.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from agentgym.episode import Episode, Group

from .base import Credit, CreditMethod, TurnScores
from .gigpo import GigpoOptions, compare_turns
from .peer import succeeded
from .pooled import share
from .reweight import Array
from .similarity import Similarity, get_similarity


class ScpoOptions(GigpoOptions):
    """Options of SCPO; the others are those of :class:`~agentgym.trainers.credit.gigpo.GigpoOptions`.

    Attributes:
        beta: what a turn just like the success's is paid, as a share of ``reward_scale``.
        threshold: least similarity that is paid.
        sibling: which success is compared with: the one with the most turns of those with no more than 1.5 times the
            median of successes (``longest``), the ``shortest``, or the lowest member (``first``).
        similarity: ``tfidf``, or a sentence-embedding model that transformers can load, by folder or name.
        success_threshold: least score of a success; None takes the environment's own word.
    """

    beta: float = Field(default=0.1, ge=0)
    threshold: float = Field(default=0.5, ge=0, le=1)
    sibling: Literal["longest", "shortest", "first"] = "longest"
    similarity: str = "tfidf"
    success_threshold: float | None = Field(default=None, ge=0, le=1)


class Match(NamedTuple):
    """A turn of a failure, the turn of the success that it stands for, and how alike they are."""

    turn: int
    stands_for: int
    similarity: float


class Scpo(CreditMethod):
    """GiGPO on rewards that pay failures for what a success did, too.

    Args:
        options: the options.
        similarity: how turns are compared, in place of the option.

    Raises:
        ConfigError, DataError: if the similarity's model cannot be loaded.
    """

    def __init__(self, options: ScpoOptions | None = None, similarity: Similarity | None = None) -> None:
        self.options = options or ScpoOptions()
        self.similarity = similarity or get_similarity(self.options.similarity)

    def bonuses(self, group: Group) -> dict[int, Array]:
        """What the turns of failures are paid, by position of the episode."""
        options = self.options
        sibling = choose_sibling(group, options)
        found: dict[int, Array] = {}
        if sibling is None or options.beta == 0:
            return found
        reference = step_texts(group.episodes[sibling])
        for index, episode in enumerate(group.episodes):
            if not episode.completed or not episode.turns or succeeded(episode, options.success_threshold):
                continue
            found[index] = np.zeros(len(episode.turns))
            for match in matches(self.similarity(step_texts(episode), reference), options.threshold):
                found[index][match.turn] = options.beta * options.reward_scale * match.similarity
        return found

    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """Rows of kind ``turn`` for every turn of every completed episode."""
        bonuses = self.bonuses(group)
        credit = compare_turns(group, self.options, bonuses)
        if bonuses:
            paid = np.concatenate(list(bonuses.values())) > 0
            credit.stats["sibling/paid"] = share(int(paid.sum()), len(paid))
        return credit


def step_texts(episode: Episode) -> list[str]:
    """What was seen and what was done, turn by turn."""
    return [f"{turn.observation}\n{turn.action}" for turn in episode.turns]


def choose_sibling(group: Group, options: ScpoOptions) -> int | None:
    """The position of the success that failures are compared with; None without one."""
    threshold = options.success_threshold
    won = [i for i, e in enumerate(group.episodes) if e.completed and e.turns and succeeded(e, threshold)]
    if not won:
        return None
    won.sort(key=lambda index: group.episodes[index].member)
    turns = {index: len(group.episodes[index].turns) for index in won}
    if options.sibling == "first":
        return won[0]
    if options.sibling == "shortest":
        return min(won, key=lambda index: turns[index])
    limit = 1.5 * statistics.median(turns.values())
    return max((index for index in won if turns[index] <= limit), key=lambda index: turns[index])


def matches(similarities: Array, threshold: float) -> list[Match]:
    """Which turns of a failure are paid, for which turns of the success, from the most alike down.

    Args:
        similarities: shape ``[turns of the failure, turns of the success]``.
        threshold: least similarity of a match.
    """
    best = similarities.argmax(axis=1)
    likely = [Match(turn, int(other), float(similarities[turn, other])) for turn, other in enumerate(best)]
    found: list[Match] = []
    for new in sorted(
        (match for match in likely if match.similarity >= threshold), key=lambda match: -match.similarity
    ):
        # In order: of two turns, the later one stands for a later one; and nothing is paid twice.
        if all((new.turn - old.turn) * (new.stands_for - old.stands_for) > 0 for old in found):
            found.append(new)
    return found
