"""Numbers that are known of many groups together: each keeps what it was computed from.

Invariant: over several groups, a :class:`Pooled` number is what its rule says of all that they kept, as if they had
been one group; the mean of the groups' extremes, quantiles or shares would be something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self, SupportsFloat

import numpy as np
from numpy.typing import NDArray

Rule = Callable[[NDArray[np.float64]], SupportsFloat]


class Pooled(float):
    """The number of one group, with what it was computed from.

    Args:
        rule: from a sample to the number.
        sample: what the group contributes; the samples of several groups are joined along the first axis.
    """

    rule: Rule
    sample: NDArray[np.float64]

    def __new__(cls, rule: Rule, sample: NDArray[np.float64]) -> Self:
        """The rule is applied at once."""
        number = super().__new__(cls, rule(sample))
        number.rule, number.sample = rule, sample
        return number


def count(number: int) -> Pooled:
    """A number that adds up over groups."""
    return Pooled(np.sum, np.array([float(number)]))


def share(part: float, whole: float) -> Pooled:
    """A part of a whole; of several groups, all parts together of all wholes. 0 of nothing is 0."""
    return Pooled(_share, np.array([[part, whole]], dtype=np.float64))


def pool(groups: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The numbers of all groups together, each over the groups that have it.

    Args:
        groups: the numbers of each group; a plain one holds of the group as a whole, so that its mean is taken.
    """
    found: dict[str, list[float]] = {}
    for numbers in groups:
        for key, value in numbers.items():
            found.setdefault(key, []).append(value)
    return {key: _together(values) for key, values in found.items()}


def _together(values: list[float]) -> float:
    kept = [value for value in values if isinstance(value, Pooled)]
    if not kept:
        return sum(values) / len(values)
    return float(kept[0].rule(np.concatenate([value.sample for value in kept])))


def _share(rows: NDArray[np.float64]) -> float:
    part, whole = rows.sum(axis=0)
    return float(part / whole) if whole else 0.0
