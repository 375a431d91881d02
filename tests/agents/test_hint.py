from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.agents.engines.transformers import TransformersEngine
from agentgym.agents.prompts import Hint

FORMS = tuple("x" * length for length in (20, 15, 9, 9, 4, 1))


@given(room=st.integers(0, 25), forms=st.integers(0, len(FORMS)))
def test_the_fullest_form_that_fits(engine: TransformersEngine, room: int, forms: int) -> None:
    hint = Hint(FORMS[:forms])
    expected = next((i for i, form in enumerate(hint.forms) if len(form) <= room), None)
    assert hint.fullest(engine.encoder, lambda form: len(form) <= room) == expected


def test_tokens_are_counted_as_the_policy_counts_them(engine: TransformersEngine) -> None:
    forms = ("guess 1 guess 2 guess 3", "guess 1 guess 2", "guess 1")
    counts = [len(engine.encoder.encode(form)) for form in forms]
    assert counts[0] > counts[1] > counts[2]
    for number, count in enumerate(counts):
        assert Hint(forms, max_tokens=count).fullest(engine.encoder) == number
    assert Hint(forms, max_tokens=counts[2] - 1).fullest(engine.encoder) is None
    assert Hint(forms, max_tokens=counts[1]).fullest(engine.encoder, lambda form: len(form) < 10) == 2
    assert Hint(forms).fullest(engine.encoder) == 0


@pytest.mark.parametrize("number", range(5))
def test_one_look_is_enough_where_the_fullest_form_fits(engine: TransformersEngine, number: int) -> None:
    asked: list[str] = []

    def fits(form: str) -> bool:
        asked.append(form)
        return True

    assert Hint(FORMS[number:]).fullest(engine.encoder, fits) == 0
    assert asked == [FORMS[number]]
