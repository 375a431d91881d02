"""Where games come from: official packs in a data folder, the built-in generated packs, and games made on request.

Invariant: games are in ascending order of their ids, whatever machine or file system; generated and official games
never share a split. Pickled games of a split are the name of the split: whoever reads them loads it, and refuses one
that has changed.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from agentgym.errors import ConfigError, DataError, UnknownNameError
from agentgym.registry import SplitInfo
from agentgym.task import Panel, Task

from .engine import Engine
from .game import Game, compile_game
from .generator import LEVELS, Level, generate_split
from .generator import SPLITS as GENERATED
from .manifest import LogicVersion, read_manifest
from .pack import read_pack
from .record import FAMILIES, Record, sentence_error

OFFICIAL = ("train", "valid_seen", "valid_unseen")
BUILTIN = Path(__file__).parent / "data"
LOGIC_VERSION: LogicVersion = "0.4.2"
"""Wording of generated games and of packs that do not say."""

COMPILED_KEPT = 256
"""Compiled games kept per pack, about 0.1 MB each; the one used longest ago goes first."""

_ON_REQUEST = re.compile(rf"({'|'.join(GENERATED)})_([1-9]\d{{0,6}})(?:_({'|'.join(LEVELS)}))?")


class Origin(NamedTuple):
    """How `load` and `Games.select` made some games.

    Attributes:
        data: the data folder, if there was one.
        families: the families that were chosen; none for all.
    """

    data: Path | None
    families: tuple[str, ...] = ()


class Games:
    """The games of a split, compiled when first played; environments and threads share one object.

    Args:
        split: name of the split.
        records: the games, in the order of play.
        source: where they come from, for people.
        logic_version: wording that the games carry.
        origin: how to load them again; None for games of one's own, which are pickled whole.

    Attributes:
        panel: the tasks, one per game. Games of another wording than 0.4.2 are other tasks, with digests of their own.
        records: the games, in panel order.
        logic_version: see above.
    """

    def __init__(
        self,
        split: str,
        records: tuple[Record, ...],
        source: str,
        *,
        logic_version: LogicVersion = LOGIC_VERSION,
        origin: Origin | None = None,
    ) -> None:
        tasks = tuple(Task(record.id, record.family, _digest(record, logic_version)) for record in records)
        self.panel = Panel("alfworld", split, tasks, source)
        self.records = records
        self.logic_version: LogicVersion = logic_version
        self._origin = origin
        self._compiled: OrderedDict[tuple[int, str, int | None], Game] = OrderedDict()
        self._selected: dict[tuple[str, ...], Games] = {}

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Pickles the name and the hash instead of the games, if they can be loaded again."""
        if self._origin is None:
            return _rebuild, (self.panel.split, self.records, self.panel.source, self.logic_version)
        return _reload, (self.panel.split, *self._origin, self.panel.hash)

    def select(self, families: Sequence[str]) -> Games:
        """The games of some families, as a panel with a hash of its own; equal choices give the same object.

        Raises:
            ConfigError: if ``families`` is a single text.
            UnknownNameError: if there is no such family.
        """
        if isinstance(families, str):
            raise ConfigError(f"families is {families!r}; give a tuple, families=({families!r},)")
        for family in families:
            if family not in FAMILIES:
                raise UnknownNameError("family of alfworld", str(family), FAMILIES)
        chosen = tuple(family for family in FAMILIES if family in families)
        if chosen not in self._selected:
            self._selected[chosen] = Games(
                self.panel.split,
                tuple(record for record in self.records if record.family in chosen),
                f"{self.panel.source}; {', '.join(chosen)}",
                logic_version=self.logic_version,
                origin=None if self._origin is None else self._origin._replace(families=chosen),
            )
        return self._selected[chosen]

    def game(self, index: int, logic_version: str, shuffle_seed: int | None = None) -> Game:
        """The compiled game ``panel[index]``; see `compile_game`.

        Raises:
            DataError: if its goal is met before anything is done.
        """
        key = (index, logic_version, shuffle_seed)
        game = self._compiled.pop(key, None)
        if game is None:
            game = compile_game(self.records[index], logic_version=logic_version, shuffle_seed=shuffle_seed)
            if Engine(game).won:
                raise DataError(f"{game.record.id}: the goal is met at the start; leave this game out of the pack")
        self._compiled[key] = game
        while len(self._compiled) > COMPILED_KEPT:
            self._compiled.popitem(last=False)
        return game

    def human_sentences(self, index: int) -> tuple[str, ...]:
        """What people wrote for game ``panel[index]``, less the sentences that the original game cuts or crashes on.

        Raises:
            ConfigError: if there is none.
        """
        record = self.records[index]
        playable = tuple(sentence for sentence in record.human if sentence and sentence_error(sentence) is None)
        if not playable:
            raise ConfigError(
                f"{record.id} has no sentence written by people; use goal='template' or an official split"
            )
        return playable


