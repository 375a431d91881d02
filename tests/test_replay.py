from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agentgym_guess import GuessEnv

import agentgym
from agentgym.agent import Agent, Opening, Reply, Traits
from agentgym.agents.scripted import PlayerAgent
from agentgym.env import Info
from agentgym.errors import ConfigError, ContextFullError, DataError, UnknownNameError
from agentgym.evaluate import evaluate
from agentgym.replay import Difference, Replayed, replay


def differences(run: Path, **options: Any) -> tuple[Replayed, list[str]]:
    found: list[str] = []

    def note(name: str, difference: Difference) -> None:
        found.append(f"{name}: {difference}")

    done = replay(run, on_difference=note, **options)
    assert done.different == len(found)
    return done, found


class Talker:
    """Answers like a model: a thought, then an action in tags; some outputs are malformed, some actions refused."""

    traits = Traits("talker", env_options={"expert_plan": True})

    def start(self, opening: Opening, /) -> Talker:
        self.draw = opening.seed.generator()
        return self

    def act(self, observation: str, info: Info, /) -> Reply:
        number = int(self.draw.integers(12))
        text = "no idea" if number == 11 else f"I think <action> guess {number} </action>"
        return Reply(text)

    def finish(self, player: object, /) -> None:
        pass


def edited(run: Path, line: int, change: Callable[[dict[str, Any]], None]) -> None:
    file = run / "episodes.jsonl"
    lines = file.read_text().splitlines()
    episode = json.loads(lines[line])
    change(episode)
    lines[line] = json.dumps(episode)
    file.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("agent", ["random", "expert", Talker()], ids=["random", "expert", "talker"])
def test_what_was_played_replays(tmp_path: Path, agent: str | Agent) -> None:
    evaluate("guess", agent, repeats=3, max_steps=4, seed=7, out=tmp_path, concurrency=1)
    assert differences(tmp_path) == (Replayed(36, 0, 0), [])


def test_alfworld_replays(tmp_path: Path) -> None:
    evaluate("alfworld", "random", limit=4, max_steps=20, out=tmp_path)
    assert differences(tmp_path) == (Replayed(4, 0, 0), [])
    edited(tmp_path, 2, lambda episode: episode["turns"][5].update(state_key="0" * 32))
    _, (found,) = differences(tmp_path)
    assert "turn 5, state_key" in found


def test_replaying_changes_nothing_in_the_folder(tmp_path: Path) -> None:
    evaluate("guess", "random", out=tmp_path)
    before = {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in tmp_path.iterdir()}
    differences(tmp_path)
    assert {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in tmp_path.iterdir()} == before


def turn(number: int, **values: object) -> Callable[[dict[str, Any]], None]:
    return lambda episode: episode["turns"][number].update(values)


def whole(**values: object) -> Callable[[dict[str, Any]], None]:
    return lambda episode: episode.update(values)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (turn(1, observation="Lower!"), 'turn 1, observation: expected "Lower!", got "'),
        (turn(2, state_key=None), "turn 2, state_key: expected null, got"),
        (turn(0, admissible=["pass"]), 'turn 0, admissible: expected ["pass"], got ["guess 0"'),
        (turn(1, action_accepted=None), "turn 1, action_accepted: expected null, got true"),
        (turn(2, reward=1e-17), "turn 2, reward: expected 1e-17, got 0.0"),
        (turn(0, next_state_key="x"), 'turn 0, next_state_key: expected "x"'),
        (turn(0, action_chars=[0, 3]), "turn 0, action: expected"),
        (turn(1, well_formed=False), "turn 1, action: expected"),
        (whole(final_observation="?"), 'final_observation: expected "?"'),
        (whole(status="ok"), 'status: expected "ok", got "truncated"'),
        (whole(success=True), "success: expected true, got false"),
        (whole(score=0.125), "score: expected 0.125"),
        (whole(**{"return": 3.0}), "episode_return: expected 3.0, got 0.0"),
        (whole(goal="win"), 'goal: expected "win", got "guess the number"'),
        (whole(task_digest="0"), 'task_digest: expected "0"'),
        (whole(task="easy/999"), 'task: expected "easy/999", got null'),
        (lambda episode: episode["turns"].pop(), 'turn 3, course: expected "truncated", got "goes on"'),
        (lambda episode: episode["turns"].append(episode["turns"][0]), 'turn 4, course: expected "goes on"'),
        (turn(1, observation="changed", reward=2.0), "turn 1, observation"),
    ],
)
def test_any_change_is_found(tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str) -> None:
    evaluate("guess", Pass(), limit=3, max_steps=4, out=tmp_path)
    edited(tmp_path, 1, change)
    done, (found,) = differences(tmp_path)
    assert done == Replayed(3, 0, 1) and words in found
    assert found.startswith("episodes.jsonl:2, task ")


class Pass:
    """Never guesses, and breaks where it is told to."""

    traits = Traits("pass")

    def __init__(self, breaks: int | None = None) -> None:
        self.breaks = breaks

    def start(self, opening: Opening, /) -> Pass:
        if self.breaks == -1:
            raise ValueError("no start")
        self.turn = 0
        return self

    def act(self, observation: str, info: Info, /) -> str:
        if self.turn == self.breaks:
            raise ValueError("no idea")
        self.turn += 1
        return "pass"

    def finish(self, player: object, /) -> None:
        pass


