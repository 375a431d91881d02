"""From log-probability gaps to multipliers: the arithmetic that peer-informed methods share.

Invariant: at coefficient 0, and wherever all weights are 1, every multiplier is exactly 1.0 (unless equal mass is
imposed outside the interpolation, which is a change of its own).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .grpo import FLAT
from .pooled import Pooled, share

Array = NDArray[np.float64]
Squash = Literal["sigmoid", "exp", "tanh", "clip"]
Balance = Literal["mean_one", "ratio", "mass_inside", "mass_outside", "none"]


def mean_gap(teacher: NDArray[np.floating], student: NDArray[np.floating], clamp: float | None) -> float:
    """Mean over a segment's tokens of teacher minus student log-probability, in nats.

    Args:
        teacher: log-probabilities under the informed context, shape ``[n]``.
        student: the same under the plain context, shape ``[n]``.
        clamp: each token's gap is cut to ``[-clamp, clamp]`` first; None keeps it.
    """
    gaps = teacher.astype(np.float64) - student.astype(np.float64)
    if clamp is not None:
        gaps = np.clip(gaps, -clamp, clamp)
    return math.fsum(gaps) / len(gaps)


def squash(gaps: Array, kind: Squash, clip: float | None) -> Array:
    """Weights around 1 that increase with the (signed and scaled) gap.

    Args:
        gaps: shape ``[K]``.
        kind: ``sigmoid`` 2σ(x), ``exp`` e^x, ``tanh`` 1 + tanh(x), ``clip`` 1 + x.
        clip: weights are cut to ``[1 - clip, 1 + clip]``; None leaves them.
    """
    if kind == "sigmoid":
        weights = 1 + np.tanh(gaps / 2)  # = 2σ(x), without overflow and exactly 1 at 0
    elif kind == "exp":
        weights = np.exp(np.minimum(gaps, 50.0))
    elif kind == "tanh":
        weights = 1 + np.tanh(gaps)
    else:
        weights = 1 + gaps
    return weights if clip is None else np.clip(weights, 1 - clip, 1 + clip)


def multipliers(weights: Array, lengths: Array, balance: Balance, bound: float, coefficient: float) -> Array:
    """Balances the weights of one episode against segment length and interpolates them with 1.

    Args:
        weights: shape ``[K]``, one for each segment of the episode.
        lengths: tokens that each multiplier will act on, shape ``[K]``, positive.
        balance: ``mean_one`` centres the weights on their token-weighted mean and shrinks them into
            ``1 ± bound``: the token-weighted mean is then exactly 1, credit is moved but neither made nor lost;
            ``ratio`` divides by that mean; ``mass_inside`` multiplies weights by clip(mean length / length, ½, 2);
            ``mass_outside`` multiplies the interpolated result by it; ``none`` leaves the weights alone.
        bound: largest distance from 1 under ``mean_one``.
        coefficient: share of the weight in the result; 0 gives 1.

    Returns:
        Multipliers of the advantage, shape ``[K]``.
    """
    mean = float((lengths * weights).sum() / lengths.sum())
    mass = np.clip(lengths.mean() / lengths, 0.5, 2.0)
    if balance == "mean_one":
        moved = weights - mean
        peak = float(np.abs(moved).max())
        weights = 1 + (moved * (bound / peak) if peak > bound else moved)
    elif balance == "ratio":
        weights = weights / mean
    elif balance == "mass_inside":
        weights = weights * mass
    result = 1 + coefficient * (weights - 1)
    return mass * result if balance == "mass_outside" else result


@dataclass(frozen=True, eq=False)
class Reweighted:
    """What was done to one episode, for the log; arrays have shape ``[K]``, one entry for each segment.

    Attributes:
        success: whether the episode succeeded.
        gaps: mean gaps in nats.
        lengths: tokens that the multiplier acts on.
        base: advantages before.
        multipliers: factors that were applied.
        unbalanced: the factors that there would have been without balancing.
    """

    success: bool
    gaps: Array
    lengths: Array
    base: Array
    multipliers: Array
    unbalanced: Array


def gap_stats(episodes: Iterable[Reweighted]) -> dict[str, float]:
    """Gaps by outcome, their relation to length, the range of multipliers, and what balancing contributed.

    All of it is about segments, and is pooled over those of all groups. ``gap/length_correlation`` is 0 where gaps or
    lengths are all the same; ``multiplier/from_balance`` is the share of the change that balancing made rather than
    the gaps; ``multiplier/residual`` is the advantage mass that was made or lost, as a share of all.
    """
    episodes = list(episodes)
    stats: dict[str, float] = {}
    for name, wanted in (("success", True), ("failure", False)):
        found = [episode.gaps for episode in episodes if episode.success is wanted]
        if found:
            gaps = np.concatenate(found)
            stats |= {f"gap/{name}_mean": Pooled(np.mean, gaps), f"gap/{name}_sd": Pooled(np.std, gaps)}
            stats |= {f"gap/{name}_q{q}": Pooled(partial(np.quantile, q=q / 100), gaps) for q in (10, 50, 90)}
    if not episodes:
        return stats
    gaps = np.concatenate([episode.gaps for episode in episodes])
    lengths = np.concatenate([episode.lengths for episode in episodes])
    base = np.concatenate([episode.base for episode in episodes])
    factors = np.concatenate([episode.multipliers for episode in episodes])
    unbalanced = np.concatenate([episode.unbalanced for episode in episodes])
    moved = float((lengths * np.abs(factors - unbalanced)).sum())
    total = moved + float((lengths * np.abs(unbalanced - 1)).sum())
    made = float((lengths * base * (factors - 1)).sum())
    return stats | {
        "gap/length_correlation": Pooled(_correlation, np.stack([gaps, lengths], axis=1)),
        "multiplier/min": Pooled(np.min, factors),
        "multiplier/max": Pooled(np.max, factors),
        "multiplier/from_balance": share(moved, total),
        "multiplier/residual": share(made, float((lengths * np.abs(base)).sum())),
    }


def _correlation(pairs: Array) -> float:
    gaps, lengths = pairs.T
    return float(np.corrcoef(gaps, lengths)[0, 1]) if min(np.ptp(gaps), np.ptp(lengths)) >= FLAT else 0.0
