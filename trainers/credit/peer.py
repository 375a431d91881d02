"""Which successes of the group inform the teacher when another episode is judged.

Invariant: a peer is a completed success of the same group and never the episode itself; ties go to the lowest member,
so that the choice does not depend on the order of the episodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from pydantic import Field

from agentgym.agents.prompts import PEER_TOKENS, Hint, HintPlace, PeerContent, render_peer
from agentgym.episode import Episode, Group
from agentgym.errors import ConfigError
from agentgym.seeding import Seed

from .base import CreditOptions
from .pooled import Pooled, share

PeerChoice = Literal["shortest", "first", "random", "longest", "average", "other_task"]
"""Of the other successes the one with the fewest turns, the lowest member, a seeded draw, the one with the most turns;
with ``average``, all of them; or, with ``other_task``, a seeded draw of another group's successes."""


class PeerOptions(CreditOptions):
    """Options of methods whose teacher reads one other success of the group.

    Attributes:
        peer: which other success informs the teacher: the one with the fewest turns (``shortest``), the most
            (``longest``), the lowest member (``first``) or a seeded ``random`` draw.
        success_threshold: least score of a success; None takes the environment's own word.
        peer_content: what is shown of the peer's steps; see :data:`~agentgym.agents.prompts.PeerContent`.
        peer_max_tokens: most tokens of the peer; a longer one is shown in a shorter form.
        peer_place: where the peer stands in the prompt; see :data:`~agentgym.agents.prompts.HintPlace`.
    """

    peer: Literal["shortest", "first", "random", "longest"] = "shortest"
    success_threshold: float | None = Field(default=None, ge=0, le=1)
    peer_content: PeerContent = "observations_actions"
    peer_max_tokens: int = Field(default=PEER_TOKENS, ge=1)
    peer_place: HintPlace = "before_format"


class PeerRenderer(Protocol):
    """Writes a peer as text, in ever shorter forms."""

    def __call__(self, peer: Episode, *, content: PeerContent) -> tuple[str, ...]:
        """The forms, the fullest first."""
        ...


def peer_hints(group: Group, options: PeerOptions) -> dict[int, Hint]:
    """A hint for each completed episode that has another success in its group, by position."""
    chosen: dict[int, Episode] = {}
    for index, episode in enumerate(group.episodes):
        peers = choose_peers(group, index, options.peer, options.success_threshold) if episode.completed else []
        if peers:
            chosen[index] = group.episodes[peers[0]]
    written = write_peers(list(chosen.values()), options.peer_content, options.peer_place, options.peer_max_tokens)
    return dict(zip(chosen, written, strict=True))


def write_peers(
    peers: Sequence[Episode],
    content: PeerContent,
    place: HintPlace,
    max_tokens: int,
    render: PeerRenderer = render_peer,
) -> list[Hint]:
    """A hint for each peer, in order; a peer of many is written once, for that takes longer than all else here."""
    written: dict[int, Hint] = {}
    for peer in peers:
        if id(peer) not in written:
            written[id(peer)] = Hint(render(peer, content=content), place, max_tokens)
    return [written[id(peer)] for peer in peers]


def peer_coverage(group: Group, judged: Iterable[int]) -> Pooled:
    """The share of the completed episodes' turns that belong to the judged episodes."""
    turns = {index: len(episode.turns) for index, episode in enumerate(group.episodes) if episode.completed}
    return share(sum(turns[index] for index in judged), sum(turns.values()))


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
    """The positions of the peers of episode ``index``, in the order of their members; none without another success.

    For ``other_task``, the peer that another task's would stand in for.
    """
    others = [i for i, other in enumerate(group.episodes) if i != index and succeeded(other, threshold)]
    others.sort(key=lambda i: group.episodes[i].member)
    if not others or choice == "average":
        return others
    if choice == "shortest":
        return [min(others, key=lambda i: len(group.episodes[i].turns))]
    if choice == "longest":
        return [max(others, key=lambda i: len(group.episodes[i].turns))]
    if choice in ("first", "other_task"):
        return others[:1]
    episode = group.episodes[index]
    generator = Seed(episode.seed).child("peer", episode.member).generator()
    return [others[int(generator.integers(len(others)))]]
