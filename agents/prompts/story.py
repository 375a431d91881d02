"""What a prompt is made from: the goal and the steps so far. One and the same for playing, scoring and hints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.episode import Episode

from .hint import HintPlace


@dataclass(frozen=True)
class Step:
    """One turn as a prompt sees it.

    Attributes:
        observation: what was seen.
        admissible: what could be done; None if there is no such list.
        action: what was done; None for the turn that is being asked for.
        ended: whether the output ended with the model's end mark.
        hidden: how many admissible actions were left out of the list to shorten it.
    """

    observation: str
    admissible: tuple[str, ...] | None = None
    action: str | None = None
    ended: bool = False
    hidden: int = 0


@dataclass(frozen=True)
class Story:
    """An episode up to the turn that is being asked for.

    Attributes:
        goal: the goal in words.
        steps: all steps; the last one is being asked for.
        hint: text about a successful attempt by someone else; empty for none.
        place: where the hint stands.
        shortened: how far the prompt is shortened; see `agentgym.agents.prompts.shorten`.
    """

    goal: str
    steps: Sequence[Step]
    hint: str = ""
    place: HintPlace = "before_format"
    shortened: int = 0


def stories(episode: Episode, end_id: int, hint: str = "", place: HintPlace = "before_format") -> list[Story]:
    """The story behind each turn of an episode, in order."""
    steps: list[Step] = []
    found: list[Story] = []
    for turn in episode.turns:
        asked = Step(turn.observation, turn.admissible)
        found.append(Story(episode.goal, (*steps, asked), hint, place, turn.shortened))
        ended = bool(turn.output_ids) and turn.output_ids is not None and turn.output_ids[-1] == end_id
        steps.append(Step(turn.observation, turn.admissible, turn.action, ended))
    return found
