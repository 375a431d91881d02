from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.episode import Episode, Status, Turn, read_episodes
from agentgym.errors import DataError, RunMismatchError
from agentgym.runs import Result, RunDir, owed

IDENTITY: dict[str, Any] = {"command": "eval", "seed": 0, "sampling": {"temperature": 1.0, "stop": []}}


def episode(task: str = "a", member: int = 0, status: Status = "ok", **fields: Any) -> Episode:
    turn = Turn(
        observation="you \u2028 see",
        output_text="go",
        action="go",
        action_chars=(0, 2),
        well_formed=False,
        action_accepted=False,
        reward=1.0,
    )
    done = status in ("ok", "truncated")
    return Episode(
        env="e",
        split="s",
        task=task,
        task_digest="d",
        family="f",
        member=member,
        agent="a",
        turns=(turn,),
        status=status,
        success=True if done else None,
        score=1.0 if done else None,
        **fields,
    )


def test_what_is_recorded_is_there_when_the_run_is_opened_again(tmp_path: Path) -> None:
    out = tmp_path / "new" / "run"
    with RunDir.open(out, IDENTITY) as run:
        run.append(episode("a"))
        run.append(episode("b", status="env_error", error="x"))
        first = run.results
    assert json.loads((out / "run.json").read_text()) == IDENTITY
    with RunDir.open(out, IDENTITY) as run:
        assert run.results == first
        assert run.results["a", 0] == Result("f", "ok", True, 1.0, 1, 1, 1, 1, None)
        run.append(episode("b"))
    with RunDir.open(out, IDENTITY) as run:  # the last record of an entry counts
        assert run.results["b", 0].status == "ok" and len(run.results) == 2
    assert [found.task for found in read_episodes(out)] == ["a", "b", "b"]


@pytest.mark.parametrize("torn", [1, 40, -1])
def test_a_torn_last_line_is_cut_off_and_owed_again(tmp_path: Path, torn: int) -> None:
    with RunDir.open(tmp_path, IDENTITY) as run:
        run.append(episode("a"))
    file = tmp_path / "episodes.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:torn])
    assert [found.task for found in read_episodes(tmp_path)] == ["a"]
    with RunDir.open(tmp_path, IDENTITY) as run:
        assert list(run.results) == [("a", 0)]
        assert file.read_bytes() == whole
        run.append(episode("b"))
    assert [found.task for found in read_episodes(tmp_path)] == ["a", "b"]


def test_a_corrupt_line_is_named(tmp_path: Path) -> None:
    with RunDir.open(tmp_path, IDENTITY) as run:
        run.append(episode("a"))
    with (tmp_path / "episodes.jsonl").open("a") as stream:
        stream.write('{"task": 3}\n')
    with pytest.raises(DataError, match=r"episodes\.jsonl:2"):
        RunDir.open(tmp_path, IDENTITY)
    (tmp_path / "episodes.jsonl").write_text("")
    RunDir.open(tmp_path, IDENTITY).close()  # the failed try has let go of the folder
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(DataError, match=r"run\.json is corrupt"):
        RunDir.open(tmp_path, IDENTITY)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({**IDENTITY, "seed": 1}, "seed is 0 there and 1 here"),
        ({**IDENTITY, "sampling": {"temperature": 0.4, "stop": []}}, "sampling.temperature is 1.0 there and 0.4 here"),
        ({**IDENTITY, "sampling": None}, "sampling is not given there and null here|sampling.stop is"),
        ({**IDENTITY, "new": "x"}, 'new is not given there and "x" here'),
    ],
)
def test_another_run_is_refused_and_nothing_changes(tmp_path: Path, other: dict[str, Any], words: str) -> None:
    with RunDir.open(tmp_path, IDENTITY) as run:
        run.append(episode())
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(RunMismatchError, match=words) as caught:
        RunDir.open(tmp_path, other)
    assert "--out" in str(caught.value)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_folder_of_someone_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(RunMismatchError, match="not empty"):
        RunDir.open(tmp_path, IDENTITY)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(RunMismatchError, match="not a folder"):
        RunDir.open(tmp_path / "thesis.tex", IDENTITY)


def test_a_start_that_was_killed_at_once_can_be_repeated(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("")
    (tmp_path / "run.json.new").write_text("{")
    with RunDir.open(tmp_path, IDENTITY) as run:
        assert run.results == {}


def test_a_second_process_is_refused_until_the_first_one_dies(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib, agentgym.runs as runs\n"
        f"run = runs.RunDir.open(pathlib.Path(sys.argv[1]), {IDENTITY!r})\n"
        "sys.stdout.write('held\\n'); sys.stdout.flush(); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(RunMismatchError, match="another process"):
            RunDir.open(tmp_path, IDENTITY)
        holder.kill()
    RunDir.open(tmp_path, IDENTITY).close()


def test_a_file_that_says_the_same_is_not_written_again(tmp_path: Path) -> None:
    with RunDir.open(tmp_path, IDENTITY) as run:
        run.write("summary.json", "{}\n")
        before = (tmp_path / "summary.json").stat()
        run.write("summary.json", "{}\n")
        after = (tmp_path / "summary.json").stat()
        assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
        run.write("summary.json", "[]\n")
    assert (tmp_path / "summary.json").read_text() == "[]\n"


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), unique=True),
    st.dictionaries(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3)),
        st.sampled_from(["ok", "truncated", "env_error", "agent_error", "engine_error"]),
    ),
)
def test_owed_is_the_plan_less_what_is_completed(plan: list[tuple[str, int]], statuses: dict[Any, Any]) -> None:
    recorded = {key: Result("f", status, None, None, 0, 0, 0, 0, None) for key, status in statuses.items()}
    due = list(owed(plan, recorded))
    assert due == [key for key in plan if statuses.get(key) not in ("ok", "truncated")]
