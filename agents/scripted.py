"""Agents without a model: random, expert, and whatever object a user brings.

Invariant: every episode has a player of its own, so that no episode can influence another one; the exception is a plain
function, which is expected to keep nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from agentgym.agent import Agent, Opening, Player, Reply, Traits
from agentgym.env import Info
from agentgym.errors import ConfigError

FALLBACK = "look"
"""What `random` writes where there is no list to choose from: a word that most text games answer."""

Act = Callable[[str, Info], str | Reply | Awaitable[str | Reply]]


class PlayerAgent:
    """An agent whose players need nothing but a function that starts one.

    Args:
        name: what the records call it.
        start: makes a player for an episode.
        env_options: options that it needs the environment to be made with.
    """

    def __init__(
        self, name: str, start: Callable[[Opening], Player], env_options: Mapping[str, object] | None = None
    ) -> None:
        self._start = start
        self._traits = Traits(name=name, env_options=env_options or {})

    @property
    def traits(self) -> Traits:
        """What the records say of this agent."""
        return self._traits

    def start(self, opening: Opening, /) -> Player:
        """A player for one episode."""
        return self._start(opening)

    def finish(self, player: Player, /) -> None:
        """Nothing is kept for a player."""


class RandomPlayer:
    """Takes each admissible action with the same probability, drawn from the episode's seed."""

    def __init__(self, opening: Opening) -> None:
        self._draw = opening.seed.child("random").generator()

    def act(self, observation: str, info: Info, /) -> str:
        """An admissible action; `FALLBACK` if the environment lists none."""
        actions = info["admissible_actions"]
        return actions[int(self._draw.integers(len(actions)))] if actions else FALLBACK


class ExpertPlayer:
    """Takes the first step of the plan that the environment's own expert makes from the present state."""

    def __init__(self, env: str) -> None:
        self._env = env

    def act(self, observation: str, info: Info, /) -> str:
        """The next action of the plan.

        Raises:
            ConfigError: if the environment has no expert.
        """
        plan = info.get("expert_plan")
        if not plan:
            raise ConfigError(f"environment {self._env!r} gives no plan for {info['task']}; choose another --agent")
        return plan[0]


class FunctionPlayer:
    """Plays by a function from observation and info to an action."""

    def __init__(self, act: Act) -> None:
        self._act = act

    def act(self, observation: str, info: Info, /) -> str | Reply | Awaitable[str | Reply]:
        """What the function answers."""
        return self._act(observation, info)


def random_agent() -> Agent:
    """Plays at random among the admissible actions."""
    return PlayerAgent("random", RandomPlayer)


def expert_agent(env: str) -> Agent:
    """Plays the plans of the environment's own expert, which knows the whole state."""
    return PlayerAgent("expert", lambda opening: ExpertPlayer(env), {"expert_plan": True})


def adapt(name: str, found: object) -> Agent:
    """Makes an agent of a user's object.

    Args:
        name: what the records call it.
        found: an agent; a class of agents or of players, made without arguments (players anew for each episode); or a
            function ``act(observation, info)``.

    Raises:
        ConfigError: if it is none of these.
    """
    if isinstance(found, type):
        # The protocols look for members, and a class has those of its instances.
        if isinstance(found, Agent):
            return adapt(name, found())
        if isinstance(found, Player):
            return PlayerAgent(name, lambda opening: _new_player(name, found))
    elif isinstance(found, Agent):
        return found
    elif not isinstance(found, Player) and callable(found):
        act = cast(Act, found)  # what it answers is checked when it answers
        return PlayerAgent(name, lambda opening: FunctionPlayer(act))
    raise ConfigError(
        f"{name} is not an agent; name a class with act(self, observation, info), a function act(observation, info), "
        "or an agentgym.agent.Agent"
    )


def _new_player(name: str, cls: type) -> Player:
    player: object = cls()
    if not isinstance(player, Player):
        raise ConfigError(f"{name}() has no act(observation, info); give it one")
    return player
