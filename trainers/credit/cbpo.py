"""CBPO: groups are trees, and an advantage grows where playing on from one place ended in many ways.

The first members of a group are played as ever. The others are played on from turns of theirs at which the policy was
uncertain (:mod:`.branching`), so that several members share a prefix. A place that members part from is a node, the
beginning of the task one too; its value is the population's deviation of the rewards of all members that share the
prefix up to it. Node values are standardised over the group's nodes, and the turns from a node to the next one get
A + ``eta``·sign(A)·C, where C is the node's standardised value, cut to ± abs(A)/``phi``. A turn that several members
share gets the mean of their advantages, and is trained on once. Source: arXiv 2608.24300, on mathematics and search,
where all constants but the form are open; branching at turns, by replay, is this reading's.

Where no member parts from another (a trainer that does not branch, a group of one), where rewards are equal, and where
all nodes are worth the same, advantages are GRPO's. A state that cannot be reached again has no branch, and its group
is smaller. Groups may differ in size; action spans and state keys are not read.

Invariant: no advantage changes its sign, none changes by more than ``eta``/``phi`` of its size; with ``eta=0`` there
are no trees, and advantages are GRPO's bit for bit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from agentgym.episode import Group
from agentgym.errors import DataError

from .base import Credit, CreditMethod, CreditTable, SegmentCredit, TurnScores, output_length
from .branching import EntropyBranching
from .grpo import FLAT, GrpoOptions, group_stats, turn_advantages
from .pooled import Pooled, count
from .reweight import Array


class CbpoOptions(GrpoOptions):
    """Options of CBPO; the others are those of :class:`~agentgym.trainers.credit.grpo.GrpoOptions`.

    Attributes:
        eta: factor on the bounded value of a node; less than ``phi``.
        phi: the value of a node is cut to the size of the advantage divided by this.
        branch_share: share of a group that is played on from the others.
        alpha: how likely a place is to be parted from that is as uncertain as the beginning.
        gamma: how much more likely it becomes with each nat.
        path_decay: how fast it becomes less likely with the branches that an episode has.
        node_decay: the same with those that part from the very place.
        threshold: below it, a member is played from the start instead.
        apart: least turns between two places of an episode.
        most_a_node: most branches from one place.
        most_a_path: most branches from one episode.
        top: how many of the most probable ids count in the entropy of a token.
    """

    eta: float = Field(default=1.0, ge=0)
    phi: float = Field(default=2.0, gt=0)
    branch_share: float = Field(default=0.5, ge=0, lt=1)
    alpha: float = Field(default=0.5, ge=0, le=1)
    gamma: float = Field(default=1.0, ge=0)
    path_decay: float = Field(default=1.0, ge=0)
    node_decay: float = Field(default=1.0, ge=0)
    threshold: float = Field(default=0.1, ge=0, le=1)
    apart: int = Field(default=2, ge=1)
    most_a_node: int = Field(default=2, ge=1)
    most_a_path: int = Field(default=4, ge=1)
    top: int = Field(default=20, ge=2)

    @model_validator(mode="after")
    def _signs_are_kept(self) -> Self:
        if self.eta >= self.phi:
            raise ValueError("eta must be less than phi, or advantages could change their sign")
        return self


@dataclass(frozen=True)
class Node:
    """A place that members part from.

    Attributes:
        trunk: position of the episode that was played from the start; None for the beginning of the task.
        turn: the turn before which they part.
    """

    trunk: int | None
    turn: int


class Cbpo(CreditMethod):
    """GRPO's advantages on a tree, moved by how much the outcome varies from each node on."""

    def __init__(self, options: CbpoOptions | None = None) -> None:
        self.options = options or CbpoOptions()

    @property
    def branching(self) -> EntropyBranching | None:
        """None at coefficient 0."""
        o = self.options
        if o.eta == 0 or o.branch_share == 0:
            return None
        return EntropyBranching(
            share=o.branch_share,
            alpha=o.alpha,
            gamma=o.gamma,
            path_decay=o.path_decay,
            node_decay=o.node_decay,
            threshold=o.threshold,
            apart=o.apart,
            most_a_node=o.most_a_node,
            most_a_path=o.most_a_path,
            top=o.top,
        )

    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """Rows of kind ``turn``, one for each turn that is not another member's."""
        base = turn_advantages(group, self.options)
        trunks = trunks_of(group)
        members = _members(trunks, group)
        rewards = {index: self.options.reward_of(group.episodes[index]) for index in trunks}
        values = [float(np.std([rewards[index] for index in sharing])) for sharing in members.values()]
        worth = dict(zip(members, standardise(values), strict=True))
        rows = CreditTable.from_rows(self._rows(group, base, trunks, worth))
        stats = group_stats(group, self.options)
        stats["tree/nodes"] = count(len(members))
        stats["tree/branches"] = count(sum(index != trunk for index, trunk in trunks.items()))
        if values:
            stats["tree/node_value"] = Pooled(np.mean, np.array(values))
        return Credit(rows, stats)

    def _rows(
        self, group: Group, base: Mapping[int, Array], trunks: Mapping[int, int], worth: Mapping[Node, float]
    ) -> Iterator[SegmentCredit]:
        sharing: defaultdict[int, list[int]] = defaultdict(list)
        for index, trunk in trunks.items():
            sharing[trunk].append(index)
        for index, advantages in base.items():
            own = group.episodes[index].shared
            for turn in range(own, len(advantages)):
                alike = [i for i in sharing[index] if i == index or turn < group.episodes[i].shared]
                advantage = float(np.mean([base[i][turn] for i in alike])) if len(alike) > 1 else advantages[turn]
                value = worth[_node(index, turn, own, trunks[index], worth)]
                advantage = reach(float(advantage), value, self.options.eta, self.options.phi)
                yield SegmentCredit(index, turn, 0, output_length(group.episodes[index], turn), "turn", advantage)


