from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym.errors import DataError
from agentgym.trainers.log import Log, write_lines


def entries(path: Path) -> list[tuple[str, int]]:
    return [(entry["kind"], entry["iteration"]) for entry in map(json.loads, path.read_text().splitlines())]


def full(path: Path) -> None:
    log = Log(path, before=0)
    for number in range(3):
        log.append("eval", number, {"eval/success": 0.5})
        log.append("train", number, {"rollout/success": number / 2})


def test_it_keeps_what_the_checkpoint_knows(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "metrics.jsonl"
    full(path)
    log = Log(path, before=2)
    # The evaluation before iteration 2 was of the very weights that the run goes on with.
    assert entries(path) == [("eval", 0), ("train", 0), ("eval", 1), ("train", 1), ("eval", 2)]
    assert log.has("eval", 2) and not log.has("train", 2) and not log.has("eval", 3)
    log.append("train", 2, {})
    assert [entry["kind"] for entry in Log(path, before=3).lines] == ["eval", "train", "eval", "train", "eval", "train"]


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    full(path)
    path.write_bytes(path.read_bytes() + b'{"kind": "train", "iter')
    Log(path, before=9)
    assert len(entries(path)) == 6


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '{"kind": "train"}', '{"kind": "train", "iteration": "x"}'])
def test_a_corrupt_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"kind": "train", "iteration": 0}}\n{line}\n')
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"metrics\.jsonl:2: not a log entry"):
        Log(path, before=5)
    assert path.read_bytes() == before


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    log = Log(tmp_path / "metrics.jsonl", before=0)
    log.append("train", 0, {"a": float("nan"), "b": float("inf"), "c": 1.5})
    text = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(text) == {"kind": "train", "iteration": 0, "a": None, "b": None, "c": 1.5} and "NaN" not in text


def test_lines_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    write_lines(path, ["a", "b"])

    def breaking() -> object:
        yield "c"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_lines(path, breaking())  # type: ignore[arg-type]
    assert path.read_text() == "a\nb\n"
