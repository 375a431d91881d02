"""The bytes of each token of a vocabulary, for exact text and exact spans without decoding and encoding again."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

from transformers import PreTrainedTokenizerBase

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@cache
def _byte_of_character() -> dict[str, int]:
    # Byte-level BPE writes printable Latin-1 characters as themselves and the other bytes as U+0100, U+0101, …
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    table = {chr(byte): byte for byte in plain}
    table.update({chr(256 + number): byte for number, byte in enumerate(others)})
    return table


def token_bytes(tokenizer: PreTrainedTokenizerBase, silent: Collection[int]) -> list[bytes]:
    """The bytes of every id, in order.

    Args:
        tokenizer: byte-level BPE, or SentencePiece with byte fallback.
        silent: ids without text, such as end marks.
    """
    names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    added = {index: token.content for index, token in tokenizer.added_tokens_decoder.items()}
    table = _byte_of_character()
    learnt = [name for index, name in enumerate(names) if name is not None and index not in added]
    # Large SentencePiece vocabularies hold all of these letters as well, but byte-level ones never write U+2581.
    byte_level = any("Ġ" in name for name in learnt) and not any(name.startswith("\u2581") for name in learnt)
    pieces: list[bytes] = []
    for index, name in enumerate(names):
        if index in silent or name is None:
            pieces.append(b"")
        elif not byte_level and (match := _BYTE_TOKEN.fullmatch(name)):
            pieces.append(bytes([int(match[1], 16)]))
        elif index in added:
            pieces.append(added[index].encode())
        elif byte_level and all(character in table for character in name):
            pieces.append(bytes(table[character] for character in name))
        else:
            pieces.append(name.replace("\u2581", " ").encode())
    return pieces
