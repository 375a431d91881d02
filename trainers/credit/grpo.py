"""GRPO: the advantage of an episode is its reward, compared with the other episodes of its group.

Source: DeepSeekMath (arXiv 2402.03300), and verl-agent for rows as the unit. Groups may differ in size; in a group of
one, and where all or none succeed, advantages are 0 before penalties (with ``baseline_unit="row"`` and one turn in all,
its score). Nothing but outcomes is read.

Invariant: a group whose rewards are all equal gets exactly 0 before penalties, and no result depends on the order of
the episodes in the group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from agentgym.episode import Group, Turn

from .base import Credit, CreditMethod, CreditOptions, CreditTable, SegmentCredit, TurnScores, output_length
from .pooled import share

EPSILON = 1e-6
"""Added to every standard deviation that divides."""

FLAT = 1e-8
"""Values closer together than this are equal: dividing by their deviation would amplify rounding."""


class GrpoOptions(CreditOptions):
    """Options of GRPO, and of the methods that start from it.

    Attributes:
        baseline_unit: what mean and deviation are taken over: ``episode`` counts each episode once; ``row`` counts
            each turn once, so that long episodes weigh more (verl-agent).
        scale: ``std`` divides by the sample standard deviation, ``none`` (Dr. GRPO, arXiv 2503.20783) does not.
        invalid_penalty: subtracted for each turn that offends against ``penalty_criterion``.
        penalty_criterion: ``format`` (the output was malformed), ``admissible`` (the environment did not take the
            action) or ``either``.
        penalty_timing: ``after`` subtracts from the turn's advantage; ``before`` from the turn's score ahead of the
            normalisation (verl-agent), which in a group of failures makes a small penalty the whole signal. ``before``
            needs rows as the unit.
    """

    baseline_unit: Literal["episode", "row"] = "episode"
    scale: Literal["std", "none"] = "std"
    invalid_penalty: float = Field(default=0.1, ge=0)
    penalty_criterion: Literal["format", "admissible", "either"] = "format"
    penalty_timing: Literal["after", "before"] = "after"

    @model_validator(mode="after")
    def _penalty_before_needs_rows(self) -> Self:
        if self.penalty_timing == "before" and self.baseline_unit != "row":
            raise ValueError("penalty_timing 'before' needs baseline_unit 'row': an episode has no score per turn")
        return self

    def penalty_of(self, turn: Turn) -> float:
        """The penalty of a turn, 0 if it is valid or if the environment does not say whether it took the action."""
        malformed, refused = not turn.well_formed, turn.action_accepted is False
        offends = {"format": malformed, "admissible": refused, "either": malformed or refused}
        return self.invalid_penalty * offends[self.penalty_criterion]


class Grpo(CreditMethod):
    """One advantage a turn, the same for all turns of an episode up to penalties."""

    def __init__(self, options: GrpoOptions | None = None) -> None:
        self.options = options or GrpoOptions()

    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """Rows of kind ``turn`` for every turn of every completed episode."""
        return Credit(turn_table(group, turn_advantages(group, self.options)), group_stats(group, self.options))


def turn_advantages(group: Group, options: GrpoOptions) -> dict[int, NDArray[np.float64]]:
    """The advantage of every turn: position of each completed episode -> float64, shape ``[turns]``."""
    rewards = {i: options.reward_of(episode) for i, episode in enumerate(group.episodes) if episode.completed}
    penalties = {i: np.array([options.penalty_of(turn) for turn in group.episodes[i].turns]) for i in rewards}
    if options.baseline_unit == "episode":
        outcome = dict(zip(rewards, normalise(list(rewards.values()), options.scale), strict=True))
        return {i: outcome[i] - penalty for i, penalty in penalties.items()}
    before = options.penalty_timing == "before"
    scores = [rewards[i] - float(p) * before for i, penalty in penalties.items() for p in penalty]
    flat = normalise(scores, options.scale, single=(0.0, 1.0))
    ends = np.cumsum([len(penalty) for penalty in penalties.values()])
    by_episode = dict(zip(rewards, np.split(flat, ends[:-1]), strict=True)) if rewards else {}
    return by_episode if before else {i: values - penalties[i] for i, values in by_episode.items()}


def turn_table(group: Group, advantages: Mapping[int, NDArray[np.float64]]) -> CreditTable:
    """One row of kind ``turn`` a turn, from advantages by position of the episode, shape ``[turns]``."""
    return CreditTable.from_rows(
        SegmentCredit(index, turn, 0, output_length(group.episodes[index], turn), "turn", float(advantage))
        for index, turns in advantages.items()
        for turn, advantage in enumerate(turns)
    )


def normalise(
    values: Sequence[float],
    scale: Literal["std", "none"],
    *,
    single: tuple[float, float] | None = None,
    ddof: int = 1,
) -> NDArray[np.float64]:
    """Subtracts the mean and, with ``std``, divides by the standard deviation plus ``EPSILON``.

    Args:
        values: the scores, shape ``[n]``.
        scale: ``std`` or ``none``.
        single: mean and deviation that stand in when there is but one value (verl-agent: 0 and 1).
        ddof: 1 for the sample's deviation, 0 for the population's.

    Returns:
        float64, shape ``[n]``; exactly 0 if all values are equal.
    """
    array = np.array(values, dtype=np.float64)
    if len(values) == 1 and single is not None:
        mean, deviation = single
    elif len(values) < 2 or np.ptp(array) < FLAT:
        return np.zeros_like(array)
    else:
        # fsum rounds once, so the order of the episodes cannot show in the last bit.
        mean = math.fsum(values) / len(values)
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - ddof))
    return (array - mean) / (deviation + EPSILON) if scale == "std" else array - mean


def reward_stats(group: Group, options: CreditOptions) -> dict[str, float]:
    """Whether the rewards of a group differ at all, the share of broken episodes, the mean reward."""
    rewards = [options.reward_of(episode) for episode in group.episodes if episode.completed]
    stats: dict[str, float] = {
        "group/active": float(len(rewards) > 1 and max(rewards) - min(rewards) >= FLAT),
        "group/broken": share(len(group) - len(rewards), len(group)),
    }
    if rewards:
        stats["group/reward"] = share(math.fsum(rewards), len(rewards))
    return stats


def group_stats(group: Group, options: GrpoOptions) -> dict[str, float]:
    """Those, and the share of turns that are penalised."""
    turns = [turn for episode in group.episodes if episode.completed for turn in episode.turns]
    stats = reward_stats(group, options)
    if turns:
        stats["group/penalised"] = share(sum(options.penalty_of(turn) > 0 for turn in turns), len(turns))
    return stats