def _digest(record: Record, logic_version: str) -> str:
    if logic_version == LOGIC_VERSION:
        return record.digest
    return hashlib.sha256(f"{record.digest} {logic_version}".encode()).hexdigest()


def _rebuild(split: str, records: tuple[Record, ...], source: str, logic_version: LogicVersion) -> Games:
    return Games(split, records, source, logic_version=logic_version)


def _reload(split: str, data: Path | None, families: tuple[str, ...], panel_hash: str) -> Games:
    games = load(split, data)
    games = games.select(families) if families else games
    if games.panel.hash != panel_hash:
        raise DataError(f"the games of {split} have changed since this environment was pickled; make it again")
    return games


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
            found.append(SplitInfo(name, None, "official; agentgym data get alfworld --data DIR"))
    return tuple(found)


def load(split: str, data: Path | None) -> Games:
    """The games of a split.

    Args:
        split: an official split, ``generated_train`` or ``generated_valid``, or one of these with a number of games,
            such as ``generated_train_3000``, which are then made now (the first ones are not the built-in ones); and
            with a level, ``generated_train_3000_hard`` or ``…_easy``, see `generator.difficulty_of`.
        data: folder with ``alfworld/SPLIT.jsonl.xz`` for the official splits.

    Raises:
        UnknownNameError: if there is no such split.
        DataError: if its data is missing or corrupt.
    """
    if split in GENERATED:
        return _read(split, BUILTIN / f"{split}.jsonl.xz", "built in, generated", None)
    if split in OFFICIAL:
        path = _official(split, data)
        if path is None or not path.is_file():
            where = f"{path} does not exist" if path is not None else "it does not come with the package"
            raise DataError(
                f"ALFWorld's {split} needs its official data: {where}; `agentgym data get alfworld --data DIR` "
                "downloads it, `agentgym data import alfworld --from FOLDER --data DIR` takes it from a folder; then "
                "give --data DIR (or AGENTGYM_DATA). --split generated_valid needs none"
            )
        return _read(split, path, f"official, {path.name}", data)
    if match := _ON_REQUEST.fullmatch(split):
        level: Level | None = next((known for known in LEVELS if known == match[3]), None)
        return _generate(match[1], int(match[2]), level)
    raise UnknownNameError("split of alfworld", split, (*OFFICIAL, *GENERATED))


def _official(split: str, data: Path | None) -> Path | None:
    return None if data is None else data / "alfworld" / f"{split}.jsonl.xz"


def _read(split: str, path: Path, source: str, data: Path | None) -> Games:
    records = read_pack(path)
    manifest = read_manifest(path.parent)
    stated = manifest.splits.get(split) if manifest is not None else None
    logic_version = LOGIC_VERSION if stated is None else stated.logic_version
    known = _LOADED.get(path)
    # `read_pack` returns the same tuple until the file changes.
    if known is None or known.records is not records or known.logic_version != logic_version:
        if wrong := next((record for record in records if record.split != split), None):
            raise DataError(f"{path}: holds {wrong.id} of split {wrong.split!r}, not {split!r}; rebuild the pack")
        if logic_version != LOGIC_VERSION:
            source = f"{source}, wording {logic_version}"
        known = _LOADED[path] = Games(split, records, source, logic_version=logic_version, origin=Origin(data))
    return known


@lru_cache(maxsize=2)
def _generate(split: str, number: int, level: Level | None) -> Games:
    per_family = -(-number // len(FAMILIES))
    records = generate_split(0, split, per_family, level)
    # One game of each family in turn, so that any number of games is balanced; then in the usual order.
    by_family = {family: [record for record in records if record.family == family] for family in FAMILIES}
    dealt = [game for row in zip(*by_family.values(), strict=True) for game in row][:number]
    chosen = tuple(sorted(dealt, key=lambda record: record.id))
    name = f"{split}_{number}" if level is None else f"{split}_{number}_{level}"
    return Games(name, chosen, "generated on request", origin=Origin(None))
