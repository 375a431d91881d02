"""How a successful attempt by someone else is shown to a policy: numbered steps, what was seen beside what was done.

Steps that were refused or changed nothing are left out; observations are cut at their end to fit, actions never.
"""

from __future__ import annotations

from textwrap import shorten
from typing import Literal

from agentgym.episode import Episode, Turn

HEADER = "Another attempt at this task succeeded:"
OBSERVATION_CHARS = 60


def render_peer(
    peer: Episode,
    *,
    content: Literal["observations_actions", "actions"] = "observations_actions",
    max_chars: int = 4096,
) -> str | None:
    """The hint that shows a peer's steps.

    Args:
        peer: a successful episode.
        content: whether the start of each observation stands beside its action.
        max_chars: longest hint. If the steps do not fit, observations are left out, then steps from the middle.

    Returns:
        The text, or None if not even the first and the last step fit.
    """
    turns = [turn for turn in peer.turns if _matters(turn)]
    if not turns:
        return None
    if content == "observations_actions":
        text = _write(turns, range(len(turns)), observations=True)
        if len(text) <= max_chars:
            return text
    kept = list(range(len(turns)))
    while True:
        text = _write(turns, kept, observations=False)
        if len(text) <= max_chars:
            return text
        if len(kept) <= 2:
            return None
        del kept[len(kept) // 2]


def _matters(turn: Turn) -> bool:
    changed = turn.state_key is None or turn.next_state_key is None or turn.state_key != turn.next_state_key
    return turn.action_accepted is not False and changed


def _write(turns: list[Turn], kept: range | list[int], *, observations: bool) -> str:
    lines = [HEADER]
    for index in kept:
        turn = turns[index]
        seen = ""
        # The first observation is the one that everybody starts from, so it says nothing about the way.
        if observations and index > 0:
            seen = shorten(" ".join(turn.observation.split()), OBSERVATION_CHARS, placeholder=" ...") + " -> "
        lines.append(f"{index + 1}. {seen}{turn.action}")
    return "\n".join(lines)
