"""The `llm` agent: a model string and settings make an agent."""

from __future__ import annotations

from collections.abc import Mapping

from .engines import load_engine, resolve_checkpoint
from .engines.card import read_settings
from .engines.player import EngineAgent


def make_llm_agent(model: str, settings: Mapping[str, str]) -> EngineAgent:
    """An agent for a model string such as ``hf/PATH`` or ``hf/builtin:alfworld-small``.

    Args:
        model: the model string.
        settings: see `agentgym.agents.engines.card.PlaySettings`; they override the checkpoint's card.

    Raises:
        UnknownNameError: for an unknown kind of model, built-in policy, prompt set or setting.
        ConfigError: for a value out of range, or if what the model needs is not installed.
        DataError: if the checkpoint is missing or corrupt.
        TemplateError: for append style with a chat template that is not prefix-preserving.
    """
    _, slash, name = model.partition("/")
    chosen = read_settings(resolve_checkpoint(name) if slash and model.startswith("hf/") else None, settings)
    return EngineAgent(load_engine(model), chosen)
