"""HGPO: turns are compared with turns that began in the same place after the same last places.

For k = 1, …, ``history`` + 1, turns whose last k places agree are one set, and their values (discounted return from the
turn on, less its penalty) are centred and divided by their population deviation (unless ``scale`` is ``none``), to a_k.
The advantage is the mean of the a_k that are not 0, weighted with (k + 1)^``alpha``; with ``base``, GRPO's advantage
takes part as k = 0. Longer histories tell apart what looks the same. Source: HGPO (ICLR 2026, the recipe in
verl-agent), where places are observations. Nothing is asked of the policy.

A turn has windows up to the number of turns so far, so early ones have fewer. A window that occurs once, as every one
does in a group of one, has no a_k; where none has, ``base`` leaves GRPO's advantage and otherwise the advantage is 0.
Groups in which all or none succeed still compare how long it took, or are equal and get GRPO's. Groups may differ in
size; action spans and snapshots are not read. Without state keys, ``anchor="state"`` is an error.

Invariant: with ``base`` and no repeated window the advantages are GRPO's bit for bit; each a_k sums to 0 over its set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import Field

from agentgym.episode import Group

from .anchors import Anchor, anchor_of, step_values
from .base import Credit, CreditMethod, TurnScores
from .grpo import GrpoOptions, group_stats, normalise, turn_advantages, turn_table
from .pooled import share
from .reweight import Array


class HgpoOptions(GrpoOptions):
    """Options of HGPO; the others are those of :class:`~agentgym.trainers.credit.grpo.GrpoOptions`.

    Attributes:
        history: most places before the present one that have to agree; as many as the policy is shown.
        alpha: longer windows weigh (k + 1) to this power.
        base: whether GRPO's advantage takes part.
        gamma: discount a turn.
        anchor: what makes two places the same, ``observation`` or true ``state``; without state keys, the latter is
            an error.
    """

    history: int = Field(default=2, ge=0)
    alpha: float = Field(default=1.0, ge=0)
    base: bool = True
    gamma: float = Field(default=0.95, ge=0, le=1)
    anchor: Anchor = "observation"


class Hgpo(CreditMethod):
    """One advantage a turn: a mean over ever longer histories."""

    def __init__(self, options: HgpoOptions | None = None) -> None:
        self.options = options or HgpoOptions()

    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """Rows of kind ``turn`` for every turn of every completed episode."""
        options = self.options
        values = step_values(group, options, options.gamma)
        base = turn_advantages(group, options)
        places = {index: [anchor_of(turn, options.anchor) for turn in group.episodes[index].turns] for index in values}
        compared: dict[int, list[list[float]]] = {
            index: [[float(advantage) if options.base else 0.0] for advantage in turns] for index, turns in base.items()
        }
        repeated = 0
        for length in range(1, options.history + 2):
            for visits in windows(places, length).values():
                flat = [float(values[index][turn]) for index, turn in visits]
                repeated += len(visits) if length == 1 and len(visits) > 1 else 0
                for (index, turn), value in zip(visits, normalise(flat, options.scale, ddof=0), strict=True):
                    compared[index][turn].append(float(value))
        advantages = {
            index: np.array([mixture(found, options.alpha) for found in turns]) for index, turns in compared.items()
        }
        stats = group_stats(group, options)
        stats["anchor/repeated"] = share(repeated, sum(map(len, places.values())))
        return Credit(turn_table(group, advantages), stats)


def windows(places: Mapping[int, Sequence[str]], length: int) -> dict[tuple[str, ...], list[tuple[int, int]]]:
    """(episode, turn) of all turns by their last ``length`` places; turns with a shorter past have none."""
    found: defaultdict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for index, seen in places.items():
        for turn in range(length - 1, len(seen)):
            found[tuple(seen[turn - length + 1 : turn + 1])].append((index, turn))
    return dict(found)


def mixture(compared: Sequence[float], alpha: float) -> float:
    """The mean of what is not 0, the k-th entry weighing (k + 1)^alpha; 0 if all entries are.

    Args:
        compared: GRPO's advantage (or 0), then a_1, a_2, …
        alpha: the power.
    """
    pairs: list[tuple[float, float]] = [((k + 1) ** alpha, value) for k, value in enumerate(compared) if value != 0]
    if len(pairs) == 1:
        return pairs[0][1]  # exact, whatever the weight
    total: Array = np.array([weight for weight, _ in pairs])
    return float(sum(weight * value for weight, value in pairs) / total.sum()) if pairs else 0.0
