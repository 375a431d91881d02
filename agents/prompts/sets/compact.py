"""`compact`: the fewest words, observations as they are. For small policies that were trained on it."""

from __future__ import annotations

from agentgym.agents.prompts.story import Story

from .base import join, latest


class Compact:
    """Observations and actions, and nothing else."""

    def opening(self, story: Story) -> str:
        """The observation, then the hint."""
        return join(story.steps[-1].observation, story.hint)

    def following(self, story: Story) -> str:
        """The observation."""
        return story.steps[-1].observation

    def window(self, story: Story, history: int) -> str:
        """The first observation, the hint, the last steps, the present observation."""
        *past, now = story.steps
        if not past:
            return self.opening(story)
        kept = latest(past, history)
        lines = [f"{step.observation}\n> {step.action}" for step in kept if step is not past[0]]
        # By identity: another step may look the same.
        whole = bool(kept) and kept[0] is past[0]
        first = f"{past[0].observation}\n> {past[0].action}" if whole else past[0].observation
        return join(first, story.hint, *lines, now.observation)
