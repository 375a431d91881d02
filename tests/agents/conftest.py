"""One tiny engine for all tests of agents, and episodes made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import tiny_policy

from agentgym.agents.engines.transformers import TransformersEngine
from agentgym.episode import Episode, Turn


@pytest.fixture(scope="session")
def engine() -> TransformersEngine:
    """Shared: tests do not change its weights."""
    return tiny_policy.engine()


class Make:
    """Makes turns and episodes with only what a test cares about."""

    @staticmethod
    def turn(
        action: str = "look",
        observation: str = "You see a desk 1.",
        *,
        accepted: bool | None = True,
        keys: tuple[str | None, str | None] = ("a", "b"),
        output_ids: tuple[int, ...] | None = None,
        admissible: tuple[str, ...] | None = None,
    ) -> Turn:
        return Turn(
            observation=observation,
            output_ids=output_ids,
            output_text=f"<action>{action}</action>",
            action=action,
            action_chars=(8, 8 + len(action)),
            well_formed=True,
            action_accepted=accepted,
            reward=0.0,
            state_key=keys[0],
            next_state_key=keys[1],
            admissible=admissible,
        )

    @staticmethod
    def episode(turns: Sequence[Turn], goal: str = "find the desk") -> Episode:
        return Episode(
            env="toy",
            split="train",
            task="task-0",
            task_digest="digest",
            family="family",
            goal=goal,
            agent="policy",
            turns=tuple(turns),
            status="ok",
            success=True,
            score=1.0,
        )


@pytest.fixture(scope="session")
def make() -> Make:
    return Make()
