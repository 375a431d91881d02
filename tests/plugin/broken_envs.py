"""Environments that each break one promise, for the tests of the conformance suite, and one that keeps all."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import agentgym_guess

from agentgym.env import Action, Description, Info, Outcome
from agentgym.task import Panel, Task

_count = itertools.count()


class Sound(agentgym_guess.GuessEnv):
    """Keeps every promise, and needs no arguments."""

    def __init__(self, panel: Panel | None = None, *, max_steps: int = 8) -> None:
        super().__init__(panel or agentgym_guess.panel("easy"), max_steps=max_steps)


class Moody(Sound):
    def _play(self, action: str) -> Outcome:
        outcome = super()._play(action)
        return outcome._replace(observation=f"{outcome.observation} {next(_count)}")


class HashOrdered(Sound):
    def _describe(self) -> Description:
        known = super()._describe()
        return known._replace(admissible_actions=tuple(set(known.admissible_actions or ())))


class HashPanel(Sound):
    def __init__(self, *, max_steps: int = 8) -> None:
        names = tuple({f"easy/{number:03d}" for number in range(12)})
        super().__init__(Panel("guess", "easy", tuple(Task(name, "any", name) for name in names)), max_steps=max_steps)


class RestlessPanel(Sound):
    def __init__(self, *, max_steps: int = 8) -> None:
        tasks = agentgym_guess.panel("easy").tasks
        turn = next(_count) % 12
        super().__init__(Panel("guess", "easy", tasks[turn:] + tasks[:turn]), max_steps=max_steps)


class WholeReward(Sound):
    def _play(self, action: str) -> Outcome:
        return super()._play(action)._replace(reward=0)


class FourValues(Sound):
    def step(self, action: str) -> Any:
        return super().step(action)[1:]


class TwoEnds(Sound):
    def step(self, action: str) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, truncated, info


class ListOfActions(Sound):
    def _describe(self) -> Description:
        return super()._describe()._replace(admissible_actions=["pass"])  # type: ignore[arg-type]


class NoGoal(Sound):
    def _info(self, task: Task, accepted: bool | None, segment: int, parts: Mapping[str, float]) -> Info:
        info = super()._info(task, accepted, segment, parts)
        del info["goal"]  # type: ignore[misc]
        return info


class WrongSegment(Sound):
    def _info(self, task: Task, accepted: bool | None, segment: int, parts: Mapping[str, float]) -> Info:
        return super()._info(task, accepted, segment + 1, parts)


class HighScore(Sound):
    def _describe(self) -> Description:
        return super()._describe()._replace(score=10.0)


class SolvedAtOnce(Sound):
    def _describe(self) -> Description:
        return super()._describe()._replace(success=True)


class Endless(Sound):
    def step(self, action: str) -> Any:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, False, info


class NoLimit(Sound):
    def __init__(self) -> None:
        super().__init__()


class Forgetful(Sound):
    def restore(self, saved: bytes) -> tuple[str, Info]:
        shown = super().restore(saved)
        self.best = 10
        return shown


class TextSnapshot(Sound):
    def snapshot(self) -> Any:
        return super().snapshot().decode()


class OffByOne(Sound):
    def parse(self, output: str) -> Action:
        found = super().parse(output)
        return found._replace(start=found.start + 1) if found.start < found.end else found


class HiddenState(Sound):
    def _describe(self) -> Description:
        return super()._describe()._replace(state_key=str(self.secret))


class Fragile(Sound):
    def _play(self, action: str) -> Outcome:
        if action.startswith("guess "):
            int(action.removeprefix("guess "))
        return super()._play(action)


class Unprintable(Sound):
    def _begin(self, index: int, seed: int) -> str:
        return super()._begin(index, seed) + " …"


class Unmade(Sound):
    def __init__(self, size: int) -> None:
        super().__init__()
