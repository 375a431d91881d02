"""A plug-in environment as small as one can be, which the tests of the contract play: guess a number from 0 to 9."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

from agentgym.env import Description, Outcome, TextEnv
from agentgym.errors import UnknownNameError
from agentgym.registry import EnvSpec, SplitInfo
from agentgym.task import Panel, Task

SIZES = {"easy": 12, "hard": 40}


def panel(split: str) -> Panel:
    """Task ``i`` hides ``i % 10``; its family says whether that is odd."""
    tasks = []
    for index in range(SIZES[split]):
        secret = index % 10
        digest = hashlib.sha256(f"{split} {index}".encode()).hexdigest()
        tasks.append(Task(f"{split}/{index:03d}", "odd" if secret % 2 else "even", digest))
    return Panel("guess", split, tuple(tasks))


class GuessEnv(TextEnv):
    """``guess N`` is answered with higher or lower; ``pass`` is taken and does nothing.

    Args:
        panel: see `TextEnv`.
        max_steps: see `TextEnv`.
        expert_plan: see `TextEnv`.
        delay: seconds that each step takes.
    """

    def __init__(self, panel: Panel, *, max_steps: int = 8, expert_plan: bool = False, delay: float = 0.0) -> None:
        super().__init__(panel, max_steps=max_steps, expert_plan=expert_plan)
        self.delay = delay
        self.secret = 0
        self.best = 10
        self.luck = 0

    def _begin(self, index: int, seed: int) -> str:
        self.secret, self.best, self.luck = index % 10, 10, seed % 1000
        return f"I think of a number from 0 to 9. Your lucky number is {self.luck}."

    def _play(self, action: str) -> Outcome:
        time.sleep(self.delay)
        if action == "pass":
            return Outcome("You wait.", 0.0, False, accepted=True)
        if action not in self._admissible():
            return Outcome("I do not understand.", 0.0, False, accepted=False)
        guess = int(action.removeprefix("guess "))
        self.best = min(self.best, abs(guess - self.secret))
        if self.best == 0:
            return Outcome("Right!", 1.0, True, accepted=True, reward_parts={"win": 1.0})
        return Outcome("Higher." if guess < self.secret else "Lower.", 0.0, False, accepted=True)

    def _admissible(self) -> tuple[str, ...]:
        return (*(f"guess {number}" for number in range(10)), "pass")

    def _describe(self) -> Description:
        state = hashlib.sha256(f"{self.secret} {self.best}".encode()).hexdigest()
        return Description(
            goal="guess the number",
            success=self.best == 0,
            score=1 - self.best / 10,
            admissible_actions=self._admissible(),
            state_key=state,
        )

    def _plan(self) -> tuple[str, ...] | None:
        return (f"guess {self.secret}",)


class SlowPlayer:
    """Guesses upwards, slowly: for tests that kill a run."""

    def __init__(self) -> None:
        self.number = -1

    def act(self, observation: str, info: object) -> str:
        """The next number."""
        self.number += 1
        time.sleep(0.004)
        return f"guess {self.number}"


class GuessSpec(EnvSpec):
    """The plug-in's registration."""

    name = "guess"
    summary = "guess a number"
    default_split = "easy"
    agents = {"slow": "agentgym_guess:SlowPlayer"}  # noqa: RUF012

    def splits(self, data: Path | None) -> tuple[SplitInfo, ...]:
        """Both splits."""
        return tuple(SplitInfo(name, size, "built in") for name, size in SIZES.items())

    def panel(self, split: str, data: Path | None) -> Panel:
        """The tasks of a split."""
        if split not in SIZES:
            raise UnknownNameError("split of guess", split, SIZES)
        return panel(split)

    def make(self, split: str, data: Path | None, **options: Any) -> GuessEnv:
        """The environment."""
        if unknown := set(options) - {"max_steps", "expert_plan", "delay"}:
            raise UnknownNameError("option of guess", min(unknown), ("max_steps", "expert_plan", "delay"))
        return GuessEnv(self.panel(split, data), **options)


SPEC = GuessSpec()
