"""Statistics of two agents on the same tasks.

Invariant: the task is the unit. Whatever was played of one task is one number, the difference between the two agents on
it; tasks are taken to be independent, episodes of one task are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from .seeding import Seed

RESAMPLES = 10_000
_CHUNK = 1 << 20  # numbers drawn at once, so that memory does not grow with panel and resamples


def exact_test(differences: Sequence[int]) -> float:
    """Two-sided p-value of the sign-flip test of a mean difference of zero.

    If the two agents are equally good, each task's difference is as likely with the other sign; the p-value is the
    share of all sign patterns with a sum at least as far from zero. With differences of -1, 0 and 1 it is McNemar's
    exact test (McNemar 1947; Fisher 1935 for randomisation in pairs). All patterns are counted, none drawn.

    Args:
        differences: for each task, successes of one agent less those of the other, in any common unit.

    Returns:
        A number in [0, 1]: 1 without a task that differs, 0 below what a number of 64 bits can hold.
    """
    sizes = [abs(value) for value in differences if value]
    most = sum(sizes)
    chances = np.zeros(2 * most + 1)  # of each sum, from -most to most
    chances[most] = 1.0
    for size in sizes:
        chances = (np.roll(chances, size) + np.roll(chances, -size)) / 2
    observed = abs(sum(differences))
    tail = math.fsum(chances[: most - observed + 1]) + math.fsum(chances[most + observed :])
    return 1.0 if observed == 0 else min(1.0, tail)


def success_interval(
    better: int, worse: int, tasks: int, confidence: float = 0.95
) -> tuple[tuple[float, float], float]:
    """Adjusted Wald interval of a difference of success rates with one episode a task (Bonett & Price 2012).

    One task more that is won and one that is lost keep it from being certain where no task differs.

    Args:
        better: tasks that the second agent alone solved.
        worse: tasks that the first agent alone solved.
        tasks: all tasks.
        confidence: coverage, in (0, 1).

    Returns:
        The bounds, in [-1, 1], and the standard error.

    Raises:
        ValueError: if the numbers are out of range.
    """
    if min(better, worse) < 0 or better + worse > tasks or not 0 < confidence < 1:
        raise ValueError(f"{better} better and {worse} worse of {tasks} tasks at {confidence} make no interval")
    up, down, n = (better + 1) / (tasks + 2), (worse + 1) / (tasks + 2), tasks + 2
    error = math.sqrt((up + down - (up - down) ** 2) / n)
    half = NormalDist().inv_cdf((1 + confidence) / 2) * error
    return (max(-1.0, up - down - half), min(1.0, up - down + half)), error


def bootstrap_interval(
    differences: Sequence[float], seed: Seed, confidence: float = 0.95, resamples: int = RESAMPLES
) -> tuple[float, float] | None:
    """Percentile bootstrap interval of a mean over tasks (Efron 1979).

    Args:
        differences: one number for each task; the interval depends on their order within the error of drawing.
        seed: fixes what is drawn.
        confidence: coverage, in (0, 1).
        resamples: number of resampled panels.

    Returns:
        The bounds; None if all tasks have the same difference, from which nothing can be said of their spread.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.size == 0 or float(np.ptp(values)) == 0.0:
        return None
    draw, means = seed.generator(), []
    rows = max(1, _CHUNK // values.size)
    for start in range(0, resamples, rows):
        chosen = draw.integers(values.size, size=(min(rows, resamples - start), values.size))
        means.append(values[chosen].mean(axis=1))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)


def standard_error(differences: Sequence[float]) -> float | None:
    """Standard error of the mean over tasks; None where it is not defined or zero."""
    if len(differences) < 2 or min(differences) == max(differences):
        return None
    return float(np.std(np.asarray(differences, dtype=np.float64), ddof=1)) / math.sqrt(len(differences))


def detectable(error: float, level: float = 0.05, power: float = 0.8) -> float:
    """The true difference that a two-sided test at ``level`` finds with this power, given the standard error.

    Source: the normal approximation, (z_(1 - level/2) + z_power) x error; for evaluations Miller 2024
    (arXiv:2411.00640, section 5).
    """
    normal = NormalDist()
    return (normal.inv_cdf(1 - level / 2) + normal.inv_cdf(power)) * error


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values that bound the chance of one or more false findings among them (Holm 1979), in their order."""
    adjusted = [0.0] * len(p_values)
    reached = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = reached
    return adjusted
