"""GiGPO: GRPO's advantage, plus what a turn was worth among all turns of the group that began in the same place.

The value of a turn is the discounted return from it on, less its own penalty. Turns with the same anchor are compared
as GRPO compares episodes (``scale`` is for both), and the result is added ``step_weight`` times. Source: arXiv
2505.10978; there the places are observations (in its code, on demand, those that look nearly alike), the penalty is
taken off both terms, and GRPO is verl-agent's (``baseline_unit="row"``). Nothing is asked of the policy.

A place that was visited once, as every place is in a group of one, adds nothing; groups in which all or none succeed
still compare how long it took, or are equal. Groups may differ in size; action spans and snapshots are not read.
Without state keys, ``anchor="state"`` is an error.

Invariant: the added terms sum to 0 over each place, are exactly 0 for a place that was visited once, and with
``step_weight=0`` or without a repeated place the advantages are GRPO's bit for bit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pydantic import Field

from agentgym.episode import Group

from .anchors import AnchorOptions, anchor_of, merged, step_values
from .base import Credit, CreditMethod, TurnScores
from .grpo import group_stats, normalise, turn_advantages, turn_table
from .pooled import share
from .reweight import Array


class GigpoOptions(AnchorOptions):
    """Options of GiGPO; the others are those of :class:`~agentgym.trainers.credit.grpo.GrpoOptions`.

    Attributes:
        step_weight: factor on the comparison of turns.
        gamma: discount a turn.
    """

    step_weight: float = Field(default=1.0, ge=0)
    gamma: float = Field(default=0.95, ge=0, le=1)


class Gigpo(CreditMethod):
    """One advantage a turn: the episode's, plus the turn's among its like."""

    def __init__(self, options: GigpoOptions | None = None) -> None:
        self.options = options or GigpoOptions()

    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """Rows of kind ``turn`` for every turn of every completed episode."""
        return compare_turns(group, self.options)


def compare_turns(group: Group, options: GigpoOptions, bonuses: Mapping[int, Array] | None = None) -> Credit:
    """GRPO's advantages plus those among turns from the same place; ``bonuses`` as in :func:`.anchors.step_values`."""
    advantages = turn_advantages(group, options)
    values = step_values(group, options, options.gamma, bonuses)
    places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    named = {index: [anchor_of(turn, options.anchor) for turn in group.episodes[index].turns] for index in values}
    same = merged((name for names in named.values() for name in names), options.anchor_similarity)
    for index, names in named.items():
        for number, name in enumerate(names):
            places[same[name]].append((index, number))
    for visits in places.values():
        compared = normalise([float(values[index][number]) for index, number in visits], options.scale)
        for (index, number), value in zip(visits, compared, strict=True):
            advantages[index][number] += options.step_weight * value
    stats = group_stats(group, options)
    repeated = sum(len(visits) for visits in places.values() if len(visits) > 1)
    stats["anchor/repeated"] = share(repeated, sum(map(len, places.values())))
    return Credit(turn_table(group, advantages), stats)
