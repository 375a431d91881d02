from __future__ import annotations

from typing import Any

import pytest

from agentgym.agents.prompts import render_peer
from agentgym.agents.prompts.peer import HEADER, OBSERVATION_CHARS
from agentgym.episode import Episode, Turn


@pytest.fixture
def long(make: Any) -> Episode:
    turns = [make.turn(f"go to shelf {n}", f"You are at   shelf {n}.\nIt is empty.") for n in range(9)]
    episode: Episode = make.episode(turns)
    return episode


def test_steps_are_numbered_and_the_first_observation_is_left_out(make: Any) -> None:
    peer = make.episode([make.turn("open drawer 1", "the room"), make.turn("take key 1", "A  key 1\nis here.")])
    assert render_peer(peer) == f"{HEADER}\n1. open drawer 1\n2. A key 1 is here. -> take key 1"
    assert render_peer(peer, content="actions") == f"{HEADER}\n1. open drawer 1\n2. take key 1"


def test_refused_and_idle_steps_are_left_out(make: Any) -> None:
    turns: list[Turn] = [
        make.turn("jump", accepted=False),
        make.turn("look", keys=("a", "a")),
        make.turn("open door"),
        make.turn("wait", accepted=None, keys=(None, None)),
    ]
    assert render_peer(make.episode(turns), content="actions") == f"{HEADER}\n1. open door\n2. wait"
    assert render_peer(make.episode(turns[:2])) is None


def test_long_observations_are_cut_at_their_end_and_actions_never(make: Any) -> None:
    action = "do " + "very " * 40 + "much"
    peer = make.episode([make.turn("start"), make.turn(action, "word " * 100)])
    text = render_peer(peer)
    assert text is not None
    seen, _, done = text.splitlines()[2].partition(" -> ")
    assert done == action and seen.startswith("2. word word") and len(seen) <= 3 + OBSERVATION_CHARS


def test_what_does_not_fit_is_left_out_in_order(long: Episode) -> None:
    whole = render_peer(long)
    actions = render_peer(long, content="actions")
    assert whole is not None and actions is not None and len(actions) < len(whole)
    assert render_peer(long, max_chars=len(whole)) == whole
    # Observations go first …
    assert render_peer(long, max_chars=len(whole) - 1) == actions
    # … then steps from the middle, one by one; numbers show the gap …
    shorter = render_peer(long, max_chars=len(actions) - 1)
    assert shorter is not None
    numbers = [int(line.partition(".")[0]) for line in shorter.splitlines()[1:]]
    assert numbers == [1, 2, 3, 4, 6, 7, 8, 9]
    # … the first and the last step stay to the end.
    ends = f"{HEADER}\n1. go to shelf 0\n9. go to shelf 8"
    assert render_peer(long, max_chars=len(ends)) == ends
    assert render_peer(long, max_chars=len(ends) - 1) is None


def test_the_limit_holds_whatever_it_is(long: Episode) -> None:
    for limit in range(1, 500, 7):
        text = render_peer(long, max_chars=limit)
        assert text is None or len(text) <= limit