def trunks_of(group: Group) -> dict[int, int]:
    """For each completed episode, the position of the one that it was played on from, or its own.

    Raises:
        DataError: if that one is not in the group.
    """
    completed = {i: episode for i, episode in enumerate(group.episodes) if episode.completed}
    starters = {episode.member: i for i, episode in completed.items() if episode.branch is None}
    found: dict[int, int] = {}
    for index, episode in completed.items():
        if episode.branch is not None and episode.branch[0] not in starters:
            raise DataError(
                f"{episode.task}, member {episode.member}: the group lacks member {episode.branch[0]}, which it was "
                "played on from; give the whole group"
            )
        found[index] = index if episode.branch is None else starters[episode.branch[0]]
    return found


def reach(advantage: float, value: float, eta: float, phi: float) -> float:
    """A + eta·sign(A)·clip(value, ± abs(A)/phi): the advantage, moved by the value of its node.

    Args:
        advantage: A.
        value: standardised value of the node.
        eta: factor, less than ``phi``.
        phi: bound.
    """
    bound = abs(advantage) / phi
    return advantage + eta * float(np.sign(advantage)) * min(max(value, -bound), bound)


def standardise(values: Sequence[float]) -> list[float]:
    """Values less their mean, over the population's deviation; exactly 0 if all are equal."""
    array = np.array(values, dtype=np.float64)
    if not len(array) or np.ptp(array) < FLAT:
        return [0.0] * len(array)
    standardised: list[float] = ((array - array.mean()) / array.std()).tolist()
    return standardised


def _members(trunks: Mapping[int, int], group: Group) -> dict[Node, list[int]]:
    """The nodes, and for each the positions of all who share the prefix up to it."""
    found: dict[Node, list[int]] = {Node(None, 0): list(trunks)} if trunks else {}
    for index, trunk in trunks.items():
        if index != trunk:
            place = Node(trunk, group.episodes[index].shared)
            found[place] = [
                other
                for other, its in trunks.items()
                if other == trunk or (its == trunk and group.episodes[other].shared >= place.turn)
            ]
    return found


def _node(index: int, turn: int, own: int, trunk: int, worth: Mapping[Node, float]) -> Node:
    """The last node at or before a turn on an episode's path."""
    if index != trunk:
        return Node(trunk, own)
    passed = [node for node in worth if node.trunk == trunk and node.turn <= turn]
    return max(passed, key=lambda node: node.turn, default=Node(None, 0))
