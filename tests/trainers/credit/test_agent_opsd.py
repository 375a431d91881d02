from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.episode import Group
from agentgym.trainers.credit import get_credit
from agentgym.trainers.credit.agent_opsd import belief_weights, beliefs

seeds = st.integers(0, 2**32)
EVIDENCE = np.array([1.2, -2.0, 0.3])


@pytest.mark.parametrize(
    ("gamma", "weights", "expected"),
    [
        (1.0, (0.8, 1.2, 0.929316), (-0.72, -0.88, -0.771726)),
        (0.95, (0.801721, 1.2, 0.924458), (-0.720688, -0.88, -0.769783)),
    ],
)
def test_values_worked_out_by_hand(build: Any, gap_scorer: Any, gamma: float, weights: Any, expected: Any) -> None:
    assert belief_weights(-np.diff(beliefs(EVIDENCE, 0.5, gamma)), 0.2) == pytest.approx(weights, abs=1e-5)
    turns = [build.turn(1, (0, 1)) for _ in EVIDENCE]
    group = Group(episodes=(build.episode(turns), build.episode(2, success=True, member=1, total=1.6)))
    method = get_credit("agent_opsd", reward="return", scale="none", gamma=gamma)
    table = method.advantages(group, gap_scorer(lambda episode, turn: EVIDENCE[turn])).table
    assert [turn[0] for turn in table.token_advantages(group)[0]] == pytest.approx(expected, abs=1e-5)


def test_beliefs() -> None:
    assert beliefs(EVIDENCE, 0.5, 1.0) == pytest.approx((0.5, 0.768525, 0.310026, 0.377541), abs=1e-6)
    assert beliefs(EVIDENCE[:1] * 0, 1.0, 1.0) == pytest.approx((1 - 1e-4, 1 - 1e-4))
    assert belief_weights(np.array([0.25, 0.25]), 0.2).tolist() == [1.0, 1.0]


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_coefficient_zero_and_single_turns_are_grpo_bit_for_bit(
    seed: int, draw: Any, gap_scorer: Any, same_as_grpo: Any
) -> None:
    group, scorer = draw.group(seed), gap_scorer(draw.gap(seed))
    same_as_grpo(group, "agent_opsd", lam=0.0)
    same_as_grpo(group, "agent_opsd", gap_scorer(scorer.gap, fits=False))
    short = tuple(episode.model_copy(update={"turns": episode.turns[:1]}) for episode in group.episodes)
    same_as_grpo(Group(episodes=short), "agent_opsd", scorer)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, lam=st.floats(0, 1), b=st.floats(0.01, 0.9))
def test_one_bounded_multiplier_a_turn(seed: int, lam: float, b: float, draw: Any, gap_scorer: Any) -> None:
    group = draw.group(seed)
    base = get_credit("grpo").advantages(group).table.token_advantages(group)
    method = get_credit("agent_opsd", lam=lam, b=b)
    found = method.advantages(group, gap_scorer(draw.gap(seed))).table.token_advantages(group)
    for i, turns in enumerate(found):
        for k, tokens in enumerate(turns):
            assert len(set(tokens)) == len(set(base[i][k]))
            assert np.array_equal(np.sign(tokens), np.sign(base[i][k]))
            assert (np.abs(tokens - base[i][k]) <= np.abs(base[i][k]) * lam * b + 1e-9).all()
