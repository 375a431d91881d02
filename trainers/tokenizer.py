"""A small byte-level BPE tokenizer, trained on an environment's own text.

Invariant: any text is encoded without loss, words and numbers are never merged across a space, and action tags and
message marks are single tokens.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from agentgym.env import CLOSE_TAG, OPEN_TAG

PAD, END, SYSTEM, USER, ASSISTANT = "<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def train_tokenizer(texts: Iterable[str], vocab_size: int = 1000) -> PreTrainedTokenizerFast:
    """Trains a tokenizer with a prefix-preserving chat template.

    Args:
        texts: what the policy will read and write.
        vocab_size: most ids, marks and the 256 bytes included.
    """
    tokenizer = Tokenizer(models.BPE())
    pieces = Regex(r" ?\p{L}+| ?\p{N}+| ?[^\p{L}\p{N}\s]|\s")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(pieces, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    marks = [PAD, END, SYSTEM, USER, ASSISTANT, OPEN_TAG, CLOSE_TAG]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[AddedToken(mark, special=True, normalized=False) for mark in marks],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=END)
    wrapped.chat_template = TEMPLATE
    return wrapped
