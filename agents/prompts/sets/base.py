"""What a prompt set is, and what the sets share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentgym.agents.prompts.story import Step, Story

FORMAT = (
    "Think briefly if it helps, then give exactly one action, written as <action>your action</action>, "
    "and nothing after it."
)


class PromptSet(Protocol):
    """The texts of a prompt set."""

    def opening(self, story: Story) -> str:
        """First message of a growing conversation."""
        ...

    def following(self, story: Story) -> str:
        """Later message of a growing conversation, for the story's last step."""
        ...

    def window(self, story: Story, history: int) -> str:
        """The one message of a fresh prompt, with the last ``history`` steps."""
        ...


def join(*parts: str) -> str:
    """The parts that are not empty, as paragraphs."""
    return "\n\n".join(part for part in parts if part)


def latest(past: Sequence[Step], history: int) -> Sequence[Step]:
    """The last ``history`` steps."""
    return past[max(0, len(past) - history) :] if history else []
