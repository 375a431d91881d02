"""Rates and means over tasks that were played once or several times: intervals, pass@k and pass^k.

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
    """Interval for a rate, or the mean of scores in [0, 1], when each task was played several times.

    Wilson's interval at the effective sample size, at which a rate would have the standard error that was found: the
    task-clustered error (Miller 2024, arXiv:2411.00640), or the error of independent episodes if it is larger. For
    a rate this size is the number of episodes divided by the design effect (Kish 1965), and with one episode per task
    the interval is Wilson's. If all episodes agree, there is no error to go by and each task counts once.

    Args:
        outcomes: for each task, its outcomes: 0 or 1, or scores between.
        confidence: coverage, in (0, 1).

    Returns:
        Lower and upper bound, in [0, 1]; (0, 1) without outcomes.
    """
    tasks = [values for values in outcomes if values]
    flat = [value for values in tasks for value in values]
    n = len(flat)
    if n == 0:
        return wilson(0, 0, confidence)
    rate = math.fsum(flat) / n
    effective = float(len(tasks))
    if min(flat) < max(flat) and len(tasks) > 1:
        spread = math.fsum((value - rate) ** 2 for value in flat)
        between = math.fsum(math.fsum(value - rate for value in values) ** 2 for values in tasks)
        variance = len(tasks) / (len(tasks) - 1) * between / n**2
        # Repeats that disagree more than chance would allow are no reason to trust them more than independent ones.
        effective = rate * (1 - rate) * n / (n - 1) / max(variance, spread / (n * (n - 1)))
    return wilson(min(rate * effective, effective), effective, confidence)


def pass_at(k: int, successes: int, episodes: int) -> float:
    """Chance that at least one of ``k`` episodes of a task succeeds: pass@k.

    The unbiased estimate, 1 - C(n - c, k) / C(n, k) for c successes in n episodes (Chen et al. 2021, arXiv:2107.03374).

    Raises:
        ValueError: if there are fewer than ``k`` episodes, or more successes than episodes.
    """
    return 1 - pass_all(k, episodes - successes, episodes)


def pass_all(k: int, successes: int, episodes: int) -> float:
    """Chance that all of ``k`` episodes of a task succeed: pass^k.

    The unbiased estimate, C(c, k) / C(n, k) for c successes in n episodes (Yao et al. 2024, arXiv:2406.12045).

    Raises:
        ValueError: if there are fewer than ``k`` episodes, or more successes than episodes.
    """
    if not (1 <= k <= episodes and 0 <= successes <= episodes):
        raise ValueError(f"{successes} successes in {episodes} episodes say nothing of {k} episodes")
    return math.comb(successes, k) / math.comb(episodes, k)
