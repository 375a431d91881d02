"""`plain`, `react` and `act`: instructions in words, for instruction-tuned models; they differ in what they ask for."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.agents.prompts.story import Story

from .base import FORMAT, join, latest

ROLE = "You act in a text environment. In each turn you read what you observe and answer with one action."

REACT_ROLE = (
    "You solve a task in a text environment by taking turns at reasoning and acting. In each turn you read what you "
    "observe, write down a thought, and then act. Use thoughts to split the goal into smaller ones, to keep track of "
    "what is done and what is left, to recall what you saw, and to change the plan when an action had no effect."
)
REACT_FORMAT = (
    "Answer in two lines:\n"
    "Thought: what the observation means for your plan, in a sentence or two\n"
    "Action: <action>one action</action>\n"
    "Write nothing after the action; what it leads to is shown to you next."
)
ACT_FORMAT = "Answer with one action and nothing else, written as <action>your action</action>; no reasoning."


@dataclass(frozen=True)
class Instructed:
    """A role, what is known, and a request to answer.

    Args:
        role: first paragraph.
        form: last paragraph, which says how to answer.
    """

    role: str = ROLE
    form: str = FORMAT

    def opening(self, story: Story) -> str:
        """Role, observation, choices, hint, format."""
        return join(
            self.role,
            f"Your goal: {story.goal}" if story.goal else "",
            f"You observe:\n{story.steps[-1].observation}",
            self._choices(story),
            story.hint,
            self.form,
        )

    def following(self, story: Story) -> str:
        """Observation and choices."""
        return join(story.steps[-1].observation, self._choices(story))

    def window(self, story: Story, history: int) -> str:
        """Role, goal, the last steps, observation, choices, hint, format."""
        *past, now = story.steps
        if not past:
            return self.opening(story)
        kept = latest(past, history)
        first = len(past) - len(kept) + 1
        lines = [
            f"Step {first + offset}. You observed: {step.observation}\nYou did: {step.action}"
            for offset, step in enumerate(kept)
        ]
        return join(
            self.role,
            f"Your goal: {story.goal}" if story.goal else f"The first observation was:\n{past[0].observation}",
            f"You have taken {len(past)} steps. The last ones:" if lines else f"You have taken {len(past)} steps.",
            *lines,
            f"Step {len(past) + 1}. You observe now: {now.observation}",
            self._choices(story),
            story.hint,
            self.form,
        )

    @staticmethod
    def _choices(story: Story) -> str:
        asked = story.steps[-1]
        if asked.admissible is None:
            return ""
        lines = [f"- {text}" for text in asked.admissible]
        if asked.hidden:
            lines.append(f"(and {asked.hidden} more)")
        return "Actions you can take now:\n" + "\n".join(lines)


PLAIN = Instructed()
REACT = Instructed(
    REACT_ROLE, REACT_FORMAT
)  # the scheme of ReAct (Yao et al. 2023, arXiv:2210.03629), without examples
ACT = Instructed(ROLE, ACT_FORMAT)  # the same paper's comparison: acting alone
