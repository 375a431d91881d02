"""The manifest beside the packs: which games each holds, under which hashes, and in which wording.

It is a small JSON file, a pure function of the packs and of how they were made (no times, no paths), and is written
after them. Packs without a manifest can be played.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from agentgym.errors import DataError

NAME = "manifest.json"

LogicVersion = Literal["0.4.2", "2.1.1"]


class SplitManifest(BaseModel):
    """What is known of one pack.

    Attributes:
        games: number of games.
        families: family -> number of games.
        scenes: number of floor plans.
        skipped: reason -> trials of the source that are not games.
        content_sha256: hash of the decompressed pack.
        panel_sha256: hash of the panel (`agentgym.task.Panel.hash`).
        logic_version: wording that the games carry.
        upgraded_from: wording that they had before, if they were upgraded.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    games: int
    families: dict[str, int]
    scenes: int
    skipped: dict[str, int]
    content_sha256: str
    panel_sha256: str
    logic_version: LogicVersion = "0.4.2"
    upgraded_from: LogicVersion | None = None


class Manifest(BaseModel):
    """What is known of the packs of a folder, by split."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    environment: Literal["alfworld"] = "alfworld"
    splits: Mapping[str, SplitManifest]


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder of packs, or None if it has none.

    Raises:
        DataError: if it cannot be read or is not a manifest.
    """
    path = folder / NAME
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return _read(path, status.st_ino, status.st_size, status.st_mtime_ns)


def write_manifest(folder: Path, splits: Mapping[str, SplitManifest]) -> None:
    """Writes the manifest of a folder in one step."""
    text = json.dumps(Manifest(splits=splits).model_dump(mode="json"), indent=2, sort_keys=True)
    fresh = folder / f"{NAME}.new"
    fresh.write_text(f"{text}\n", encoding="utf-8")
    os.replace(fresh, folder / NAME)


@lru_cache(maxsize=8)
def _read(path: Path, *_identity: int) -> Manifest:
    try:
        return Manifest.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise DataError(f"{path}: cannot be read ({problem}); delete it, then import the data again") from error
