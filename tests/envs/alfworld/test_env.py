from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import agentgym
from agentgym.env import TextEnv
from agentgym.envs.alfworld.pack import read_pack, write_pack
from agentgym.errors import DataError, UnknownNameError

OFFICIAL_FAMILIES = {"place": 24, "look": 18, "clean": 31, "heat": 23, "cool": 21, "two": 17}


@pytest.fixture
def env() -> TextEnv:
    return agentgym.make("alfworld", split="generated_valid", expert_plan=True)


def test_passes_gymnasiums_checker() -> None:
    made = gymnasium.make("agentgym/ALFWorld-v0", split="generated_valid")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(made.unwrapped, skip_render_check=True)


def test_builtin_panels_hold_all_families_and_share_no_game() -> None:
    train, valid = (agentgym.panel("alfworld", split=name) for name in ("generated_train", "generated_valid"))
    assert len(train) >= 240 and len(valid) >= 60
    assert set(Counter(task.family for task in train)) == set(OFFICIAL_FAMILIES)
    assert set(Counter(task.family for task in valid)) == set(OFFICIAL_FAMILIES)
    assert not {task.digest for task in train} & {task.digest for task in valid}
    assert [task.id for task in valid] == sorted(task.id for task in valid)


def test_games_on_request_are_balanced_and_never_meet_across_splits() -> None:
    train, valid = (agentgym.panel("alfworld", split=name) for name in ("generated_train_37", "generated_valid_36"))
    assert len(train) == 37 and set(Counter(task.family for task in valid).values()) == {6}
    assert not {task.digest for task in train} & {task.digest for task in valid}


def test_winning_terminates_and_running_out_of_steps_truncates(env: TextEnv) -> None:
    _, info = env.reset(options={"task": 0})
    steps = 0
    terminated = truncated = False
    while not terminated:
        plan = info["expert_plan"]
        assert plan
        _, reward, terminated, truncated, info = env.step(plan[0])
        steps += 1
        assert reward == float(terminated) and not truncated
    assert info["success"] and info["score"] == 1.0 and steps == env.steps

    short = agentgym.make("alfworld", split="generated_valid", max_steps=2)
    short.reset(options={"task": 0})
    assert short.step("look")[2:4] == (False, False)
    _, reward, terminated, truncated, info = short.step("dance")
    assert (reward, terminated, truncated, info["success"]) == (0.0, False, True, False)
    assert short.step("look")[0] == "Nothing happens."  # the last result again, until reset


def test_a_win_on_the_last_step_is_no_truncation(env: TextEnv) -> None:
    _, info = env.reset(options={"task": 3})
    plan = info["expert_plan"]
    assert plan
    exact = agentgym.make("alfworld", split="generated_valid", max_steps=len(plan))
    exact.reset(options={"task": 3})
    for command in plan:
        _, _, terminated, truncated, _ = exact.step(command)
    assert terminated and not truncated


def test_snapshot_restores_state_steps_and_last_result(env: TextEnv) -> None:
    _, info = env.reset(seed=5, options={"task": 7})
    for _ in range(2):
        plan = info["expert_plan"]
        assert plan
        *last, info = env.step(plan[0])
    saved, keys = env.snapshot(), info["state_key"]
    rest = list(info["expert_plan"] or ())
    first = [env.step(command)[:4] for command in rest]

    other = agentgym.make("alfworld", split="generated_valid", expert_plan=True)
    observation, restored = other.restore(saved)
    assert (observation, restored["state_key"], other.steps) == (last[0], keys, 2)
    assert restored["admissible_actions"] == info["admissible_actions"] or rest
    assert [other.step(command)[:4] for command in rest] == first
    with pytest.raises(DataError):
        other.restore(b"\0\0\0\2{}nonsense")


def test_the_same_state_has_the_same_key_and_another_state_another_one(env: TextEnv) -> None:
    _, info = env.reset(options={"task": 1})
    key, moves = info["state_key"], [text for text in info["admissible_actions"] or () if text.startswith("go to")]
    assert env.step("help")[4]["state_key"] == key
    assert env.step(moves[0])[4]["state_key"] != key


def test_unknown_names_are_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="generated_valid"):
        agentgym.make("alfworld", split="generated_vaild")
    with pytest.raises(UnknownNameError, match="max_steps"):
        agentgym.make("alfworld", max_step=3)
    with pytest.raises(DataError, match="--data"):
        agentgym.make("alfworld", split="valid_unseen")


def test_a_corrupt_pack_is_named_with_its_line_and_nothing_is_loaded(tmp_path: Path) -> None:
    import lzma

    folder = tmp_path / "alfworld"
    folder.mkdir()
    games = read_pack(Path(agentgym.envs.alfworld.games.BUILTIN) / "generated_valid.jsonl.xz")[:3]
    file = folder / "valid_seen.jsonl.xz"
    write_pack(file, games)
    with pytest.raises(DataError, match="generated_valid"):  # games of another split
        agentgym.panel("alfworld", split="valid_seen", data=tmp_path)
    lines = lzma.decompress(file.read_bytes()).replace(b'"generated_valid"', b'"valid_seen"').split(b"\n")
    lines[1] = lines[1][:-7]
    file.write_bytes(lzma.compress(b"\n".join(lines)))
    with pytest.raises(DataError, match=r"valid_seen\.jsonl\.xz:2"):
        agentgym.panel("alfworld", split="valid_seen", data=tmp_path)


def test_official_panel_has_the_published_counts(shared_data: Path) -> None:
    panel = agentgym.panel("alfworld", split="valid_unseen", data=shared_data)
    assert Counter(task.family for task in panel) == OFFICIAL_FAMILIES
