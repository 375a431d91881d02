from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trainers.credit.reweight import Squash, mean_gap, multipliers, squash

KINDS: tuple[Squash, ...] = ("sigmoid", "exp", "tanh", "clip")
WEIGHT_BOUNDS = {
    "mean_one": (0.96, 1.04),
    "none": (0.96, 1.04),
    "ratio": (0.9333333, 1.1),
    "mass_inside": (0.88, 1.28),
    "mass_outside": (0.48, 2.08),
}

segments = st.lists(st.tuples(st.floats(-6, 6), st.integers(1, 60)), min_size=1, max_size=12)


def arrays(pairs: list[tuple[float, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([g for g, _ in pairs]), np.array([float(n) for _, n in pairs])


def test_the_mean_gap_is_clamped_by_token() -> None:
    teacher, student = np.array([-1.0, -0.5, -30.0], np.float32), np.array([-2.0, -0.5, -1.0], np.float32)
    assert mean_gap(teacher, student, 5.0) == pytest.approx((1 + 0 - 5) / 3)
    assert mean_gap(teacher, student, None) == pytest.approx((1 + 0 - 29) / 3)


def test_squashes() -> None:
    x = np.array([-0.6, 0.0, 0.3])
    assert squash(x, "sigmoid", None) == pytest.approx(2 / (1 + np.exp(-x)))
    assert squash(x, "exp", 0.99) == pytest.approx(np.exp(x))
    assert squash(x, "tanh", None) == pytest.approx(1 + np.tanh(x))
    assert squash(x, "clip", 0.2) == pytest.approx([0.8, 1.0, 1.2])
    extreme = np.array([-1e9, 1e9])
    assert squash(extreme, "sigmoid", None).tolist() == [0.0, 2.0]
    for kind in KINDS:
        assert squash(extreme, kind, 0.2).tolist() == [0.8, 1.2]
        assert squash(np.zeros(1), kind, 0.2).tolist() == [1.0]


@given(pairs=segments, balance=st.sampled_from(sorted(WEIGHT_BOUNDS)), kind=st.sampled_from(KINDS))
def test_bounds_at_a_fifth(pairs: list[tuple[float, int]], balance: str, kind: str) -> None:
    gaps, lengths = arrays(pairs)
    low, high = WEIGHT_BOUNDS[balance]
    result = multipliers(squash(gaps, kind, 0.2), lengths, balance, 0.2, 0.2)  # type: ignore[arg-type]
    assert (result >= low - 1e-6).all()
    assert (result <= high + 1e-6).all()


@given(pairs=segments, coefficient=st.floats(0, 1), clip=st.one_of(st.none(), st.floats(0.01, 0.9)))
def test_mean_one_conserves_mass_stays_in_bounds_and_keeps_the_order(
    pairs: list[tuple[float, int]], coefficient: float, clip: float | None
) -> None:
    gaps, lengths = arrays(pairs)
    bound = clip or 1.0
    result = multipliers(squash(gaps, "sigmoid", clip), lengths, "mean_one", bound, coefficient)
    assert (lengths * result).sum() == pytest.approx(lengths.sum(), rel=1e-12)
    assert (np.abs(result - 1) <= coefficient * bound + 1e-12).all()
    assert (np.diff(result[np.argsort(gaps, kind="stable")]) >= -1e-12).all()


@given(pairs=segments)
def test_the_unclipped_weight_moves_the_multiplier_by_at_most_the_coefficient(pairs: list[tuple[float, int]]) -> None:
    gaps, lengths = arrays(pairs)
    result = multipliers(squash(gaps, "sigmoid", None), lengths, "none", 1.0, 0.2)
    assert (np.abs(result - 1) <= 0.2).all()
    assert (np.diff(result[np.argsort(gaps)]) >= 0).all()


@given(pairs=segments, gap=st.floats(-3, 3), coefficient=st.floats(0, 1))
def test_what_leaves_every_multiplier_at_one(pairs: list[tuple[float, int]], gap: float, coefficient: float) -> None:
    gaps, lengths = arrays(pairs)
    equal = multipliers(squash(np.full_like(gaps, gap), "sigmoid", 0.2), lengths, "mean_one", 0.2, coefficient)
    assert equal == pytest.approx(np.ones(len(gaps)), abs=1e-12)
    for balance in ("mean_one", "ratio", "none"):
        zero_gap = multipliers(squash(np.zeros_like(gaps), "sigmoid", 0.2), lengths, balance, 0.2, coefficient)
        assert zero_gap.tolist() == [1.0] * len(gaps)
    for balance in ("mean_one", "ratio", "mass_inside", "none"):
        no_share = multipliers(squash(gaps, "sigmoid", 0.2), lengths, balance, 0.2, 0.0)  # type: ignore[arg-type]
        assert no_share.tolist() == [1.0] * len(gaps)


def test_saturated_weights_of_very_unequal_lengths() -> None:
    lengths = np.array([30.0, 1.0])
    weights = squash(np.array([3.0, -3.0]), "sigmoid", 0.2)
    assert multipliers(weights, lengths, "mean_one", 0.2, 1.0) == pytest.approx([1.006667, 0.8], abs=1e-6)
    assert multipliers(weights, lengths, "mean_one", 0.2, 0.2) == pytest.approx([1.001333, 0.96], abs=1e-6)


def test_balancing_removes_the_bias_of_the_gap() -> None:
    """On the policy's own samples the mean gap is minus a divergence, which shrinks rewards and inflates penalties."""
    rng = np.random.Generator(np.random.Philox(7))
    student, teacher = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    gap_of = np.log(teacher / student)
    trajectories, count, length = 3000, 5, 6
    gaps = gap_of[rng.choice(3, p=student, size=(trajectories, count, length))].mean(axis=2)
    divergence = float((student * -gap_of).sum())
    assert gaps.mean() == pytest.approx(-divergence, abs=4 * gaps.std() / gaps.size**0.5)

    lengths = np.full(count, float(length))
    for sign, low, high in ((1.0, 0.0, 0.995), (-1.0, 1.005, 2.0)):
        weights = [squash(sign * row, "sigmoid", 0.2) for row in gaps]
        plain = np.mean([multipliers(w, lengths, "none", 0.2, 0.2) for w in weights])
        assert low < plain < high
        centred = np.mean([multipliers(w, lengths, "mean_one", 0.2, 0.2) for w in weights])
        assert centred == pytest.approx(1.0, abs=1e-12)
