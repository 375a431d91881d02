"""Which success of the group stands in front of the teacher when another episode is judged.

Invariant: a peer is a completed success of the same group and never the episode itself; ties go to the lowest member,
so that the choice does not depend on the order of the episodes.
"""

from __future__ import annotations

from typing import Literal

from agentgym.episode import Episode, Group
from agentgym.errors import ConfigError
from agentgym.seeding import Seed

PeerChoice = Literal["shortest", "first", "random", "longest"]


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


def choose_peer(group: Group, index: int, choice: PeerChoice, threshold: float | None) -> int | None:
    """The position of the peer of episode ``index``, or None if the group has no other success."""
    others = [i for i, other in enumerate(group.episodes) if i != index and succeeded(other, threshold)]
    if not others:
        return None
    others.sort(key=lambda i: group.episodes[i].member)
    if choice == "shortest":
        return min(others, key=lambda i: len(group.episodes[i].turns))
    if choice == "longest":
        return max(others, key=lambda i: len(group.episodes[i].turns))
    if choice == "first":
        return others[0]
    episode = group.episodes[index]
    generator = Seed(episode.seed).child("peer", episode.member).generator()
    return others[int(generator.integers(len(others)))]
