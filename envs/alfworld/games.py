"""Where games come from: official packs in a data folder, the built-in generated packs, and games made on request.

Invariant: games are in ascending order of their ids, whatever machine or file system; generated and official games
never share a split.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import lru_cache
from pathlib import Path

from agentgym.errors import DataError, UnknownNameError
from agentgym.registry import SplitInfo
from agentgym.task import Panel, Task

from .game import Game, compile_game
from .generator import SPLITS as GENERATED
from .generator import generate_split
from .pack import read_pack
from .record import FAMILIES, Record

OFFICIAL = ("train", "valid_seen", "valid_unseen")
BUILTIN = Path(__file__).parent / "data"
COMPILED_KEPT = 256
"""Compiled games kept per pack, about 0.1 MB each; the one used longest ago goes first."""

_ON_REQUEST = re.compile(rf"({'|'.join(GENERATED)})_([1-9]\d{{0,6}})")


class Games:
    """The games of a split, compiled when first played.

    Attributes:
        panel: the tasks, one per game.
        records: the games, in panel order.
    """

    def __init__(self, split: str, records: tuple[Record, ...], source: str) -> None:
        tasks = tuple(Task(record.id, record.family, record.digest) for record in records)
        self.panel = Panel("alfworld", split, tasks, source)
        self.records = records
        self._compiled: OrderedDict[tuple[int, str], Game] = OrderedDict()

    def game(self, index: int, logic_version: str) -> Game:
        """The compiled game ``panel[index]``."""
        key = (index, logic_version)
        game = self._compiled.pop(key, None)
        if game is None:
            game = compile_game(self.records[index], logic_version=logic_version)
        self._compiled[key] = game
        while len(self._compiled) > COMPILED_KEPT:
            self._compiled.popitem(last=False)
        return game


_LOADED: dict[Path, Games] = {}
"""Games by file, so that all environments of a process share what is compiled."""


def splits(data: Path | None) -> tuple[SplitInfo, ...]:
    """All splits with their number of games; None where the data is not there."""
    found = [SplitInfo(name, len(load(name, None).panel), "built in, generated") for name in GENERATED]
    for name in OFFICIAL:
        path = _official(name, data)
        if path is not None and path.is_file():
            found.append(SplitInfo(name, len(read_pack(path)), f"official, {path}"))
        else:
            found.append(SplitInfo(name, None, f"official; needs --data DIR with alfworld/{name}.jsonl.xz"))
    return tuple(found)


def load(split: str, data: Path | None) -> Games:
    """The games of a split.

    Args:
        split: an official split, ``generated_train`` or ``generated_valid``, or one of these with a number of games,
            such as ``generated_train_3000``, which are then made now (the first ones are not the built-in ones).
        data: folder with ``alfworld/SPLIT.jsonl.xz`` for the official splits.

    Raises:
        UnknownNameError: if there is no such split.
        DataError: if its data is missing or corrupt.
    """
    if split in GENERATED:
        return _read(split, BUILTIN / f"{split}.jsonl.xz", "built in, generated")
    if split in OFFICIAL:
        path = _official(split, data)
        if path is None or not path.is_file():
            where = f"{path} does not exist" if path is not None else "it does not come with the package"
            raise DataError(
                f"ALFWorld's {split} needs its official data: {where}; give --data DIR (or AGENTGYM_DATA) with "
                f"alfworld/{split}.jsonl.xz in it, or play --split generated_valid"
            )
        return _read(split, path, f"official, {path.name}")
    if match := _ON_REQUEST.fullmatch(split):
        return _generate(match[1], int(match[2]))
    raise UnknownNameError("split of alfworld", split, (*OFFICIAL, *GENERATED))


def _official(split: str, data: Path | None) -> Path | None:
    return None if data is None else data / "alfworld" / f"{split}.jsonl.xz"


def _read(split: str, path: Path, source: str) -> Games:
    records = read_pack(path)
    known = _LOADED.get(path)
    # `read_pack` returns the same tuple until the file changes.
    if known is None or known.records is not records:
        if wrong := next((record for record in records if record.split != split), None):
            raise DataError(f"{path}: holds {wrong.id} of split {wrong.split!r}, not {split!r}; rebuild the pack")
        known = _LOADED[path] = Games(split, records, source)
    return known


@lru_cache(maxsize=2)
def _generate(split: str, number: int) -> Games:
    per_family = -(-number // len(FAMILIES))
    records = generate_split(0, split, per_family)
    # One game of each family in turn, so that any number of games is balanced; then in the usual order.
    by_family = {family: [record for record in records if record.family == family] for family in FAMILIES}
    dealt = [game for row in zip(*by_family.values(), strict=True) for game in row][:number]
    chosen = tuple(sorted(dealt, key=lambda record: record.id))
    return Games(f"{split}_{number}", chosen, "generated on request")
