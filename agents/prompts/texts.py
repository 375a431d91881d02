"""From a story to the text of the user's message: what is the same with and without a tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .sets import prompt_set
from .shorten import levels, shorten
from .story import Story


@dataclass(frozen=True)
class Texts:
    """Writes the user's messages in one style.

    Args:
        prompts: name of the prompt set.
        style: ``append`` (one growing conversation) or ``windowed`` (a fresh prompt each turn).
        history: windowed: how many past steps are shown.

    Raises:
        UnknownNameError: for an unknown prompt set.
    """

    prompts: str
    style: Literal["append", "windowed"]
    history: int = 2

    def __post_init__(self) -> None:
        prompt_set(self.prompts)

    @property
    def levels(self) -> int:
        """How far a story can be shortened."""
        return levels(self.history) if self.style == "windowed" else 0

    def message(self, story: Story) -> str:
        """The message that asks for the story's last turn."""
        texts = prompt_set(self.prompts)
        if self.style == "windowed":
            return texts.window(*shorten(story, self.history))
        return texts.opening(story) if len(story.steps) == 1 else texts.following(story)
