"""A catalogue and its index in one file, which is mapped into memory: it opens at once and processes share its pages.

A first line names the format; then come a header (JSON: name, hashes, and where each section lies) and the sections.
Products are decoded when they are asked for. Invariant: a pack is written whole or not at all, and a damaged one is
refused when it is opened, or, for large ones, by `verify_pack`.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import DataError

from .catalogue import Catalogue, HumanInstruction, Product
from .index import Index, build_index

FORMAT = b"agentgym webshop pack 1\n"
CHECKED = 64 << 20
"""Packs up to this size, in bytes, are checked in full when they are opened."""

DECODED_KEPT = 1 << 15
"""Decoded products kept in memory; then all are forgotten."""

_HEAD = 4096  # bytes in front of the sections
_ALIGNED = 64
_TUPLES = frozenset({"bullets", "pricing", "attributes", "instruction_attributes", "nouns"})
_NAMES = tuple(field.name for field in fields(Product))
_values = attrgetter(*_NAMES)
_ARRAYS = {
    "starts": np.int64,
    "documents": np.int32,
    "frequencies": np.uint16,
    "contributions": np.float32,
    "highest": np.float32,
    "idf": np.float32,
    "norms": np.uint8,
    "ranks": np.int32,
    "inverse": np.float32,
}


class _Header(NamedTuple):
    name: str
    content_hash: str
    sha256: str
    sections: Mapping[str, tuple[int, int]]


def encode_product(product: Product) -> bytes:
    """A product as one line of JSON."""
    values = [dict(value) if isinstance(value, Mapping) else value for value in _values(product)]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decode_product(line: bytes) -> Product:
    """The product that `encode_product` wrote."""
    values = dict(zip(_NAMES, json.loads(line.decode("utf-8", "surrogatepass")), strict=True))
    for name in _TUPLES:
        values[name] = tuple(values[name])
    values["options"] = {group: tuple(options) for group, options in values["options"].items()}
    return Product(**values)


class StoredProducts(Sequence[Product]):
    """The products of a pack.

    Args:
        lines: the bytes of all products.
        starts: first byte of each, and the end; shape (N + 1,).
    """

    def __init__(self, lines: memoryview, starts: NDArray[np.int64]) -> None:
        self._lines = lines
        self._starts = starts
        self._decoded: dict[int, Product] = {}

    def __len__(self) -> int:
        """Number of products."""
        return len(self._starts) - 1

    @overload
    def __getitem__(self, key: int) -> Product: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Product]: ...
    def __getitem__(self, key: int | slice) -> Product | Sequence[Product]:
        """The product at a position."""
        if isinstance(key, slice):
            return [self[position] for position in range(len(self))[key]]
        position = range(len(self))[key]
        found = self._decoded.get(position)
        if found is None:
            if len(self._decoded) >= DECODED_KEPT:
                self._decoded.clear()
            line = self._lines[int(self._starts[position]) : int(self._starts[position + 1])]
            found = self._decoded[position] = decode_product(bytes(line))
        return found

    def __iter__(self) -> Iterator[Product]:
        """The products in order."""
        return (self[position] for position in range(len(self)))


def write_pack(path: Path, catalogue: Catalogue) -> None:
    """Writes a catalogue with its index.

    Args:
        path: the pack; it appears when it is whole.
        catalogue: the products. They are gone through twice, and only their index is held in memory.

    Raises:
        DataError: if not every product was indexed.
    """
    products = catalogue.products
    index = catalogue.index or build_index(catalogue.asins, (product.document for product in products))
    if index.size != len(products):
        raise DataError(f"{index.size} of {len(products)} products were indexed; build the index again")
    human = {
        asin: [[one.text, one.attributes, one.options] for one in instructions]
        for asin, instructions in catalogue.human.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.part")
    sections: dict[str, tuple[int, int]] = {}
    total = hashlib.sha256()
    with unfinished.open("w+b") as file:

        def add(name: str, pieces: Iterator[bytes]) -> None:
            start = file.tell()
            for piece in pieces:
                total.update(piece)
                file.write(piece)
            sections[name] = (start, file.tell() - start)
            padding = bytes(-file.tell() % _ALIGNED)
            total.update(padding)
            file.write(padding)

        file.write(bytes(_HEAD))
        product_starts = [0]

        def lines() -> Iterator[bytes]:
            for product in products:
                line = encode_product(product)
                product_starts.append(product_starts[-1] + len(line))
                yield line

        add("products", lines())
        add("product_starts", iter([np.array(product_starts, np.int64).tobytes()]))
        add("asins", iter(["\n".join(catalogue.asins).encode()]))
        add("pricing", iter([np.asarray(catalogue.pricing, np.float64).tobytes()]))
        add("human", iter([json.dumps(human).encode()]))
        add("terms", iter(["\n".join(index.terms).encode("utf-8", "surrogatepass")]))
        for name, array in index.arrays().items():
            add(name, iter([array.tobytes()]))
        header = {
            "name": catalogue.name,
            "content_hash": catalogue.content_hash,
            "sha256": total.hexdigest(),
            "sections": sections,
        }
        file.seek(0)
        file.write((FORMAT + json.dumps(header).encode()).ljust(_HEAD - 1) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def read_pack(path: Path) -> Catalogue:
    """Opens a pack.

    Raises:
        DataError: if it is no pack, of another version, or damaged.
    """
    data = _mapped(path)
    header = _header(path, data)
    if len(data) <= CHECKED:
        _check(path, data, header)

    def section(name: str) -> memoryview:
        start, length = header.sections[name]
        return data[start : start + length]

    def array(name: str, kind: Any) -> NDArray[Any]:
        return np.frombuffer(section(name), kind)

    arrays = {name: array(name, kind) for name, kind in _ARRAYS.items()}
    words = bytes(section("terms")).decode("utf-8", "surrogatepass")
    terms = {term: number for number, term in enumerate(words.split("\n"))} if words else {}
    human = {
        asin: tuple(HumanInstruction(text, tuple(attributes), tuple(options)) for text, attributes, options in all_of)
        for asin, all_of in json.loads(bytes(section("human"))).items()
    }
    return Catalogue(
        header.name,
        StoredProducts(section("products"), array("product_starts", np.int64)),
        human,
        header.content_hash,
        asins=bytes(section("asins")).decode().split("\n"),
        pricing=array("pricing", np.float64).reshape(-1, 2),
        index=Index(terms, **arrays),
    )


def verify_pack(path: Path) -> None:
    """Checks every byte of a pack.

    Raises:
        DataError: if it is damaged.
    """
    data = _mapped(path)
    _check(path, data, _header(path, data))


def _mapped(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be opened ({error}); build the pack again") from error


def _header(path: Path, data: memoryview) -> _Header:
    head = bytes(data[:_HEAD])
    if not head.startswith(FORMAT):
        raise DataError(f"{path}: is no pack of this version; build it again")
    try:
        header = _Header(**json.loads(head[len(FORMAT) :]))
        whole = all(start + length <= len(data) for start, length in header.sections.values())
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: its header is damaged ({error}); build the pack again") from error
    if not whole:
        raise DataError(f"{path}: is cut off at {len(data)} bytes; build the pack again")
    return header


def _check(path: Path, data: memoryview, header: _Header) -> None:
    if hashlib.sha256(data[_HEAD:]).hexdigest() != header.sha256:
        raise DataError(f"{path}: is damaged; build the pack again")
