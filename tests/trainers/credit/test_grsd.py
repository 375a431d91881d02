from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.episode import Group
from agentgym.trainers.credit import get_credit

seeds = st.integers(0, 2**32)
GAPS = {0: (0.6, -0.2, 0.0), 1: (), 2: ()}


@pytest.mark.parametrize(("clip", "expected"), [(0.2, (-0.72, -0.88, -0.8)), (3.0, (-0.08, -1.195013, -0.8))])
def test_values_worked_out_by_hand(build: Any, gap_scorer: Any, clip: float, expected: Any) -> None:
    # One failure, which alone has another success: returns 0 and 1.6 make its advantage -0.8.
    group = Group(episodes=(build.episode(3), build.episode(2, success=True, member=1, total=1.6)))
    scorer = gap_scorer(lambda episode, turn: GAPS[episode.member][turn])
    table = get_credit("grsd", reward="return", scale="none", clip=clip).advantages(group, scorer).table
    assert [turn[0] for turn in table.token_advantages(group)[0]] == pytest.approx(expected, abs=1e-5)
    assert [turn[0] for turn in table.token_advantages(group)[1]] == [0.8, 0.8]


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_coefficient_zero_no_gap_and_one_outcome_are_grpo_bit_for_bit(
    seed: int, draw: Any, gap_scorer: Any, same_as_grpo: Any
) -> None:
    group, scorer = draw.group(seed), gap_scorer(draw.gap(seed))
    same_as_grpo(group, "grsd", lam=0.0)
    same_as_grpo(group, "grsd", gap_scorer())
    same_as_grpo(group, "grsd", gap_scorer(scorer.gap, fits=False))
    for won in (True, False):
        same = tuple(e.model_copy(update={"success": won}) if e.completed else e for e in group.episodes)
        same_as_grpo(Group(episodes=same), "grsd", scorer)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, lam=st.floats(0, 1), clip=st.floats(0.01, 3), zone=st.floats(0, 1))
def test_one_bounded_multiplier_a_turn(
    seed: int, lam: float, clip: float, zone: float, draw: Any, gap_scorer: Any
) -> None:
    group = draw.group(seed)
    base = get_credit("grpo").advantages(group).table.token_advantages(group)
    method = get_credit("grsd", lam=lam, clip=clip, dead_zone=zone)
    found = method.advantages(group, gap_scorer(draw.gap(seed))).table.token_advantages(group)
    for i, turns in enumerate(found):
        for k, tokens in enumerate(turns):
            assert len(set(tokens)) == len(set(base[i][k]))
            assert np.array_equal(np.sign(tokens), np.sign(base[i][k]))
            size = np.abs(base[i][k])
            assert (np.abs(tokens) <= size * (1 + lam * clip) + 1e-9).all()
            assert (np.abs(tokens) >= size * max(1 - lam * clip, 0.1) - 1e-9).all()
