from __future__ import annotations

import warnings

import gymnasium
import pytest
from agentgym_guess import GuessEnv, panel
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from agentgym.env import CLOSE_TAG, NO_SEGMENT, OPEN_TAG, parse_tagged
from agentgym.errors import ConfigError, DataError, UnknownNameError


def env(**options: object) -> GuessEnv:
    return GuessEnv(panel("easy"), **options)  # type: ignore[arg-type]


def test_gymnasium_finds_nothing_wrong() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(render|spec).*")
        check_env(env())


def test_gymnasium_makes_it() -> None:
    made = gymnasium.make("agentgym/Guess-v0", split="hard", max_steps=3)
    _, info = made.reset(seed=0, options={"task": "hard/039"})
    assert info["task"] == "hard/039"
    assert [made.step("pass")[3] for _ in range(3)] == [False, False, True]


def test_reset_by_id_index_and_seed() -> None:
    game = env()
    assert game.reset(options={"task": 3}, seed=1)[1]["task"] == game.reset(options={"task": "easy/003"})[1]["task"]
    drawn = [game.reset(seed=seed)[1]["task"] for seed in range(30)]
    assert drawn == [game.reset(seed=seed)[1]["task"] for seed in range(30)] and len(set(drawn)) > 5
    assert game.reset(seed=4, options={"task": 0})[0] == game.reset(seed=4, options={"task": 0})[0]


def test_reset_refuses_what_does_not_exist() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'easy/003'"):
        env().reset(options={"task": "easy/03"})
    with pytest.raises(ConfigError, match="'taks'"):
        env().reset(options={"taks": 3})
    with pytest.raises(ConfigError, match="reset"):
        env().step("pass")
    with pytest.raises(ConfigError, match="max_steps"):
        env(max_steps=0)
    with pytest.raises(ConfigError, match="empty"):
        GuessEnv(panel("easy")[:0])


def test_info_and_the_end() -> None:
    game = env(max_steps=3, expert_plan=True)
    _, info = game.reset(seed=0, options={"task": 3})
    assert info["segment"] == NO_SEGMENT and info["action_accepted"] is None and info.get("expert_plan") == ("guess 3",)
    _, reward, terminated, truncated, info = game.step("guess 5")
    assert (reward, terminated, truncated, info["segment"], info["score"]) == (0.0, False, False, 0, 0.8)
    observation, reward, terminated, truncated, info = game.step("guess 3")
    assert (reward, terminated, truncated, info["segment"], info["success"]) == (1.0, True, False, 1, True)
    again = game.step("guess 4")
    assert again == (observation, 0.0, True, False, info) and game.steps == 2
    _, info = game.reset(seed=0, options={"task": 3})
    assert not info["success"]
    ends = [game.step("pass")[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    game.reset(seed=0, options={"task": 3})
    assert [game.step(action)[2:4] for action in ("pass", "pass", "guess 3")][-1] == (True, False)


@given(st.lists(st.sampled_from(["pass", "guess 1", "guess 9", "nonsense"]), max_size=6), st.text(max_size=5))
def test_a_snapshot_brings_back_the_state(actions: list[str], after: str) -> None:
    game, other = env(), env()
    observation, info = game.reset(seed=5, options={"task": 3})
    for action in actions:
        observation, _, _, _, info = game.step(action)
    assert other.restore(game.snapshot()) == (observation, info)
    assert other.step(after) == game.step(after) and other.steps == game.steps


@pytest.mark.parametrize("saved", [b"", b"\xff", b"[]", b'["easy/003", 0, [1]]', b"[1, 2, 3]", b"null"])
def test_what_is_no_snapshot_is_refused(saved: bytes) -> None:
    with pytest.raises(DataError, match="snapshot"):
        env().restore(saved)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("<action>go</action>", ("go", 8, 10, True)),
        ("I think.\n<action> go north \n</action> ok", ("go north", 18, 26, True)),
        ("<action>a</action> <action>b</action>", ("b", 27, 28, False)),
        ("<action>a <action>b</action>", ("b", 18, 19, False)),
        ("<action>a</action></action>", ("a", 8, 9, False)),
        ("<action><action>a</action></action>", ("a", 16, 17, False)),
        ("<action>a</action><action>b", ("a", 8, 9, False)),
        ("<action> </action>", ("", 8, 8, False)),
        ("  go ", ("go", 0, 0, False)),
        ("</action>go<action>", ("</action>go<action>", 0, 0, False)),
        ("", ("", 0, 0, False)),
    ],
)
def test_parse(output: str, expected: tuple[str, int, int, bool]) -> None:
    assert parse_tagged(output) == expected


@given(
    st.lists(st.one_of(st.sampled_from([OPEN_TAG, CLOSE_TAG, " ", "\n"]), st.text(max_size=4)), max_size=8).map("".join)
)
def test_parse_finds_what_it_says(output: str) -> None:
    action = parse_tagged(output)
    assert 0 <= action.start <= action.end <= len(output)
    if action.start < action.end:
        assert output[action.start : action.end] == action.text == action.text.strip()
    if action.well_formed:
        assert action.text and output.count(OPEN_TAG) == output.count(CLOSE_TAG) == 1
