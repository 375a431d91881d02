"""From a story to the ids of a turn's prompt: the one renderer, for students and teachers alike.

Invariant: building an episode's prompts again from its records gives the ids that were used when it was played.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from agentgym.episode import Episode

from .chat import ChatEncoder, Message
from .hint import HintPlace
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
        if self.style == "append" and len(story.steps) > 1:
            return self.encoder.glue(prompt_set(self.prompts).following(story), ended=story.steps[-2].ended)
        if story.place == "before_format" or not story.hint:
            return self.encoder.prompt([{"role": "user", "content": self._first(story)}])
        hint, place, content = story.hint, story.place, self._first(replace(story, hint=""))
        if place == "user_start":
            content = f"{hint}\n\n{content}"
        elif place == "user_end":
            content = f"{content}\n\n{hint}"
        messages: list[Message] = [{"role": "user", "content": content}]
        if place == "system":
            messages.insert(0, {"role": "system", "content": hint})
        text = self.encoder.render(messages)
        if place == "before_prompt":
            text = f"{hint}\n\n{text}"
        elif place == "after_header":
            text = f"{text}{hint}\n\n"
        return self.encoder.encode(text)

    def rebuild(self, episode: Episode, hint: str = "", place: HintPlace = "before_format") -> list[tuple[int, ...]]:
        """The prompt of each turn of an episode, with a hint put in (none gives the prompts it was played with)."""
        return [self.build(story) for story in stories(episode, self.encoder.end_id, hint, place)]

    def _first(self, story: Story) -> str:
        """The user's message that begins a prompt."""
        texts = prompt_set(self.prompts)
        return texts.window(story, self.history) if self.style == "windowed" else texts.opening(story)
