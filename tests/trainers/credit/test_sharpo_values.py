"""Values worked out by hand for segments of 4, 10 and 6 tokens with gaps 0.6, -0.2 and 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentgym.episode import Group
from agentgym.trainers.credit import get_credit

LENGTHS = (4, 10, 6)
GAPS = (0.6, -0.2, 0.0)


@pytest.fixture(scope="session")
def advantages(build: Any, gap_scorer: Any) -> Any:
    """Advantages of an episode's action segments, given the base advantage (±0.8), lengths, gaps and options."""

    def compute(
        base: float, lengths: tuple[int, ...] = LENGTHS, gaps: tuple[float, ...] = GAPS, **options: object
    ) -> list[float]:
        turns = [build.turn(n + 3, (2, 2 + n)) for n in lengths]
        low, high = (0.0, 1.0) if base < 0 else (1.0, 0.0)
        judged = build.episode(turns, success=base > 0, total=low * abs(base) * 1.25)
        others = [build.episode(2, success=True, member=i, total=high * abs(base) * 1.25) for i in range(1, 5)]
        group = Group(episodes=(judged, *others))
        scorer = gap_scorer(lambda episode, turn: gaps[turn] if episode is judged else 0.0)
        credit = get_credit("sharpo", reward="return", scale="none", **options).advantages(group, scorer)
        laid = credit.table.token_advantages(group)[0]
        for tokens in laid:
            assert tokens[[0, 1, -1]] == pytest.approx(base)
        return [float(tokens[2]) for tokens in laid]

    return compute


@pytest.mark.parametrize(
    ("options", "failure", "success"),
    [
        ({}, (-0.768, -0.813700, -0.798500), (0.832, 0.786300, 0.801500)),
        ({"lam": 0.05}, (-0.792, -0.803425, -0.799625), (0.808, 0.796575, 0.800375)),
        ({"balance": "none"}, (-0.768, -0.815947, -0.8), (0.832, 0.784053, 0.8)),
        ({"balance": "ratio"}, (-0.766754, -0.814233, -0.798442), (0.833907, 0.785484, 0.801589)),
        ({"balance": "mass_inside"}, (-0.853333, -0.757298, -0.817778), (0.96, 0.736035, 0.817778)),
        ({"balance": "mass_outside"}, (-1.28, -0.543965, -0.888889), (1.386667, 0.522702, 0.888889)),
        ({"balance": "mass_outside", "lam": 0}, (-1.333333, -0.533333, -0.888889), (1.333333, 0.533333, 0.888889)),
        ({"balance": "none", "signed": False}, (-0.832, -0.784053, -0.8), (0.832, 0.784053, 0.8)),
        ({"balance": "none", "clip": None, "lam": 1}, (-0.566950, -0.879734, -0.8), (1.033050, 0.720266, 0.8)),
        ({"lam": 0.8, "lam_on": "base"}, (-0.768, -0.813700, -0.798500), (0.832, 0.786300, 0.801500)),
    ],
)
def test_both_signs(advantages: Any, options: dict[str, Any], failure: Any, success: Any) -> None:
    assert advantages(-0.8, **options) == pytest.approx(failure, abs=1e-6)
    assert advantages(+0.8, **options) == pytest.approx(success, abs=1e-6)


def test_the_default_balance_conserves_the_mass(advantages: Any) -> None:
    for base in (-0.8, 0.8):
        assert np.dot(LENGTHS, advantages(base)) == pytest.approx(20 * base, abs=1e-9)


def test_equal_and_lopsided_gaps(advantages: Any) -> None:
    assert advantages(0.8, gaps=(-3.0, -3.0, -3.0)) == pytest.approx([0.8] * 3, abs=1e-12)
    assert advantages(0.8, (30, 1), (3.0, -3.0)) == pytest.approx([0.8 * 1.001333, 0.8 * 0.96], abs=1e-6)


def test_gaps_relative_to_the_episode(advantages: Any) -> None:
    z = np.array(GAPS) - np.mean(GAPS)
    z /= np.std(GAPS)
    for base in (-0.8, 0.8):
        expected = base * (1 + 0.2 * np.tanh(np.sign(base) * z / 2))
        got = advantages(base, tau="trajectory_z", clip=None, balance="none")
        assert got == pytest.approx(expected, abs=1e-5)


def test_gaps_relative_to_the_group(build: Any, gap_scorer: Any) -> None:
    group = build.group([False, False, True], turns=[2, 2, 2])
    gap = {0: (0.1, -0.3), 1: (0.2, 0.2), 2: (9.0, 9.0)}  # the lone success has no peer, so its gap is not asked for
    options = {"tau": "group_mean_abs", "clip": None, "balance": "none"}
    table = get_credit("sharpo", **options).advantages(group, gap_scorer(lambda e, t: gap[e.member][t])).table
    base = get_credit("grpo").advantages(group).table.advantage[0]
    got = table.advantage[table.kind == "action"]
    assert got == pytest.approx(base * (1 - 0.2 * np.tanh(np.array([0.5, -1.5, 1.0, 1.0]) / 2)), abs=1e-5)


def test_the_range_of_the_log(build: Any, gap_scorer: Any) -> None:
    group = build.group([False, False, True, True], turns=[3, 1, 2, 4])
    gap = {0: (0.6, -0.2, 0.0), 1: (0.4,), 2: (-1.0, 1.0), 3: (0.0, 0.0, 0.0, 0.0)}
    stats = get_credit("sharpo", balance="none").advantages(group, gap_scorer(lambda e, t: gap[e.member][t])).stats
    assert stats["peer/coverage"] == 1.0
    assert stats["peer/overflow"] == 0.0
    assert stats["gap/failure_mean"] == pytest.approx(0.2, abs=1e-6)
    assert stats["gap/failure_sd"] == pytest.approx(np.std([0.6, -0.2, 0.0, 0.4]), abs=1e-6)
    assert stats["gap/failure_q50"] == pytest.approx(0.2, abs=1e-6)
    assert stats["gap/success_mean"] == pytest.approx(0.0, abs=1e-6)
    assert (stats["multiplier/min"], stats["multiplier/max"]) == pytest.approx((0.96, 1.04))
    assert stats["multiplier/from_balance"] == 0.0
    balanced = (
        get_credit("sharpo", balance="mean_one").advantages(group, gap_scorer(lambda e, t: gap[e.member][t])).stats
    )
    assert 0 < balanced["multiplier/from_balance"] < 1
    assert balanced["multiplier/residual"] == pytest.approx(0, abs=1e-12)
