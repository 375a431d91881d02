from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentgym.spans import character_ends, decode_bytes, token_span

# Bytes that make broken UTF-8 likely: parts of long characters, overlong and surrogate forms, and plain letters.
nasty = st.lists(
    st.sampled_from(
        [b"\xf0", b"\x9f", b"\x98", b"\x80", b"\xe2", b"\xed", b"\xa0", b"\xc0", b"\xff", b"a", b"<", "é".encode()]
    ),
    max_size=8,
).map(b"".join)
pieces_of = st.lists(st.one_of(st.binary(max_size=5), nasty, st.text(max_size=4).map(str.encode)), max_size=12)


@given(pieces_of)
def test_character_ends_describe_the_decoded_text(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    ends = character_ends(data)
    assert len(ends) == len(decode_bytes(pieces))
    starts = [0, *ends][:-1]
    # Every byte belongs to one character, and each stretch of bytes is that character.
    assert not ends or ends[-1] == len(data)
    decoded = [data[begin:end].decode("utf-8", "replace") for begin, end in zip(starts, ends, strict=True)]
    assert decoded == list(decode_bytes(pieces))


@given(pieces_of, st.data())
def test_the_span_is_the_smallest_run_of_tokens_that_covers_the_characters(
    pieces: list[bytes], data: st.DataObject
) -> None:
    text = decode_bytes(pieces)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    span = token_span(pieces, start, end)
    if start == end:
        assert span is None
        return
    assert span is not None
    first, last = span
    ends = [0, *character_ends(b"".join(pieces))]
    offsets = [0]
    for piece in pieces:
        offsets.append(offsets[-1] + len(piece))
    begin_byte, end_byte = ends[start], ends[end]
    assert offsets[first] <= begin_byte and end_byte <= offsets[last]
    # Smallest: without its first or last token something is missing.
    assert offsets[first + 1] > begin_byte and offsets[last - 1] < end_byte
    assert pieces[first] and pieces[last - 1]


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=10), st.data())
def test_tokens_of_whole_characters_are_found_exactly(words: list[str], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first + 1, len(words)))
    start = sum(map(len, words[:first]))
    end = start + sum(map(len, words[first:last]))
    encoded = [word.encode() for word in words]
    assert token_span(encoded, start, end) == (first, last)
    assert token_span([b"", *encoded, b""], start, end) == (first + 1, last + 1)


@given(pieces_of, st.integers(-3, 60), st.integers(-3, 60))
def test_spans_outside_the_text_are_none(pieces: list[bytes], start: int, end: int) -> None:
    length = len(decode_bytes(pieces))
    if not 0 <= start < end <= length:
        assert token_span(pieces, start, end) is None


def test_a_character_split_over_tokens() -> None:
    grin = "\N{GRINNING FACE}".encode()
    pieces = [b"a", grin[:1], grin[1:3], grin[3:] + b"b", b"c"]
    assert decode_bytes(pieces) == "a\N{GRINNING FACE}bc"
    assert token_span(pieces, 1, 2) == (1, 4)
    assert token_span(pieces, 2, 3) == (3, 4)
    assert token_span(pieces, 3, 4) == (4, 5)


def test_a_broken_character_does_not_reach_into_its_neighbours() -> None:
    pieces = [b">", b"\xf0\x9f", b"<", b"\xe2", b"\xc3\xa9"]
    assert decode_bytes(pieces) == ">\ufffd<\ufffdé"
    assert [token_span(pieces, at, at + 1) for at in range(5)] == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
