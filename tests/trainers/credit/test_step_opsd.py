from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import ConfigError
from agentgym.trainers.credit import TeacherRule, get_credit
from agentgym.trainers.credit.step_opsd import OUTCOMES, step_factors

seeds = st.integers(0, 2**32)


@pytest.mark.parametrize(
    ("lam", "success", "failure"),
    [
        (0.2, (1.009992, 0.970223, 1.04), (-0.990008, -1.029777, -0.96)),
        (0.05, (1.002498, 0.992556, 1.01), (-0.997502, -1.007444, -0.99)),
    ],
)
def test_values_worked_out_by_hand(judged: Any, lam: float, success: Any, failure: Any) -> None:
    gaps = [(0.1, -0.3, 0.5)]
    assert judged("step_opsd", 1.0, gaps, lam=lam)[0] == pytest.approx(success, abs=1e-6)
    assert judged("step_opsd", -1.0, gaps, lam=lam)[0] == pytest.approx(failure, abs=1e-6)


def test_step_factors() -> None:
    assert step_factors(np.array([0.5, 1.0, 3.0])) == pytest.approx((2, 1.5, 0.5), abs=1e-5)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, norm=st.sampled_from(["none", "mean_abs"]))
def test_coefficient_zero_annealing_and_no_gap_are_grpo_bit_for_bit(
    seed: int, norm: str, draw: Any, gap_scorer: Any, same_as_grpo: Any
) -> None:
    group, gap = draw.group(seed), draw.gap(seed)
    same_as_grpo(group, "step_opsd", lam=0.0, step_norm=norm)
    same_as_grpo(group, "step_opsd", step=50, step_norm=norm)
    same_as_grpo(group, "step_opsd", gap_scorer())
    same_as_grpo(group, "step_opsd", gap_scorer(gap, fits=False), step_norm=norm)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, lam=st.floats(0, 1), clip=st.floats(0.01, 0.9), norm=st.booleans())
def test_signs_are_kept_actions_alone_move_and_multipliers_are_bounded(
    seed: int, lam: float, clip: float, norm: bool, draw: Any, gap_scorer: Any
) -> None:
    group = draw.group(seed)
    base = get_credit("grpo").advantages(group).table.token_advantages(group)
    options = {"lam": lam, "clip": clip, "step_norm": "mean_abs" if norm else "none"}
    table = get_credit("step_opsd", **options).advantages(group, gap_scorer(draw.gap(seed))).table
    low, high = (0.5, 2.0) if norm else (1.0, 1.0)
    for i, turns in enumerate(table.token_advantages(group)):
        for k, tokens in enumerate(turns):
            outside = np.ones(len(tokens), bool)
            outside[slice(*(group.episodes[i].turns[k].action_span or (0, 0)))] = False
            assert np.array_equal(tokens[outside], base[i][k][outside])
            assert np.array_equal(np.sign(tokens), np.sign(base[i][k]))
            size = np.abs(base[i][k])
            assert (np.abs(tokens) <= size * (1 + lam * clip) * high + 1e-9).all()
            assert (np.abs(tokens) >= size * (1 - lam * clip) * low - 1e-9).all()


def test_step_norm_evens_out_the_actions(judged: Any) -> None:
    gaps = [(0.5, 0.5), (-0.5, -0.5)]
    plain = [float(tokens[0]) for tokens in judged("step_opsd", 1.0, gaps, lam=1.0)]
    even = [float(tokens[0]) for tokens in judged("step_opsd", 1.0, gaps, lam=1.0, step_norm="mean_abs")]
    assert plain == pytest.approx([1.2, 0.8])
    assert even == pytest.approx([1.0, 1.0], abs=1e-5)


def test_lambda_is_constant_or_annealed(build: Any, gap_scorer: Any) -> None:
    group = build.group([False, True])
    base = get_credit("grpo").advantages(group).table.token_advantages(group)[0][0][2]
    for options, step, lam in (({}, 25, 0.1), ({"lam_decay_steps": None}, 25, 0.2), ({}, 50, 0.0)):
        scorer = gap_scorer(lambda episode, turn: 5.0)
        tokens = get_credit("step_opsd", **options).advantages(group, scorer, step=step).table.token_advantages(group)
        assert tokens[0][0][2] == pytest.approx(base * (1 - 0.2 * lam))


def test_what_the_teacher_is_and_is_told(build: Any) -> None:
    group = build.group([False, True, True])
    hints = {
        (peers, outcome): {
            request.episode.member: (request.hint.forms, request.hint.place, request.weights)
            for request in get_credit("step_opsd", peers=peers, outcome=outcome).requests(group)
            if request.hint is not None
        }
        for peers, outcome in (("none", True), ("failed", True), ("failed", False), ("all", False))
    }
    failed, won = OUTCOMES[False], OUTCOMES[True]
    labels = {i: ((text,), "after_header", "teacher") for i, text in enumerate((failed, won, won))}
    assert hints["none", True] == labels
    both = hints["failed", True]
    assert both[0][0][0].startswith(failed + "\nAnother attempt")
    assert both[0][0][-1] == failed
    assert (both[1], both[2]) == (labels[1], labels[2])
    assert set(hints["failed", False]) == {0}
    assert set(hints["all", False]) == {0, 1, 2}
    assert get_credit("step_opsd").teacher == TeacherRule("stale", 10)
    assert get_credit("step_opsd", teacher="current").teacher is None
    with pytest.raises(ConfigError, match="tells the teacher nothing"):
        get_credit("step_opsd", outcome=False)
