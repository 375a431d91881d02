"""Agents: whatever turns an observation into text, from scripted players to language models."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym.agent import Agent
from agentgym.errors import ConfigError, UnknownNameError
from agentgym.registry import EnvSpec, load_object

from .scripted import adapt, expert_agent, random_agent

BUILT_IN = ("expert", "llm", "random")


def make_agent(spec: EnvSpec, name: str, *, model: str | None = None, settings: Mapping[str, str]) -> Agent:
    """An agent by name.

    Args:
        spec: the environment that it will play.
        name: one of `BUILT_IN`, one of the environment's own agents, or ``package.module:object`` (see
            `agentgym.agents.scripted.adapt`).
        model: the model of the agent ``llm``.
        settings: settings of the agent ``llm``; the other agents have none.

    Raises:
        UnknownNameError: for an unknown agent, module, object or setting.
        ConfigError: if the agent needs a model and has none, or has one and needs none.
    """
    if name == "llm":
        if model is None:
            raise ConfigError("agent 'llm' needs a model; add --model, for example hf/PATH")
        from .llm import make_llm_agent

        return make_llm_agent(model, settings)
    known = {*BUILT_IN, *spec.agents}
    if ":" not in name and name not in known:
        raise UnknownNameError("agent", name, known, "(or package.module:object)")
    if model is not None:
        raise ConfigError(f"agent {name!r} takes no model; leave out --model or choose --agent llm")
    if settings:
        raise UnknownNameError(f"setting of agent {name!r}", min(settings), ())
    if name == "random":
        return random_agent()
    if name == "expert":
        return expert_agent(spec.name)
    return adapt(name, load_object(spec.agents.get(name, name)))
