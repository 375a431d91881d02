"""Environments by name: entry points of the group ``agentgym.envs``, each an `EnvSpec`.

Invariant: nothing here imports an environment before it is asked for by name.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import gymnasium

from .env import TextEnv
from .errors import ConfigError, UnknownNameError
from .task import Panel

GROUP = "agentgym.envs"


@dataclass(frozen=True)
class SplitInfo:
    """A split that can be played now, or the command that would bring it.

    Attributes:
        name: name of the split.
        tasks: number of tasks; None if the data is not there.
        source: where the data comes from, or how to get it.
    """

    name: str
    tasks: int | None
    source: str


class EnvSpec(ABC):
    """An environment as the registry knows it. A plug-in derives from it and names an instance as entry point.

    Attributes:
        name: the name users type.
        gym_id: the id for `gymnasium.make`.
        summary: one line for `agentgym list`.
        default_split: the split used when none is named.
        agents: agents that know this environment, name -> ``"module:object"``.
    """

    name: str
    gym_id: str
    summary: str
    default_split: str
    agents: Mapping[str, str] = {}

    @abstractmethod
    def splits(self, data: Path | None) -> tuple[SplitInfo, ...]:
        """All splits, with those that lack their data."""

    @abstractmethod
    def panel(self, split: str, data: Path | None) -> Panel:
        """The tasks of a split.

        Raises:
            UnknownNameError: if there is no such split.
            DataError: if its data is missing or corrupt.
        """

    @abstractmethod
    def make(self, split: str, data: Path | None, **options: Any) -> TextEnv:
        """An environment over the tasks of a split; options are the environment's own."""


@cache
def _entry_points() -> Mapping[str, str]:
    return {point.name: point.value for point in entry_points(group=GROUP)}


def list_envs() -> tuple[str, ...]:
    """Names of all environments that are installed, sorted."""
    return tuple(sorted(_entry_points()))


@cache
def spec(env: str) -> EnvSpec:
    """The registered environment of that name.

    Raises:
        UnknownNameError: if there is none.
        ConfigError: if the entry point is not an `EnvSpec`.
    """
    points = _entry_points()
    if env not in points:
        raise UnknownNameError("environment", env, points, "(see `agentgym list`)")
    found = load_object(points[env])
    if not isinstance(found, EnvSpec):
        raise ConfigError(f"entry point {env!r} ({points[env]}) is not an agentgym.registry.EnvSpec")
    return found


def load_object(path: str) -> object:
    """Imports ``"package.module:object"``.

    Raises:
        UnknownNameError: if the module or the object does not exist.
        ConfigError: if the path is not of that form.
    """
    module_name, colon, name = path.partition(":")
    if not (colon and module_name and name):
        raise ConfigError(f"{path!r} does not name an object; write package.module:object")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnknownNameError("module", error.name or module_name, (), "(is it installed, or in this folder?)") from error
    if name not in vars(module):
        raise UnknownNameError(f"object in {module_name}", name, [key for key in vars(module) if key[0] != "_"])
    return vars(module)[name]


def _folder(data: str | Path | None) -> Path | None:
    return None if data is None else Path(data)


def panel(env: str, split: str | None = None, data: str | Path | None = None) -> Panel:
    """The tasks of a split, in their fixed order; the default split if none is named.

    Raises:
        UnknownNameError: for an unknown environment or split.
        DataError: if the split's data is missing or corrupt.
    """
    found = spec(env)
    return found.panel(split or found.default_split, _folder(data))


def make(env: str, split: str | None = None, data: str | Path | None = None, **options: Any) -> TextEnv:
    """An environment over the tasks of a split.

    Args:
        env: a name from `list_envs`.
        split: a name from ``spec(env).splits``; the default split if None.
        data: folder with data packs; None for the built-in ones.
        **options: the environment's own, for example ``max_steps=30``.

    Raises:
        UnknownNameError: for an unknown environment, split or option.
        DataError: if the split's data is missing or corrupt.
    """
    found = spec(env)
    return found.make(split or found.default_split, _folder(data), **options)


def register_with_gymnasium() -> None:
    """Makes every installed environment known to `gymnasium.make`, as ``agentgym/<Name>-v0``."""
    for name in list_envs():
        found = spec(name)
        if found.gym_id not in gymnasium.registry:
            gymnasium.register(id=found.gym_id, entry_point=f"{__name__}:make", kwargs={"env": name})
