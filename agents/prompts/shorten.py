"""Shortening a prompt that is too long for the model: less history, then shorter observations, then fewer actions.

Invariant: what is shown is a function of the story and of how far it is shortened, a number that the turn records, so
that a prompt can be built again from the records. A growing conversation is never shortened: what was sampled stands.
"""

from __future__ import annotations

from dataclasses import replace

from .story import Step, Story

OBSERVATION_CHARS = (2000, 1000, 500, 250)
ADMISSIBLE = (64, 32, 16, 8)
GAP = " [...] "


def levels(history: int) -> int:
    """How far a prompt with this much history can be shortened."""
    return history + len(OBSERVATION_CHARS) + len(ADMISSIBLE)


def shorten(story: Story, history: int) -> tuple[Story, int]:
    """What is left of a story and its history.

    Each level up to ``history`` takes away one past step; each of the next ones cuts observations to the next number of
    `OBSERVATION_CHARS`; each of the last ones cuts the list of admissible actions to the next number of `ADMISSIBLE`.

    Args:
        story: the story, with its level.
        history: past steps shown in full.

    Returns:
        The story and the history to show.
    """
    level = story.shortened
    beyond = level - history
    if beyond <= 0:
        return story, history - level
    chars = OBSERVATION_CHARS[min(beyond, len(OBSERVATION_CHARS)) - 1]
    steps = [replace(step, observation=_cut(step.observation, chars)) for step in story.steps]
    beyond -= len(OBSERVATION_CHARS)
    if beyond > 0:
        steps[-1] = _fewer(steps[-1], ADMISSIBLE[min(beyond, len(ADMISSIBLE)) - 1])
    return replace(story, steps=tuple(steps)), 0


def _cut(text: str, chars: int) -> str:
    """Cut in the middle: texts begin with where one is, and the first one ends with the task."""
    if len(text) <= chars:
        return text
    end = chars * 2 // 5
    return text[: chars - end - len(GAP)] + GAP + text[-end:]


def _fewer(step: Step, count: int) -> Step:
    if step.admissible is None or len(step.admissible) <= count:
        return step
    return replace(step, admissible=step.admissible[:count], hidden=len(step.admissible) - count)
