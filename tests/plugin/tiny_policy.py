"""Policies of some thousand random weights: a real model, a real tokenizer, and quick enough for any test."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from agentgym import registry
from agentgym.agents.engines.card import PlaySettings
from agentgym.agents.engines.transformers import TransformersEngine
from agentgym.trainers.init import ModelConfig, init_model
from agentgym.trainers.policy import Policy
from agentgym.trainers.tokenizer import train_tokenizer

TINY = ModelConfig(width=32, layers=2, heads=2, kv_heads=1, hidden=64, context=2048, seed=1)


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of 400 ids, which knows the words of two environments; everybody gets one of their own."""
    return train_tokenizer(_texts(), 400)


@cache
def _texts() -> tuple[str, ...]:
    def play() -> Iterator[str]:
        for name in ("guess", "alfworld"):
            env = registry.make(name)
            for index in range(3):
                observation, info = env.reset(seed=0, options={"task": index})
                for number in range(6):
                    yield observation
                    yield from (actions := info["admissible_actions"] or ())
                    observation, _, _, _, info = env.step(actions[number * 5 % len(actions)])

    return tuple(play())


def engine(size: ModelConfig = TINY, *, sharpness: float = 12.0, max_batch: int = 64) -> TransformersEngine:
    """An engine whose model has opinions: initial weights are multiplied by ``sharpness``."""
    words = tokenizer()
    model = init_model(size, words)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(sharpness)
    return TransformersEngine(model, words, name="tiny", max_batch=max_batch)


def policy(size: ModelConfig = TINY, *, sharpness: float = 12.0, **settings: Any) -> Policy:
    """A policy; settings default to those that suit small policies."""
    chosen = {"prompts": "compact", "style": "append", "restrict": "admissible", "max_tokens": 24, **settings}
    return Policy(engine(size, sharpness=sharpness), PlaySettings(**chosen))
