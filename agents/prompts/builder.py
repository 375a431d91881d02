"""From a story to the ids of a turn's prompt: the one renderer, for students and teachers alike.

Invariant: building an episode's prompts again from its records gives the ids that were used when it was played.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentgym.episode import Episode

from .chat import ChatEncoder
from .sets import prompt_set
from .story import Story, stories


@dataclass(frozen=True)
class PromptBuilder:
    """Builds prompts in one style.

    Args:
        encoder: the model's tokenizer and template.
        prompts: name of the prompt set.
        style: ``append`` (one growing conversation) or ``windowed`` (a fresh prompt each turn).
        history: windowed: how many past steps are shown.

    Raises:
        UnknownNameError: for an unknown prompt set.
        TemplateError: for ``append`` with a template that is not prefix-preserving.
    """

    encoder: ChatEncoder
    prompts: str
    style: Literal["append", "windowed"]
    history: int = 2

    def __post_init__(self) -> None:
        prompt_set(self.prompts)
        if self.style == "append":
            self.encoder.require_prefix_preserving()

    def build(self, story: Story) -> tuple[int, ...]:
        """Ids of the prompt of the story's last turn; in append style only the ids added since the last output."""
        texts = prompt_set(self.prompts)
        if self.style == "windowed":
            return self.encoder.prompt([{"role": "user", "content": texts.window(story, self.history)}])
        if len(story.steps) == 1:
            return self.encoder.prompt([{"role": "user", "content": texts.opening(story)}])
        return self.encoder.glue(texts.following(story), ended=story.steps[-2].ended)

    def rebuild(self, episode: Episode, hint: str = "") -> list[tuple[int, ...]]:
        """The prompt of each turn of an episode, with a hint put in (none gives the prompts it was played with)."""
        return [self.build(story) for story in stories(episode, self.encoder.end_id, hint)]
