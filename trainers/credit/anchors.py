"""What methods share that compare turns which began in the same place.

Invariant: places are compared within one group only, and broken episodes have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from agentgym.episode import Group, Turn
from agentgym.errors import ConfigError

from .grpo import GrpoOptions
from .reweight import Array

Anchor = Literal["observation", "state"]
"""What makes two places the same: the text that was seen (as published), or the true state. The same text may stand for
different states, say with and without an object in the hand."""


class AnchorOptions(GrpoOptions):
    """Options of methods that can take places for the same which look nearly alike.

    Attributes:
        anchor: what makes two places the same, ``observation`` or true ``state``; without state keys, the latter is
            an error.
        anchor_similarity: observations that are at least so much alike are the same place (as released: 0.95, by
            Ratcliff and Obershelp's measure); None asks for the same text.
    """

    anchor: Anchor = "observation"
    anchor_similarity: float | None = Field(default=None, gt=0, le=1)

    @model_validator(mode="after")
    def _states_are_not_alike(self) -> Self:
        if self.anchor == "state" and self.anchor_similarity is not None:
            raise ValueError("anchor_similarity compares observations; leave it out, or set anchor to 'observation'")
        return self


def merged(places: Iterable[str], similarity: float | None) -> dict[str, str]:
    """For each place, the one that stands for it: the first before it that is alike enough and stands for itself.

    Args:
        places: texts, in the order in which they are met; it decides which of them stand for others.
        similarity: least share of matching characters, 2·matching / (all of both); None merges nothing.
    """
    found: dict[str, str] = {}
    chosen: dict[str, SequenceMatcher[str]] = {}
    for place in dict.fromkeys(places):
        found[place] = place
        if similarity is None:
            continue
        for other, matcher in chosen.items():
            matcher.set_seq1(place)
            # The cheap bounds come first: few pairs are nearly alike.
            measures = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
            if all(measure() >= similarity for measure in measures):
                found[place] = other
                break
        else:
            chosen[place] = SequenceMatcher(None, "", place)
    return found


def anchor_of(turn: Turn, anchor: Anchor) -> str:
    """The place where a turn began.

    Raises:
        ConfigError: if the true state is wanted and the environment does not report it.
    """
    if anchor == "observation":
        return turn.observation
    if turn.state_key is None:
        raise ConfigError("the environment reports no state keys; set anchor 'observation'")
    return turn.state_key


def step_values(
    group: Group, options: GrpoOptions, gamma: float, bonuses: Mapping[int, Array] | None = None
) -> dict[int, Array]:
    """The discounted return from each turn on, less the turn's own penalty, by position of each completed episode.

    With ``reward="return"`` turns have the environment's rewards; otherwise the last turn has the episode's reward.

    Args:
        group: the group.
        options: rewards and penalties.
        gamma: discount a turn.
        bonuses: further rewards of the turns of some episodes, by position, shape ``[turns]``.
    """
    found: dict[int, Array] = {}
    for index, episode in enumerate(group.episodes):
        if not episode.completed:
            continue
        rewards = np.zeros(len(episode.turns))
        if options.reward == "return":
            rewards[:] = [options.reward_scale * turn.reward for turn in episode.turns]
        elif episode.turns:
            rewards[-1] = options.reward_of(episode)
        if bonuses is not None and index in bonuses:
            rewards += bonuses[index]
        values, total = np.zeros(len(rewards)), 0.0
        for turn in reversed(range(len(rewards))):
            total = float(rewards[turn]) + gamma * total
            values[turn] = total - options.penalty_of(episode.turns[turn])
        found[index] = values
    return found
