"""Which successes of the group inform the teacher when another episode is judged.

Invariant: a peer is a completed success of the same group and never the episode itself; ties go to the lowest member,
so that the choice does not depend on the order of the episodes.
"""

from __future__ import annotations

from typing import Literal

from agentgym.episode import Episode, Group
from agentgym.errors import ConfigError
from agentgym.seeding import Seed

PeerChoice = Literal["shortest", "first", "random", "longest", "average"]
"""Of the other successes the one with the fewest turns, the lowest member, a seeded draw, the one with the most turns;
or, with ``average``, all of them."""


def succeeded(episode: Episode, threshold: float | None) -> bool:
    """Whether an episode is a success.

    Args:
        episode: the episode.
        threshold: least score of a success; None takes the environment's own word.

    Raises:
        ConfigError: if a completed episode does not report what is asked.
    """
    if not episode.completed:
        return False
    if threshold is None:
        if episode.success is None:
            raise ConfigError(f"{episode.env} does not report success for {episode.task}; set `success_threshold`")
        return episode.success
    if episode.score is None:
        raise ConfigError(f"{episode.env} reports no score for {episode.task}; unset `success_threshold`")
    return episode.score >= threshold


def choose_peers(group: Group, index: int, choice: PeerChoice, threshold: float | None) -> list[int]:
    """The positions of the peers of episode ``index``, in the order of their members; none without another success."""
    others = [i for i, other in enumerate(group.episodes) if i != index and succeeded(other, threshold)]
    others.sort(key=lambda i: group.episodes[i].member)
    if not others or choice == "average":
        return others
    if choice == "shortest":
        return [min(others, key=lambda i: len(group.episodes[i].turns))]
    if choice == "longest":
        return [max(others, key=lambda i: len(group.episodes[i].turns))]
    if choice == "first":
        return others[:1]
    episode = group.episodes[index]
    generator = Seed(episode.seed).child("peer", episode.member).generator()
    return [others[int(generator.integers(len(others)))]]
