"""`verl_alfworld`: the structure of verl-agent's prompts for ALFWorld (Feng et al. 2025, arXiv:2505.10978).

The words are our own: role, task, numbered history, quoted list of actions, thoughts and action in tags.
"""

from __future__ import annotations

from agentgym.agents.prompts.story import Story

from .base import join, latest

ROLE = "You are an expert who acts in the embodied household environment of ALFRED."
FORM = (
    "It is your turn to act. First reason step by step about the present situation, inside <think> </think> tags. "
    "Then choose one of the admissible actions and write it inside <action> </action> tags."
)


class VerlAlfworld:
    """The first turn shows the observation alone, which holds the task; later ones name the task and what was done."""

    def opening(self, story: Story) -> str:
        """Role, observation, admissible actions, hint, instruction."""
        now = story.steps[-1].observation
        return join(ROLE, f"Your present observation: {now}", self._admissible(story), story.hint, FORM)

    def following(self, story: Story) -> str:
        """Observation and admissible actions."""
        return join(f"Your present observation: {story.steps[-1].observation}", self._admissible(story))

    def window(self, story: Story, history: int) -> str:
        """Role, task, number of steps, numbered history, observation, admissible actions, hint, instruction."""
        *past, now = story.steps
        if not past:
            return self.opening(story)
        kept = latest(past, history)
        first = len(past) - len(kept) + 1
        pairs = [
            f"[Observation {first + offset}] {step.observation}\n[Action {first + offset}] {step.action}"
            for offset, step in enumerate(kept)
        ]
        done = f"So far you have taken {len(past)} step(s)."
        if pairs:
            done += f" The last {len(pairs)} observations and the actions that you took:\n" + "\n".join(pairs)
        return join(
            f"{ROLE} Your task is: {story.goal}"
            if story.goal
            else f"{ROLE} At first you observed: {past[0].observation}",
            done,
            f"You are now at step {len(past) + 1}. Your present observation: {now.observation}",
            self._admissible(story),
            story.hint,
            FORM,
        )

    @staticmethod
    def _admissible(story: Story) -> str:
        asked = story.steps[-1]
        if asked.admissible is None:
            return ""
        lines = [f"'{action}'" for action in asked.admissible if action != "help"]
        if asked.hidden:
            lines.append(f"and {asked.hidden} more")
        return "Your admissible actions in this situation are: [" + ",\n".join(lines) + "]."
