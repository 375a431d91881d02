"""agentgym: multi-turn text environments, language-model agents, and a trainer, behind one small contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .env import Action, Info, TextEnv
from .episode import Episode, Group, Segment, Turn, read_episodes
from .registry import list_envs, make, panel, register_with_gymnasium
from .task import Panel, Task

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Episode",
    "Group",
    "Info",
    "Panel",
    "Segment",
    "Task",
    "TextEnv",
    "Turn",
    "list_envs",
    "load_episodes",
    "make",
    "panel",
]


def load_episodes(run: str | Path) -> Iterator[Episode]:
    """The episodes of a run directory, one by one.

    Raises:
        DataError: if the run does not exist or a line is corrupt.
    """
    return read_episodes(Path(run))


register_with_gymnasium()
