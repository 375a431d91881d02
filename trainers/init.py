"""A fresh policy small enough for a CPU: a Llama of one or two million parameters and its own tokenizer."""

from __future__ import annotations

from typing import Any, Self

import torch
from pydantic import Field, model_validator
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from .config import Section


class ModelConfig(Section):
    """Size of a fresh policy.

    Attributes:
        width: size of the residual stream.
        layers: number of blocks.
        heads: attention heads; ``width / heads`` is the head size, 32 or 64.
        kv_heads: key-value heads.
        hidden: width of the feed-forward layer.
        context: most tokens in one sequence.
        vocab_size: most ids of the tokenizer.
        rope_theta: base of the rotary position encoding.
        seed: of the initial weights.
    """

    width: int = Field(default=128, gt=0)
    layers: int = Field(default=4, gt=0)
    heads: int = Field(default=4, gt=0)
    kv_heads: int = Field(default=2, gt=0)
    hidden: int = Field(default=384, gt=0)
    context: int = Field(default=4096, gt=0)
    vocab_size: int = Field(default=1000, ge=300)
    rope_theta: float = Field(default=10000.0, gt=0)
    seed: int = 0

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.width % (2 * self.heads):
            raise ValueError(f"width {self.width} must be an even multiple of heads {self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} must be a multiple of kv_heads {self.kv_heads}")
        return self


def init_model(config: ModelConfig, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Random weights for a tokenizer; the global random state is left as it was."""
    marks: dict[str, Any] = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    llama = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.width,
        intermediate_size=config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        max_position_embeddings=config.context,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        tie_word_embeddings=True,
        bos_token_id=None,
        **marks,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return LlamaForCausalLM(llama)
