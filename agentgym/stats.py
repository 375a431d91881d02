"""Intervals for rates.

Invariant: repeats of one task are not independent; an interval over them widens by as much as they agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean, the same in any order of the values; None of nothing."""
    return math.fsum(values) / len(values) if values else None


def wilson(successes: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a rate (Wilson 1927, without continuity correction).

    Args:
        successes: number of successes, 0 to ``n``; it may be fractional if ``n`` is an effective sample size.
        n: number of independent trials. With none nothing is known: (0, 1).
        confidence: coverage, in (0, 1).

    Returns:
        Lower and upper bound, in [0, 1].

    Raises:
        ValueError: if the numbers are out of range.
    """
    if not (0 <= successes <= n and 0 < confidence < 1):
        raise ValueError(f"{successes} successes of {n} at confidence {confidence} make no interval")
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate = successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # At the ends the bound is exactly 0 or 1; rounding must not say otherwise.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def clustered(outcomes: Sequence[Sequence[float]], confidence: float = 0.95) -> tuple[float, float]:
    """Interval for a rate when each task was played several times.

    Wilson's interval at the effective sample size: the number of episodes divided by the design effect, which is the
    task-clustered variance of the mean over its variance if episodes were independent (Kish 1965; for the clustered
    error Miller 2024, arXiv:2411.00640). With one episode per task it is Wilson's interval. If all episodes agree, the
    design effect is not defined and each task counts once.

    Args:
        outcomes: for each task, its outcomes (0 or 1).
        confidence: coverage, in (0, 1).

    Returns:
        Lower and upper bound, in [0, 1]; (0, 1) without outcomes.
    """
    tasks = [values for values in outcomes if values]
    n = sum(len(values) for values in tasks)
    if n == 0:
        return wilson(0, 0, confidence)
    rate = math.fsum(value for values in tasks for value in values) / n
    effective = float(len(tasks))
    if 0 < rate < 1 and len(tasks) > 1:
        spread = math.fsum(math.fsum(value - rate for value in values) ** 2 for values in tasks)
        variance = len(tasks) / (len(tasks) - 1) * spread / n**2
        independent = rate * (1 - rate) / (n - 1)
        # Repeats that disagree more than chance would allow are no reason to trust them more than independent ones.
        effective = n / max(1.0, variance / independent)
    return wilson(min(rate * effective, effective), effective, confidence)
