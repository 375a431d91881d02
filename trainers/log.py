"""The training log: one JSON object a line, append-only, cut back to the checkpoint that a run goes on from."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agentgym.errors import DataError


class Log:
    """``metrics.jsonl`` of a run.

    Args:
        path: the file.
        before: the iteration that comes next; later lines, left by a run that was killed, are dropped.

    Attributes:
        lines: all entries, oldest first.

    Raises:
        DataError: if a complete line is corrupt.
    """

    def __init__(self, path: Path, before: int) -> None:
        self._path = path
        self.lines: list[dict[str, Any]] = []
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True) if path.is_file() else [], 1):
            if not line.endswith(b"\n"):
                break
            try:
                entry = json.loads(line)
                kept = entry["iteration"] < before or (entry["kind"] == "eval" and entry["iteration"] == before)
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(f"{path}:{number}: not a log entry; restore the file or delete the line") from error
            if kept:
                self.lines.append(entry)
        write_lines(path, (json.dumps(entry) for entry in self.lines))

    def has(self, kind: str, iteration: int) -> bool:
        """Whether there is such an entry."""
        return any(entry["kind"] == kind and entry["iteration"] == iteration for entry in self.lines)

    def append(self, kind: str, iteration: int, stats: Mapping[str, float]) -> None:
        """Adds an entry; numbers that are not finite become null."""
        numbers = {key: value if math.isfinite(value) else None for key, value in stats.items()}
        entry = {"kind": kind, "iteration": iteration, **numbers}
        self.lines.append(entry)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry) + "\n")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes a file of lines atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".new")
    with unfinished.open("w", encoding="utf-8") as stream:
        for line in lines:
            stream.write(line + "\n")
    os.replace(unfinished, path)
