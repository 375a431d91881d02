from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.credit import get_credit

seeds = st.integers(0, 2**32)


def test_values_worked_out_by_hand(judged: Any) -> None:
    gaps = [(0.1, -0.3, 0.5)]
    assert judged("rlsd", 1.0, gaps)[0] == pytest.approx((1.052585, 0.9, 1.1), abs=1e-6)
    assert judged("rlsd", -1.0, gaps)[0] == pytest.approx((-0.952419, -1.1, -0.9), abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, unit=st.sampled_from(["episode", "row"]))
def test_coefficient_zero_no_gap_and_no_room_are_grpo_bit_for_bit(
    seed: int, unit: str, draw: Any, gap_scorer: Any, same_as_grpo: Any
) -> None:
    group, scorer = draw.group(seed), gap_scorer(draw.gap(seed))
    same_as_grpo(group, "rlsd", baseline_unit=unit, lam=0.0)
    same_as_grpo(group, "rlsd", step=50, baseline_unit=unit)
    same_as_grpo(group, "rlsd", gap_scorer(), baseline_unit=unit)
    same_as_grpo(group, "rlsd", gap_scorer(scorer.gap, fits=False), baseline_unit=unit)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, lam=st.floats(0, 1), clip=st.floats(0.01, 0.9))
def test_signs_are_kept_and_multipliers_bounded(
    seed: int, lam: float, clip: float, draw: Any, laid: Any, gap_scorer: Any
) -> None:
    group = draw.group(seed)
    base = laid(get_credit("grpo").advantages(group).table, group)
    credit = get_credit("rlsd", lam=lam, clip=clip).advantages(group, gap_scorer(draw.gap(seed)))
    for left, right in zip(laid(credit.table, group), base, strict=True):
        assert np.array_equal(np.sign(left), np.sign(right))
        assert (np.abs(left - right) <= np.abs(right) * lam * clip + 1e-12).all()


def test_lambda_falls_linearly(build: Any, gap_scorer: Any) -> None:
    group = build.group([False, True])
    base = get_credit("grpo").advantages(group).table.token_advantages(group)[0][0][0]
    scorer = gap_scorer(lambda episode, turn: 5.0)
    for step, lam in ((0, 0.5), (25, 0.25), (49, 0.01), (50, 0.0), (80, 0.0)):
        table = get_credit("rlsd").advantages(group, scorer, step=step).table
        assert table.token_advantages(group)[0][0] == pytest.approx([base * (1 - 0.2 * lam)] * 12)


def test_only_episodes_with_another_success_are_asked_for(build: Any, gap_scorer: Any) -> None:
    group, scorer = build.group([False, True, False]), gap_scorer()
    stats = get_credit("rlsd").advantages(group, scorer).stats
    assert [(r.episode.member, r.hint is None) for r in scorer.asked] == [(0, True), (0, False), (2, True), (2, False)]
    assert stats["peer/coverage"] == pytest.approx(2 / 3)
    assert get_credit("rlsd").requests(build.group([False, False])) == []
    assert get_credit("rlsd").requests(build.group([True, True])) == []
    assert get_credit("rlsd").requests(build.group([True])) == []
