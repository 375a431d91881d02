"""ALFWorld behind the contract: one engine, its games and a step limit.

``terminated`` means won; running out of steps is ``truncated`` and never a success.
"""

from __future__ import annotations

import json
from typing import Literal

from agentgym.env import Description, Info, Outcome, TextEnv
from agentgym.errors import ConfigError, DataError

from .engine import Engine
from .games import Games
from .oracle import plan

LogicVersion = Literal["0.4.2", "2.1.1"]


class AlfworldEnv(TextEnv):
    """The text world of ALFWorld: reward 1 on the step that solves the task, else 0.

    Args:
        games: the games of a split.
        max_steps: step limit; every step counts, refused ones too.
        expert_plan: put the oracle's plan into ``info["expert_plan"]``.
        logic_version: wording and commands: ``0.4.2`` (``move X to Y``) or ``2.1.1`` (``put X in/on Y``).
    """

    def __init__(
        self,
        games: Games,
        *,
        max_steps: int = 50,
        expert_plan: bool = False,
        logic_version: LogicVersion = "0.4.2",
    ) -> None:
        super().__init__(games.panel, max_steps=max_steps, expert_plan=expert_plan)
        if logic_version not in ("0.4.2", "2.1.1"):
            raise ConfigError(f"logic_version is {logic_version!r}; choose 0.4.2 or 2.1.1")
        self._games = games
        self._logic_version = logic_version
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The engine of the running episode.

        Raises:
            ConfigError: before the first `reset`.
        """
        if self._engine is None:
            raise ConfigError("call reset() first")
        return self._engine

    def _begin(self, index: int, seed: int) -> str:
        self._engine = Engine(self._games.game(index, self._logic_version))
        return self._engine.game.intro

    def _play(self, action: str) -> Outcome:
        engine = self.engine
        observation = engine.step(action)
        won = engine.won
        return Outcome(observation, float(won), won, engine.accepted, {"won": float(won)})

    def _describe(self) -> Description:
        engine = self.engine
        return Description(
            goal=engine.game.record.task,
            success=engine.won,
            score=float(engine.won),
            admissible_actions=engine.admissible,
            state_key=engine.observation_key,
        )

    def _plan(self) -> tuple[str, ...] | None:
        return plan(self.engine)

    def snapshot(self) -> bytes:
        """The state, the step count and the last result: restoring needs no replay."""
        last = (
            None if self._last is None else [self._last[0], self._last[1], self._last[2], self._last[3], self._accepted]
        )
        head = json.dumps([self.task.id, self._seed, self._actions, last]).encode()
        return len(head).to_bytes(4, "big") + head + self.engine.snapshot()

    @property
    def _accepted(self) -> bool | None:
        return None if self._last is None else self._last[4]["action_accepted"]

    def restore(self, saved: bytes) -> tuple[str, Info]:
        """Returns to a saved state.

        Raises:
            DataError: if the bytes are not a snapshot of this environment.
            UnknownNameError: if the panel lacks the game.
        """
        size = int.from_bytes(saved[:4], "big")
        try:
            task, seed, actions, last = json.loads(saved[4 : 4 + size])
        except (ValueError, TypeError) as error:
            raise DataError(
                "these bytes are not a snapshot of this environment; use what snapshot() returned"
            ) from error
        self._seed = seed
        observation, info = self._start(self.panel.index(task))
        self.engine.restore(saved[4 + size :])
        self._actions = actions
        if last is None:
            return observation, info
        observation, reward, terminated, truncated, accepted = last
        parts = {"won": float(self.engine.won)}
        info = self._info(self.task, accepted, self.steps - 1, parts)
        self._last = (observation, reward, terminated, truncated, info)
        return observation, info
