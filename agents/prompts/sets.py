"""Prompt sets: how a story becomes the text of user messages.

A set writes three texts: the first message of a growing conversation, a later message of it, and the single message of
a fresh prompt with a window of history. A story's hint stands right before the request to answer; the other places for
it lie outside these texts (see `agentgym.agents.prompts.builder`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from agentgym.errors import UnknownNameError

from .story import Story

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


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


class Compact:
    """The fewest words: observations as they are. For small policies that were trained on it."""

    def opening(self, story: Story) -> str:
        """The observation, then the hint."""
        return _join(story.steps[-1].observation, story.hint)

    def following(self, story: Story) -> str:
        """The observation."""
        return story.steps[-1].observation

    def window(self, story: Story, history: int) -> str:
        """The first observation, the hint, the last steps, the present observation."""
        *past, now = story.steps
        if not past:
            return self.opening(story)
        kept = past[max(0, len(past) - history) :] if history else []
        lines = [f"{step.observation}\n> {step.action}" for step in kept if step is not past[0]]
        # By identity: another step may look the same.
        whole = bool(kept) and kept[0] is past[0]
        first = f"{past[0].observation}\n> {past[0].action}" if whole else past[0].observation
        return _join(first, story.hint, *lines, now.observation)


class Plain:
    """Instructions in words, for instruction-tuned models."""

    def opening(self, story: Story) -> str:
        """Role, observation, choices, hint, format."""
        return _join(
            "You act in a text environment. In each turn you read what you observe and answer with one action.",
            f"Your goal: {story.goal}" if story.goal else "",
            f"You observe:\n{story.steps[-1].observation}",
            self._choices(story),
            story.hint,
            FORMAT,
        )

    def following(self, story: Story) -> str:
        """Observation and choices."""
        return _join(story.steps[-1].observation, self._choices(story))

    def window(self, story: Story, history: int) -> str:
        """Role, goal, the last steps, observation, choices, hint, format."""
        *past, now = story.steps
        if not past:
            return self.opening(story)
        kept = past[max(0, len(past) - history) :] if history else []
        first = len(past) - len(kept) + 1
        lines = [
            f"Step {first + offset}. You observed: {step.observation}\nYou did: {step.action}"
            for offset, step in enumerate(kept)
        ]
        return _join(
            "You act in a text environment. In each turn you read what you observe and answer with one action.",
            f"Your goal: {story.goal}" if story.goal else f"The first observation was:\n{past[0].observation}",
            f"You have taken {len(past)} steps. The last ones:" if lines else f"You have taken {len(past)} steps.",
            *lines,
            f"Step {len(past) + 1}. You observe now: {now.observation}",
            self._choices(story),
            story.hint,
            FORMAT,
        )

    @staticmethod
    def _choices(story: Story) -> str:
        admissible = story.steps[-1].admissible
        return (
            "" if admissible is None else "Actions you can take now:\n" + "\n".join(f"- {text}" for text in admissible)
        )


PROMPT_SETS: Mapping[str, PromptSet] = {"compact": Compact(), "plain": Plain()}


def prompt_set(name: str) -> PromptSet:
    """A prompt set by name.

    Raises:
        UnknownNameError: if there is none.
    """
    if name not in PROMPT_SETS:
        raise UnknownNameError("prompt set", name, PROMPT_SETS)
    return PROMPT_SETS[name]
