from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import agentgym
from agentgym.episode import Episode, Group, Sampling, Segment, Turn, read_episodes
from agentgym.errors import ConfigError, DataError

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ids = st.none() | st.lists(st.integers(0, 2**31), max_size=4).map(tuple)
finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    output = draw(text)
    start = draw(st.integers(0, len(output)))
    return Turn(
        observation=draw(text),
        prompt_ids=draw(ids),
        output_ids=draw(ids),
        output_logprobs=draw(st.none() | st.lists(finite, max_size=4).map(tuple)),
        output_text=output,
        action=draw(text),
        action_chars=(start, draw(st.integers(start, len(output)))),
        action_span=draw(st.none() | st.just((0, 1))),
        well_formed=draw(st.booleans()),
        action_accepted=draw(st.none() | st.booleans()),
        reward=draw(finite),
        state_key=draw(st.none() | text),
        next_state_key=draw(st.none() | text),
        admissible=draw(st.none() | st.lists(text, max_size=3).map(tuple)),
        finish_reason=draw(st.sampled_from([None, "stop", "length"])),
        seconds=draw(st.none() | st.just(0.25)),
    )


def episode(*played: Turn, **fields: Any) -> Episode:
    base: dict[str, Any] = {"env": "e", "split": "s", "task": "t", "task_digest": "d", "family": "f", "agent": "a"}
    return Episode(**{**base, "status": "ok", "success": True, "score": 1.0, **fields}, turns=played)


def turn(**fields: Any) -> Turn:
    base: dict[str, Any] = {"observation": "o", "output_text": "", "action": "", "action_chars": (0, 0)}
    return Turn(**{**base, "well_formed": True, "reward": 0.0, **fields})


@given(st.lists(turns(), max_size=3), st.none() | st.builds(Sampling, stop=st.just(("</action>",))), text)
def test_json_is_one_line_and_comes_back_equal(played: list[Turn], sampling: Sampling | None, goal: str) -> None:
    whole = episode(*played, sampling=sampling, goal=goal, seed=(0, "t", 1), episode_return=0.1 + 0.2)
    line = whole.to_json()
    assert "\n" not in line and json.loads(line)["return"] == 0.1 + 0.2
    assert Episode.from_json(line) == whole
    assert Episode.from_json(line).to_json() == line


def test_segments_are_the_turn_the_action_and_what_precedes_it() -> None:
    tagged = turn(
        output_text="hm <action>go</action>",
        output_ids=(5, 6, 7, 8),
        action="go",
        action_chars=(11, 13),
        action_span=(2, 3),
    )
    plain = turn(output_text="go", action="go", action_chars=(0, 2))
    nothing = turn(output_text="hm", output_ids=(5,), action="hm")
    assert episode(tagged, plain, nothing).segments == (
        Segment(turn=0, kind="turn", chars=(0, 22), tokens=(0, 4)),
        Segment(turn=0, kind="action", chars=(11, 13), tokens=(2, 3)),
        Segment(turn=0, kind="think", chars=(0, 11), tokens=(0, 2)),
        Segment(turn=1, kind="turn", chars=(0, 2), tokens=None),
        Segment(turn=1, kind="action", chars=(0, 2), tokens=None),
        Segment(turn=2, kind="turn", chars=(0, 2), tokens=(0, 1)),
    )


def test_context_ids() -> None:
    played = (turn(prompt_ids=(1, 2), output_ids=(3,)), turn(prompt_ids=(4,), output_ids=(5, 6)))
    assert [episode(*played, style="windowed").context_ids(at) for at in (0, 1)] == [(1, 2), (4,)]
    assert [episode(*played, style="append").context_ids(at) for at in (0, 1)] == [(1, 2), (1, 2, 3, 4)]
    with pytest.raises(ConfigError, match="no token ids"):
        episode(turn()).context_ids(0)


def test_not_known_is_not_zero() -> None:
    broken = episode(status="engine_error", success=None, score=None)
    assert not broken.completed and broken.success is None
    assert json.loads(broken.to_json())["score"] is None
    assert episode(status="truncated").completed


def test_numbers_that_no_file_can_hold_are_refused() -> None:
    with pytest.raises(ValidationError):
        turn(reward=float("nan"))
    with pytest.raises(ValidationError):
        turn(output_logprobs=(float("-inf"),))


@pytest.mark.parametrize("line", ["", "{", "[]", "null", '{"task": 1}', "\x00"])
def test_what_is_no_episode_is_named(line: str) -> None:
    with pytest.raises(DataError, match="here:7: not an episode"):
        Episode.from_json(line, "here:7")


def test_unknown_fields_are_refused() -> None:
    line = json.dumps({**json.loads(episode().to_json()), "extra": 1})
    with pytest.raises(DataError, match="extra"):
        Episode.from_json(line)


def test_reading_a_run(tmp_path: Path) -> None:
    file = tmp_path / "episodes.jsonl"
    one = episode(turn(observation="a\u2028b\x85c"))
    file.write_text(one.to_json() + "\n" + one.to_json() + "\n" + one.to_json()[:30])
    assert list(agentgym.load_episodes(tmp_path)) == list(read_episodes(file)) == [one, one]
    file.write_text(one.to_json() + "\n{}\n")
    with pytest.raises(DataError, match=r"episodes\.jsonl:2"):
        list(read_episodes(tmp_path))
    with pytest.raises(DataError, match="no such file"):
        list(read_episodes(tmp_path / "absent"))


def test_a_group_is_of_one_task() -> None:
    assert len(Group(episodes=(episode(member=0), episode(member=1)))) == 2
    with pytest.raises(ValidationError, match="all of one task"):
        Group(episodes=(episode(), episode(task_digest="other")))
    with pytest.raises(ValidationError, match="one or more"):
        Group(episodes=())


@pytest.mark.parametrize(
    ("exclude", "admissible", "open_"),
    [
        ((), ("go north", "look"), ("go north", "look")),
        (("look",), ("go north", "look", "look around"), ("go north",)),
        (("look", "go"), ("go north", "look"), ("go north", "look")),
        ((), (), None),
        ((), None, None),
    ],
)
def test_choices(exclude: tuple[str, ...], admissible: tuple[str, ...] | None, open_: tuple[str, ...] | None) -> None:
    assert Sampling(restrict="admissible", exclude=exclude).choices(admissible) == open_
    assert Sampling(exclude=exclude).choices(admissible) is None
