"""The Porter stemmer, in the variant of Martin Porter's later reference program.

Source: M. F. Porter, An algorithm for suffix stripping, Program 14(3), 1980, with two changes that he published later
(``bli`` becomes ``ble``, and ``logi`` becomes ``log``). Every character that is no vowel counts as a consonant.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

_STEP_2 = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
)
_STEP_3 = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate"),
    *("iti", "ous", "ive", "ize"),
)


@lru_cache(maxsize=1 << 18)
def stem(word: str) -> str:
    """The stem of a lower-case word."""
    if not word.isascii() and max(word) > "\uffff":
        # Lengths count UTF-16 code units.
        units = word.encode("utf-16-le")
        word = "".join(chr(int.from_bytes(units[at : at + 2], "little")) for at in range(0, len(units), 2))
        return _stem(word).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    return _stem(word)


def _stem(word: str) -> str:
    if len(word) <= 2:
        return word
    return _step_5(_step_4(_replace(_replace(_step_1c(_step_1b(_step_1a(word))), _STEP_2), _STEP_3)))


def _consonants(word: str) -> list[bool]:
    kinds: list[bool] = []
    for char in word:
        kinds.append(char not in "aeiou" and not (char == "y" and bool(kinds) and kinds[-1]))
    return kinds


def _measure(stem: str) -> int:
    """Number of runs of vowels that a run of consonants follows."""
    kinds = _consonants(stem)
    return sum(not before and after for before, after in pairwise(kinds))


def _has_vowel(stem: str) -> bool:
    return not all(_consonants(stem))


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _consonants(word)[-1]


def _ends_cvc(word: str) -> bool:
    return len(word) > 2 and _consonants(word)[-3:] == [True, False, True] and word[-1] not in "wxy"


def _step_1a(word: str) -> str:
    if word.endswith("sses") or word.endswith("ies"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and word[-2] != "s" else word


def _step_1b(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix) and _has_vowel(word[: -len(suffix)]):
            word = word[: -len(suffix)]
            if word.endswith(("at", "bl", "iz")):
                return word + "e"
            if _ends_double(word):
                return word if word[-1] in "lsz" else word[:-1]
            return word + "e" if _measure(word) == 1 and _ends_cvc(word) else word
    return word


def _step_1c(word: str) -> str:
    return word[:-1] + "i" if word.endswith("y") and _has_vowel(word[:-1]) else word


def _replace(word: str, table: tuple[tuple[str, str], ...]) -> str:
    """Steps 2 and 3: the first suffix of the table that the word has decides."""
    for suffix, replacement in table:
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            return rest + replacement if _measure(rest) > 0 else word
    return word


def _step_4(word: str) -> str:
    for suffix in _STEP_4:
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            if suffix == "ion" and not rest.endswith(("s", "t")):
                continue
            return rest if _measure(rest) > 1 else word
    return word


def _step_5(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word)
        if measure > 1 or (measure == 1 and not _ends_cvc(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
