"""From a span of characters in decoded text to the span of tokens that wrote it.

Invariant: nothing is ever encoded again. Offsets are accumulated over the bytes of the tokens that were sampled, so
the mapping is exact whatever the tokenizer would have made of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def decode_bytes(pieces: Sequence[bytes]) -> str:
    """Text of a token sequence, given each token's bytes; broken UTF-8 becomes U+FFFD."""
    return b"".join(pieces).decode("utf-8", errors="replace")


def character_ends(data: bytes) -> list[int]:
    """For each character of ``data.decode("utf-8", "replace")``, the byte offset at which it ends."""
    ends: list[int] = []
    end = 0
    for character in data.decode("utf-8", errors="replace"):
        if character != _REPLACEMENT or data.startswith(_REPLACEMENT.encode(), end):
            end += len(character.encode())
        else:
            end += _broken_length(data[end : end + 4])
        ends.append(end)
    return ends


def _broken_length(data: bytes) -> int:
    """How many of the bytes, the first of which cannot be decoded, one U+FFFD stands for."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.end
    raise ValueError(f"{data!r} is not broken")


def token_span(pieces: Sequence[bytes], start: int, end: int) -> tuple[int, int] | None:
    """The tokens that overlap the characters ``[start, end)`` of the decoded text.

    Args:
        pieces: the bytes of each token; a token without text (an end-of-sequence mark) has ``b""``.
        start: first character.
        end: one past the last character.

    Returns:
        ``(first, one past last)`` token positions, or None if the span is empty or outside the text.
    """
    data = b"".join(pieces)
    if data.isascii():
        if not 0 <= start < end <= len(data):
            return None
        first_byte, last_byte = start, end
    else:
        ends = character_ends(data)
        if not 0 <= start < end <= len(ends):
            return None
        first_byte, last_byte = (ends[start - 1] if start else 0), ends[end - 1]
    first: int | None = None
    last = 0
    offset = 0
    for position, piece in enumerate(pieces):
        begin, offset = offset, offset + len(piece)
        if begin < last_byte and offset > first_byte and piece:
            first = position if first is None else first
            last = position + 1
    return None if first is None else (first, last)
