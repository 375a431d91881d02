"""The inverted index of a catalogue: which documents hold a term, and what that adds to their score.

Scores are BM25 as Lucene 8.11 computes it (k1 = 0.9, b = 0.4): single precision, document lengths kept in one byte.
Invariant: every document is counted once, and a term's documents ascend.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from .analyzer import analyze

K1 = np.float32(0.9)
B = np.float32(0.4)
_EXACT = 24  # lengths below this are kept as they are
_ONE = np.float32(1)
_PART = 1 << 22  # postings that are put in order at once
_LONG = 20_000  # documents from which on the progress is shown

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


def encode_length(length: int) -> int:
    """The byte that stands for a document length: exact up to 40, then three leading bits."""
    if length < _EXACT:
        return length
    rest = length - _EXACT
    bits = rest.bit_length()
    if bits < 4:
        return _EXACT + rest
    return _EXACT + ((bits - 3) << 3 | (rest >> (bits - 4)) & 7)


def decode_length(byte: int) -> int:
    """The length that a byte stands for."""
    if byte < _EXACT:
        return byte
    rest = byte - _EXACT
    shift = (rest >> 3) - 1
    return _EXACT + rest if shift < 0 else _EXACT + ((8 | rest & 7) << shift)


@dataclass(frozen=True)
class Index:
    """An inverted index; N documents, T terms, P postings.

    Attributes:
        terms: term -> number.
        starts: first posting of each term, and P; shape (T + 1,).
        documents: documents of the postings, ascending within a term; shape (P,).
        frequencies: how often the term occurs there; shape (P,).
        contributions: what the posting adds to the score of a query with the term once; shape (P,).
        highest: greatest contribution of each term; shape (T,).
        idf: inverse document frequency of each term; shape (T,).
        norms: length byte of each document; shape (N,).
        ranks: position of each document's id among all ids in ascending order; shape (N,).
        inverse: length byte -> the factor by which a frequency enters; shape (256,).
    """

    terms: Mapping[str, int]
    starts: NDArray[np.int64]
    documents: Ints
    frequencies: NDArray[np.uint16]
    contributions: Floats
    highest: Floats
    idf: Floats
    norms: NDArray[np.uint8]
    ranks: Ints
    inverse: Floats

    @property
    def size(self) -> int:
        """Number of documents."""
        return len(self.norms)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays by name."""
        return {
            "starts": self.starts,
            "documents": self.documents,
            "frequencies": self.frequencies,
            "contributions": self.contributions,
            "highest": self.highest,
            "idf": self.idf,
            "norms": self.norms,
            "ranks": self.ranks,
            "inverse": self.inverse,
        }

    def contribution(self, term: int, count: int) -> Floats:
        """What the postings of a term add for a query that holds it ``count`` times.

        Args:
            term: number of the term.
            count: 1 or more.
        """
        part = slice(int(self.starts[term]), int(self.starts[term + 1]))
        if count == 1:
            return self.contributions[part]
        return _contribution(
            np.float32(count) * self.idf[term], self.frequencies[part], self.inverse[self.norms[self.documents[part]]]
        )


def _contribution(weight: np.float32 | Floats, frequencies: NDArray[np.uint16], inverse: Floats) -> Floats:
    found = weight - weight / (_ONE + frequencies.astype(np.float32) * inverse)
    return np.asarray(found, np.float32)


def build_index(ids: Sequence[str], documents: Iterable[str]) -> Index:
    """Builds an index.

    Args:
        ids: id of each document; documents with the same score are found in the order of their ids.
        documents: the texts, in the order of ``ids``.
    """
    terms: dict[str, int] = {}
    which, where, often = array("i"), array("i"), array("H")
    lengths = array("q")
    shown = tqdm(documents, total=len(ids), unit="document", disable=None if len(ids) >= _LONG else True)
    for number, text in enumerate(shown):
        found = analyze(text)
        lengths.append(len(found))
        for term, count in Counter(found).items():
            which.append(terms.setdefault(term, len(terms)))
            where.append(number)
            often.append(min(count, 0xFFFF))
    return _arrange(ids, terms, which, where, often, lengths)


def _arrange(
    ids: Sequence[str],
    terms: Mapping[str, int],
    which: array[int],
    where: array[int],
    often: array[int],
    lengths: array[int],
) -> Index:
    numbers = np.frombuffer(which, np.int32)
    counts = np.bincount(numbers, minlength=len(terms))
    starts = np.zeros(len(terms) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])

    filled = sum(length > 0 for length in lengths)
    average = np.float32(sum(lengths) / filled) if filled else _ONE
    decoded = np.array([decode_length(byte) for byte in range(256)], np.float32)
    inverse = _ONE / (K1 * ((_ONE - B) + (B * decoded) / average))
    norms = np.array([encode_length(length) for length in lengths], np.uint8)
    idf = np.array([math.log(1 + (filled - n + 0.5) / (n + 0.5)) for n in counts.tolist()], np.float32)
    documents = np.empty(len(numbers), np.int32)
    frequencies = np.empty(len(numbers), np.uint16)
    contributions = np.empty(len(numbers), np.float32)
    free = starts[:-1].copy()
    # Part by part, so that what is needed beside the result stays small.
    for first in range(0, len(numbers), _PART):
        part = slice(first, first + _PART)
        order = np.argsort(numbers[part], kind="stable")
        term = numbers[part][order]
        runs = np.bincount(term, minlength=len(terms))
        places = free[term] + np.arange(len(term)) - np.repeat(np.cumsum(runs) - runs, runs)
        documents[places] = document = np.frombuffer(where, np.int32)[part][order]
        frequencies[places] = frequency = np.frombuffer(often, np.uint16)[part][order]
        contributions[places] = _contribution(idf[term], frequency, inverse[norms[document]])
        free += runs
    highest = np.maximum.reduceat(contributions, starts[:-1]) if len(terms) else np.zeros(0, np.float32)
    ranks = np.empty(len(ids), np.int32)
    ranks[np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)] = np.arange(len(ids), dtype=np.int32)
    return Index(terms, starts, documents, frequencies, contributions, highest, idf, norms, ranks, inverse)
