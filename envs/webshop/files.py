"""Where a catalogue's files lie in a data folder, and how they are read.

A folder holds them under their original names, plain or compressed with xz: ``items_shuffle[_1000].json`` (the
products), ``items_ins_v2[_1000].json`` (attributes and generated instructions), ``items_human_ins[_1000].json``
(instructions that people wrote) and ``title_nouns….json`` (the nouns of the titles, which the reward needs and never
computes).

Invariant: a catalogue is whole or it is refused; the error names the file.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentgym.errors import DataError

Size = Literal["small", "full"]

# Ending of the file names of the catalogue with 1,000 products, and of the one with all.
_ENDINGS: dict[Size, str] = {"small": "_1000", "full": ""}


@dataclass(frozen=True)
class CatalogueFiles:
    """The files of one catalogue.

    Attributes:
        name: ``small`` or ``full``.
        products: the product file.
        instructions: attributes and generated instructions.
        human: instructions by people; None if there are none.
        nouns: noun lists by title.
    """

    name: Size
    products: Path
    instructions: Path
    human: Path | None
    nouns: Path

    @property
    def stamp(self) -> tuple[tuple[str, int, int], ...]:
        """Names, sizes and times of the files, by which a change is noticed."""
        found = (self.products, self.instructions, self.human, self.nouns)
        return tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in found if path is not None)


def folders(data: Path) -> tuple[Path, ...]:
    """Where files of the shop may lie in a data folder, best first."""
    return (data / "webshop" / "catalogue", data / "webshop")


def has_catalogue(data: Path, size: Size) -> bool:
    """Whether the data folder holds a pack or the product file of this catalogue."""
    return find_pack(data, size) is not None or _find(data, [f"items_shuffle{_ENDINGS[size]}"]) is not None


def pack_path(data: Path, size: Size) -> Path:
    """Where the pack of a catalogue lies."""
    return data / "webshop" / f"{size}.pack"


def find_pack(data: Path, size: Size) -> Path | None:
    """The pack of a catalogue, or None if there is none."""
    path = pack_path(data, size)
    return path if path.is_file() else None


def locate(data: Path | None, size: Size) -> CatalogueFiles:
    """The files of a catalogue.

    Raises:
        DataError: if one is missing.
    """
    if data is None:
        raise DataError(
            f"the {size} catalogue of WebShop does not come with the package; give --data DIR (or AGENTGYM_DATA) with "
            "DIR/webshop, or choose a split named generated_…"
        )
    ending = _ENDINGS[size]
    return CatalogueFiles(
        size,
        _need(data, [f"items_shuffle{ending}"]),
        _need(data, [f"items_ins_v2{ending}"]),
        _find(data, [f"items_human_ins{ending}", "items_human_ins"]),
        _need(data, [f"title_nouns{ending}", "title_nouns_spacy380", "title_nouns"]),
    )


def _find(data: Path, names: Sequence[str]) -> Path | None:
    for folder in folders(data):
        for name in names:
            for ending in (".json", ".json.xz"):
                path = folder / f"{name}{ending}"
                if path.is_file():
                    return path
    return None


def _need(data: Path, names: Sequence[str]) -> Path:
    found = _find(data, names)
    if found is None:
        raise DataError(
            f"{data / 'webshop'} lacks {names[0]}.json (or .json.xz); add the file, or choose a split named generated_…"
        )
    return found


def read_json(path: Path) -> Any:
    """The content of a JSON file, plain or compressed with xz.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        data = path.read_bytes()
        return json.loads(lzma.decompress(data) if path.suffix == ".xz" else data)
    except (OSError, EOFError, lzma.LZMAError, ValueError) as error:
        raise DataError(f"{path}: damaged or no JSON ({error}); replace the file") from error


def file_hash(paths: Sequence[Path]) -> str:
    """SHA-256 over the contents of files, in order."""
    total = hashlib.sha256()
    for path in paths:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
