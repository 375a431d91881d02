from __future__ import annotations

from functools import cache

import pytest
import tiny_policy
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, trainers
from transformers import PreTrainedTokenizerFast

from agentgym.agents.engines.vocabulary import token_bytes
from agentgym.spans import decode_bytes

TEXT = st.text(st.characters(codec="utf-8"), max_size=60)


@cache
def metaspace() -> PreTrainedTokenizerFast:
    """BPE over words with U+2581 for spaces and bytes for what it does not know, as SentencePiece makes them."""
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))],
        show_progress=False,
    )
    made = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    # Latin letters that byte-level vocabularies use as names of bytes are ordinary letters here.
    made.normalizer = normalizers.Replace(" ", "\u2581")
    made.train_from_iterator(
        ["go to the Ġarden of caf\u00e9s", "put the key in the safe", "you see a lamp"] * 5, trainer
    )
    made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="</s>", unk_token="<unk>")


@cache
def byte_level() -> PreTrainedTokenizerFast:
    return tiny_policy.tokenizer()


@pytest.mark.parametrize("made", [byte_level, metaspace])
@given(text=TEXT)
@settings(max_examples=150, deadline=None)
def test_bytes_of_a_text_spell_the_text(made: object, text: str) -> None:
    tokenizer = byte_level() if made is byte_level else metaspace()
    pieces = token_bytes(tokenizer, silent=())
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert (
        b"".join(pieces[token] for token in ids)
        == text.replace("\u2581", " " if made is metaspace else "\u2581").encode()
    )


@pytest.mark.parametrize("made", [byte_level, metaspace])
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_bytes_of_any_ids_spell_what_the_tokenizer_decodes(made: object, data: st.DataObject) -> None:
    tokenizer = byte_level() if made is byte_level else metaspace()
    pieces = token_bytes(tokenizer, silent=())
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=12))
    ours, theirs = decode_bytes([pieces[token] for token in ids]), tokenizer.decode(ids, skip_special_tokens=False)
    # Decoders differ in how much they give up around broken bytes.
    assert ours == theirs or "\ufffd" in ours


@pytest.mark.parametrize("made", [byte_level, metaspace])
def test_every_id_has_an_entry_and_silent_ones_have_no_text(made: object) -> None:
    tokenizer = byte_level() if made is byte_level else metaspace()
    end = tokenizer.eos_token_id
    assert isinstance(end, int)
    pieces = token_bytes(tokenizer, silent={end})
    assert len(pieces) == len(tokenizer) and pieces[end] == b""
    assert token_bytes(tokenizer, silent=())[end] == str(tokenizer.eos_token).encode()


def test_marks_are_written_as_they_read() -> None:
    tokenizer = byte_level()
    pieces = token_bytes(tokenizer, silent=())
    for mark in ("<action>", "</action>", "<|user|>"):
        assert pieces[tokenizer.get_vocab()[mark]] == mark.encode()
