from __future__ import annotations

from functools import cache

import pytest
import tiny_policy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from agentgym.trainers.tokenizer import ASSISTANT, END, PAD, SYSTEM, USER, train_tokenizer

MARKS = [PAD, END, SYSTEM, USER, ASSISTANT, "<action>", "</action>"]


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    return tiny_policy.tokenizer()


def encode(text: str) -> list[int]:
    return list(tokenizer()(text, add_special_tokens=False)["input_ids"])


@given(st.text(st.characters(codec="utf-8"), max_size=80))
@example("  two  spaces \t\r\n\n tabs ")
@example("naïve café — 日本語 👩‍👩‍👧 \u0301 \x00\x7f")
@example("it 's n't . , ! don 't")
@settings(max_examples=300, deadline=None)
def test_any_text_survives(text: str) -> None:
    assert tokenizer().decode(encode(text), skip_special_tokens=False) == text


def test_marks_are_single_tokens_inside_any_text() -> None:
    for mark in MARKS:
        (token,) = encode(mark)
        assert encode(f"go{mark}shelf").count(token) == 1
        assert tokenizer().decode(encode(f" a {mark} b"), skip_special_tokens=False) == f" a {mark} b"
    assert [encode(mark)[0] for mark in MARKS] == list(range(7))


def test_names_and_numbers_are_never_one_token() -> None:
    words = [str(tokenizer().decode([token], skip_special_tokens=False)) for token in range(len(tokenizer()))]
    learnt = [word for word in words[7:] if len(word) > 1 and "\ufffd" not in word]
    assert len(learnt) > 50
    for word in learnt:
        bare = word.removeprefix(" ")
        assert " " not in bare and (bare.isalpha() or bare.isdigit() or not any(letter.isalnum() for letter in bare))


@pytest.mark.parametrize("size", [300, 1000])
def test_the_vocabulary_is_limited(size: int) -> None:
    texts = [f"word{chr(97 + i % 26)}{chr(97 + i % 7)}{chr(97 + i % 11)} number {i}" for i in range(3000)]
    made = train_tokenizer(texts, size)
    assert 263 <= len(made) <= size
    assert made.eos_token == END and made.pad_token == PAD


def test_training_is_repeatable() -> None:
    one, other = tiny_policy.tokenizer(), tiny_policy.tokenizer()
    assert one.backend_tokenizer.to_str() == other.backend_tokenizer.to_str()
