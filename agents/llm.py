"""The `llm` agent: a model string and settings make an agent."""

from __future__ import annotations

import os
from collections.abc import Mapping

from agentgym.agent import Agent
from agentgym.errors import ConfigError

from .engines import load_engine, resolve_checkpoint
from .engines.card import checked, read_settings
from .engines.chat_player import ChatAgent
from .engines.player import EngineAgent


def make_llm_agent(model: str, settings: Mapping[str, str]) -> Agent:
    """An agent for a model string: ``hf/PATH``, ``hf/builtin:alfworld-small``, ``openai/NAME@URL``.

    Args:
        model: the model string.
        settings: see `agentgym.agents.engines.card.PlaySettings`; they override the checkpoint's card. For ``openai/``
            also `agentgym.agents.engines.openai_http.ServerSettings`.

    Raises:
        UnknownNameError: for an unknown kind of model, built-in policy, prompt set or setting.
        ConfigError: for a value out of range, or if what the model needs is not installed.
        DataError: if the checkpoint is missing or corrupt.
        TemplateError: for append style with a chat template that is not prefix-preserving.
    """
    kind, slash, name = model.partition("/")
    if kind == "openai" and name:
        return _server_agent(model, settings)
    chosen = read_settings(resolve_checkpoint(name) if slash and kind == "hf" else None, settings)
    return EngineAgent(load_engine(model), chosen)


def _server_agent(model: str, settings: Mapping[str, str]) -> ChatAgent:
    try:
        from .engines.openai_http import FREE_SETTINGS, OpenAIEngine, ServerSettings
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed; pip install 'agentgym-harness[http]'") from error
    fields = ServerSettings.model_fields
    server = checked(ServerSettings, {key: value for key, value in settings.items() if key in fields})
    chosen = read_settings(None, {key: value for key, value in settings.items() if key not in fields}, fields)
    return ChatAgent(OpenAIEngine.from_model(model, server, os.environ), chosen, FREE_SETTINGS)
