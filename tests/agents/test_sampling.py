from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from agentgym.agents.engines.sampling import draw, log_softmax
from agentgym.episode import Sampling

LOGITS = np.log(np.array([0.05, 0.4, 0.0001, 0.3, 0.2499], dtype=np.float32))
GRID = (np.arange(4000) + 0.5) / 4000


def frequencies(sampling: Sampling, allowed: list[int] | None = None) -> NDArray[np.float64]:
    drawn = [draw(LOGITS, sampling, float(uniform), allowed)[0] for uniform in GRID]
    return np.bincount(drawn, minlength=5) / len(GRID)


def test_equally_spaced_uniforms_draw_each_token_as_often_as_it_is_probable() -> None:
    assert frequencies(Sampling()) == pytest.approx(np.exp(LOGITS), abs=4e-4)
    hot = np.exp(LOGITS / 2)
    assert frequencies(Sampling(temperature=2.0)) == pytest.approx(hot / hot.sum(), abs=4e-4)


def test_a_restriction_renormalises() -> None:
    expected = np.array([0.05, 0, 0, 0.3, 0]) / 0.35
    assert frequencies(Sampling(), [0, 3]) == pytest.approx(expected, abs=4e-4)
    token, logprob = draw(LOGITS, Sampling(), 0.9, [0, 3])
    assert token == 3 and logprob == pytest.approx(np.log(0.3 / 0.35))
    assert draw(LOGITS, Sampling(), 0.3, [2]) == (2, 0.0)


@pytest.mark.parametrize(("top_p", "kept"), [(0.3, [1]), (0.5, [1, 3]), (0.69, [1, 3]), (0.9, [1, 3, 4])])
def test_the_nucleus_is_the_smallest_set_with_the_mass(top_p: float, kept: list[int]) -> None:
    found = frequencies(Sampling(top_p=top_p))
    assert np.flatnonzero(found).tolist() == kept
    p = np.where(np.isin(np.arange(5), kept), np.exp(LOGITS), 0)
    assert found == pytest.approx(p / p.sum(), abs=4e-4)
    # The reported log-probability is the one before the cut.
    token, logprob = draw(LOGITS, Sampling(top_p=top_p), 0.0)
    assert token == 1 and logprob == pytest.approx(np.log(0.4), abs=1e-6)


def test_temperature_zero_takes_the_most_probable() -> None:
    for uniform in (0.0, 0.5, 0.999):
        assert draw(LOGITS, Sampling(temperature=0), uniform) == (1, pytest.approx(np.log(0.4), abs=1e-6))
        assert draw(LOGITS, Sampling(temperature=0), uniform, [0, 4])[0] == 4


@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=30),
    st.floats(0, 1, exclude_max=True),
    st.floats(0.01, 100),
    st.floats(0.01, 1),
)
def test_any_draw_is_a_token_with_its_own_probability(
    logits: list[float], uniform: float, temperature: float, top_p: float
) -> None:
    array = np.array(logits, dtype=np.float32)
    token, logprob = draw(array, Sampling(temperature=temperature, top_p=top_p), uniform)
    expected = log_softmax(array.astype(np.float64) / temperature)
    assert logprob == expected[token] and np.exp(expected).sum() == pytest.approx(1)


def test_impossible_tokens_are_never_drawn() -> None:
    logits = np.array([-np.inf, 0, -np.inf, 0, -np.inf], dtype=np.float32)
    assert {draw(logits, Sampling(), float(uniform))[0] for uniform in (0.0, *GRID[::97], 1 - 1e-12)} == {1, 3}
