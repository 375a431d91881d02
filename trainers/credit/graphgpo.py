"""GraphGPO: GRPO's advantage, plus how near to success a turn led, among all turns of the group from the same place.

The episodes of a group make a directed graph: a turn is an edge from the place where it began to the place where it
ended, and the last turn of a success ends in success itself. With d the fewest edges from a place to success (for a
place that never led there, one more than the largest d that occurs), a turn to a place at d is worth
``reward_scale``·``gamma``^d, less its penalty. Turns from one place are compared as GRPO compares episodes (``scale``
is for both), and the result is added ``step_weight`` times. Source: arXiv 2605.26684, whose rewards are scaled by 10
and whose places are observations. Nothing is asked of the policy.

Without a success (also: in a group of one failure) all places are equally far and nothing is added, penalties aside; a
place that was left once adds nothing. When all succeed, shorter ways win. Groups may differ in size; action spans and
snapshots are not read. Without state keys, ``anchor="state"`` is an error.

Invariant: the added terms sum to 0 over each place, and with ``step_weight=0``, without a repeated place, or without a
success and penalties, the advantages are GRPO's bit for bit.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from agentgym.episode import Episode, Group
from agentgym.errors import ConfigError

from .anchors import AnchorOptions, anchor_of, merged
from .base import Credit, CreditMethod, TurnScores
from .grpo import group_stats, normalise, turn_advantages, turn_table
from .peer import succeeded
from .pooled import share

SUCCESS = None
"""The node that successes end in; places are texts."""

Place = str | None


class GraphGpoOptions(AnchorOptions):
    """Options of GraphGPO; the others are those of :class:`~agentgym.trainers.credit.grpo.GrpoOptions`.

    Attributes:
        step_weight: factor on the comparison of turns.
        gamma: discount an edge. Published: 0.1 for ALFWorld, 0.2 for WebShop; so small a number makes only
            ``scale="std"`` see differences beyond two edges.
        value: ``next`` is worth gamma^d(end); ``gain`` gamma^(d(end) - d(start) + 1), the released code's other form.
        success_threshold: least score of a success; None takes the environment's own word.
    """

    step_weight: float = Field(default=1.0, ge=0)
    gamma: float = Field(default=0.1, gt=0, le=1)
    value: Literal["next", "gain"] = "next"
    success_threshold: float | None = Field(default=None, ge=0, le=1)


class Edge(NamedTuple):
    """A turn: the position of its episode, its number, where it began and where it ended."""

    episode: int
    turn: int
    start: str
    end: Place


class GraphGpo(CreditMethod):
    """One advantage a turn: the episode's, plus the turn's among its like."""

    def __init__(self, options: GraphGpoOptions | None = None) -> None:
        self.options = options or GraphGpoOptions()

    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """Rows of kind ``turn`` for every turn of every completed episode."""
        options = self.options
        advantages = turn_advantages(group, options)
        edges = [
            edge
            for index, episode in enumerate(group.episodes)
            if episode.completed
            for edge in episode_edges(index, episode, options)
        ]
        met = (place for edge in edges for place in (edge.start, edge.end) if place is not None)
        same = merged(met, options.anchor_similarity)
        edges = [
            edge._replace(start=same[edge.start], end=None if edge.end is None else same[edge.end]) for edge in edges
        ]
        distance = distances(edges)
        leaving: defaultdict[str, list[Edge]] = defaultdict(list)
        for edge in edges:
            leaving[edge.start].append(edge)
        for visits in leaving.values():
            values = []
            for edge in visits:
                power = distance[edge.end] - (distance[edge.start] - 1 if options.value == "gain" else 0)
                penalty = options.penalty_of(group.episodes[edge.episode].turns[edge.turn])
                values.append(options.reward_scale * options.gamma**power - penalty)
            for edge, value in zip(visits, normalise(values, options.scale), strict=True):
                advantages[edge.episode][edge.turn] += options.step_weight * value
        stats = group_stats(group, options)
        stats["anchor/repeated"] = share(sum(len(v) for v in leaving.values() if len(v) > 1), len(edges))
        return Credit(turn_table(group, advantages), stats)


def episode_edges(index: int, episode: Episode, options: GraphGpoOptions) -> list[Edge]:
    """The edges of a completed episode.

    Raises:
        ConfigError: if the true state is wanted and the environment does not report it.
    """
    anchor = options.anchor
    starts = [anchor_of(turn, anchor) for turn in episode.turns]
    ends: list[Place] = [*starts[1:]]
    if episode.turns:
        last = episode.final_observation if anchor == "observation" else episode.turns[-1].next_state_key
        if last is None:
            raise ConfigError("the environment reports no state keys; set anchor 'observation'")
        ends.append(SUCCESS if succeeded(episode, options.success_threshold) else last)
    return [Edge(index, turn, *pair) for turn, pair in enumerate(zip(starts, ends, strict=True))]


def distances(edges: Iterable[Edge]) -> dict[Place, int]:
    """Fewest edges from each place to success; places that never lead there have one more than the largest of these."""
    edges = list(edges)
    before: defaultdict[Place, list[str]] = defaultdict(list)
    for edge in edges:
        before[edge.end].append(edge.start)
    found: dict[Place, int] = {SUCCESS: 0}
    waiting: deque[Place] = deque(found)
    while waiting:
        place = waiting.popleft()
        for earlier in before[place]:
            if earlier not in found:
                found[earlier] = found[place] + 1
                waiting.append(earlier)
    far = max(found.values()) + 1
    return {place: found.get(place, far) for edge in edges for place in (edge.start, edge.end)} | {SUCCESS: 0}