@pytest.mark.parametrize("breaks", [-1, 0, 1, 2])
def test_broken_episodes_are_played_up_to_where_they_broke(tmp_path: Path, breaks: int) -> None:
    evaluate("guess", Pass(breaks), limit=2, out=tmp_path, concurrency=1)
    assert differences(tmp_path) == (Replayed(2, 2, 0), [])
    if breaks > 0:
        edited(tmp_path, 0, turn(breaks - 1, reward=0.5))
        assert differences(tmp_path)[1][0].endswith(f"turn {breaks - 1}, reward: expected 0.5, got 0.0")
    if breaks == 0:
        edited(tmp_path, 0, whole(final_observation="I think of nothing."))
        assert "final_observation" in differences(tmp_path)[1][0]


def test_an_environment_that_breaks_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate("guess", Pass(), limit=3, max_steps=4, out=tmp_path, concurrency=1)
    played, steps = GuessEnv._play, []

    def breaks(self: GuessEnv, action: str) -> Any:
        steps.append(action)
        if len(steps) == 6:
            raise RuntimeError("out of order")
        return played(self, action)

    monkeypatch.setattr(GuessEnv, "_play", breaks)
    done, (found,) = differences(tmp_path)
    assert done == Replayed(3, 0, 1) and "easy/001" in found
    assert 'turn 1, course: expected "goes on", got "RuntimeError: out of order"' in found


def test_an_episode_that_its_agent_ended_for_lack_of_room_replays(tmp_path: Path) -> None:
    class Full:
        turn = 0

        def act(self, observation: str, info: Info) -> str:
            self.turn += 1
            if self.turn == 3:
                raise ContextFullError("the conversation is full")
            return "pass"

    evaluate("guess", PlayerAgent("full", lambda opening: Full()), limit=2, out=tmp_path)
    assert {episode.status for episode in agentgym.load_episodes(tmp_path)} == {"truncated"}
    assert differences(tmp_path) == (Replayed(2, 0, 0), [])


def test_what_an_agent_asks_of_the_environment_is_recorded(tmp_path: Path) -> None:
    class Patient(Pass):
        traits = Traits("patient", env_options={"max_steps": 3, "expert_plan": True})

    evaluate("guess", Patient(), limit=2, out=tmp_path)
    assert json.loads((tmp_path / "run.json").read_text())["env_options"] == {"max_steps": 3}
    assert differences(tmp_path) == (Replayed(2, 0, 0), [])
    evaluate("guess", "expert", limit=2, out=tmp_path / "plain")
    assert "env_options" not in json.loads((tmp_path / "plain" / "run.json").read_text())


def test_options_that_cannot_be_recorded_are_refused(tmp_path: Path) -> None:
    class Odd(Pass):
        traits = Traits("odd", env_options={"delay": {1, 2}})

    with pytest.raises(ConfigError, match="delay"):
        evaluate("guess", Odd(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_environment_starts_from_the_recorded_seed(tmp_path: Path) -> None:
    evaluate("guess", Pass(), limit=1, seed=3, out=tmp_path)
    edited(tmp_path, 0, lambda episode: episode["seed"].__setitem__(0, 4))
    assert "turn 0, observation" in differences(tmp_path)[1][0]
    edited(tmp_path, 0, whole(seed=[]))
    with pytest.raises(DataError, match=r"episodes\.jsonl:1: .*seed tree"):
        differences(tmp_path)


def test_training_runs_replay(tmp_path: Path) -> None:
    """The layout of a training run, with episodes of an evaluation."""
    evaluate("guess", "random", limit=5, max_steps=6, out=tmp_path / "easy")
    evaluate("guess", "random", split="hard", limit=4, max_steps=6, out=tmp_path / "hard")
    run = tmp_path / "train"
    for part, source in (("rollouts", "hard"), ("evaluations", "easy")):
        (run / part).mkdir(parents=True)
        for number in range(2):
            shutil.copy(tmp_path / source / "episodes.jsonl", run / part / f"{number:06d}.jsonl")
    env = {"name": "guess", "split": "hard", "eval_split": "easy", "data": "", "max_steps": 6}
    recipe = {"env": env, "policy": {"model": "m"}, "credit": {"method": "grpo"}, "run": {"seed": 0}}
    recipe["eval"] = {"limit": None, "repeats": 1}
    record = {"command": "train", "recipe": recipe, "eval_panel": {"hash": "h", "tasks": 5}}
    (run / "run.json").write_text(json.dumps(record))
    assert differences(run) == (Replayed(18, 0, 0), [])
    file = run / "rollouts" / "000001.jsonl"
    file.write_text(file.read_text().replace("Higher.", "Higher!"))
    done, found = differences(run)
    assert done.different == len(found) > 0 and all("000001.jsonl" in line for line in found)
    env["data"] = str(tmp_path / "absent")
    (run / "run.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match="absent: no such folder"):
        differences(run)
    assert differences(run, data=tmp_path)[0].episodes == 18


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no run directory"):
        differences(tmp_path / "absent")
    for text, words in (("{", "corrupt"), ("[]", "name a run"), ('{"command": "sft"}', "name a run")):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(DataError, match=words):
            differences(tmp_path)
    evaluate("guess", "random", limit=2, out=tmp_path / "run")
    identity = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps({**identity, "env_options": {"dely": 1}}))
    with pytest.raises(UnknownNameError, match="delay"):
        differences(tmp_path / "run")
    (tmp_path / "run" / "episodes.jsonl").write_text('{"torn')
    with pytest.raises(DataError, match="no episodes yet"):
        differences(tmp_path / "run")
