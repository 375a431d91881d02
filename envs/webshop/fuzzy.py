"""Similarity of two short texts by their sets of words, as RapidFuzz's ``token_set_ratio`` measures it.

The reward compares attributes and options with it; every value that the original computes comes out exactly.
"""

from __future__ import annotations

import re
from functools import lru_cache

THRESHOLD = 85
"""Texts match if their similarity is above this."""

_LATIN_1 = re.compile("[\x80-\xff]")


@lru_cache(maxsize=1 << 16)
def similar(one: str, other: str) -> bool:
    """Whether two texts match."""
    return similarity(one, other) > THRESHOLD


def similarity(one: str, other: str) -> int:
    """Similarity from 0 to 100, rounded half to even.

    Characters from U+0080 to U+00FF are dropped, all others but letters and digits separate words, case is ignored.
    """
    a, b = _words(one), _words(other)
    if not a or not b:
        return 0
    common = a & b
    rest_a, rest_b = a - common, b - common
    if common and not (rest_a and rest_b):
        return 100
    shared, left, right = (" ".join(sorted(words)) for words in (common, rest_a, rest_b))
    i, p, q = len(shared), len(left), len(right)
    gap = 1 if i else 0
    best = _percent(p + q - 2 * _common_subsequence(left, right), 2 * (i + gap) + p + q)
    if i:
        best = max(best, _percent(gap + p, 2 * i + gap + p), _percent(gap + q, 2 * i + gap + q))
    return round(best)


def _percent(distance: int, length: int) -> float:
    return 100 - 100 * distance / length


@lru_cache(maxsize=1 << 16)
def _words(text: str) -> frozenset[str]:
    # Character by character; U+0130 has two characters in lower case.
    lower = (char.lower()[0] for char in _LATIN_1.sub("", text))
    return frozenset("".join(char if char.isalnum() else " " for char in lower).split())


def _common_subsequence(one: str, other: str) -> int:
    """Length of the longest common subsequence (Hyyrö's bit-parallel algorithm: one bit per character of ``one``)."""
    where: dict[str, int] = {}
    for index, char in enumerate(one):
        where[char] = where.get(char, 0) | 1 << index
    mask = (1 << len(one)) - 1
    row = mask
    for char in other:
        matches = row & where.get(char, 0)
        row = ((row + matches) | (row - matches)) & mask
    return len(one) - row.bit_count()
