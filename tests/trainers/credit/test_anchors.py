from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import ConfigError
from agentgym.trainers.credit import get_credit
from agentgym.trainers.credit.anchors import merged

A, NEAR, FAR = "a" * 40, "a" * 38 + "bb", "a" * 36 + "bbbb"  # 0.95 alike, and 0.9


def test_the_first_place_that_is_alike_enough_stands_for_another() -> None:
    assert merged([A, NEAR, FAR], 0.95) == {A: A, NEAR: A, FAR: FAR}, "not what is like NEAR, which stands for nothing"
    assert merged([NEAR, A, FAR], 0.95) == {NEAR: NEAR, A: NEAR, FAR: NEAR}
    assert merged([A, NEAR, FAR], 0.9) == {A: A, NEAR: A, FAR: A}
    assert merged([A, NEAR, A], None) == merged([A, NEAR, A], 0.951) == {A: A, NEAR: NEAR}
    assert merged([], 0.95) == {}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text("ab", max_size=6)), st.floats(0.1, 1))
def test_places_are_as_like_as_is_asked_and_who_stands_for_others_is_not(texts: list[str], least: float) -> None:
    found = merged(texts, least)
    assert list(found) == list(dict.fromkeys(texts))
    chosen = [text for text, other in found.items() if text == other]
    for text, other in found.items():
        assert other in chosen and SequenceMatcher(None, text, other).ratio() >= least
    for number, text in enumerate(chosen):
        assert all(SequenceMatcher(None, text, other).ratio() < least for other in chosen[:number])


@pytest.mark.parametrize("method", ["gigpo", "graphgpo", "scpo"])
def test_states_are_not_compared_by_likeness(method: str) -> None:
    with pytest.raises(ConfigError, match="anchor_similarity compares observations; leave it out"):
        get_credit(method, anchor="state", anchor_similarity=0.95)


@pytest.mark.parametrize("method", ["gigpo", "graphgpo", "scpo"])
def test_likeness_one_is_the_same_text(method: str, draw: Any) -> None:
    for seed in range(5):
        group = draw.group(seed)
        exact, alike = (get_credit(method, anchor_similarity=x).advantages(group).table for x in (None, 1.0))
        assert exact.advantage.tobytes() == alike.advantage.tobytes()
