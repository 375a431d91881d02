"""StepOPSD: inside each action, a token's advantage is scaled by how much likelier hindsight makes the token.

With gap Δ between informed and plain log-probability, the weight is 2σ(sign(A)·Δ) (or exp), cut to 1 ± ``clip``, and
the advantage A·((1 - λ) + λ·weight); outside of the action's span, and for a turn without one, it is GRPO's. Source:
arXiv 2605.27140. Hindsight is the outcome of the episode itself and, on request, a success of the same group; it stands
right before what is sampled. The published runs let λ fall from 0.2 to 0 over 50 steps and describe a step
normalisation that the released code never applies; it is an option here, off as released.

Where all or none succeed, and in a group of one, advantages are 0 (penalties aside). Without another success in the
group, an episode is judged by its outcome alone; with ``outcome=False``, and where no hint fits, its advantages are
GRPO's. Groups may differ in size; state keys and snapshots are not read.

Invariant: the sign of an advantage is kept; without step normalisation the multiplier stays in 1 ± λ·clip and is
exactly 1 where λ or Δ is 0. Step normalisation, which is left out with λ = 0, brings the mean size of an action's
advantages towards that of the episode's average action, by a factor between ½ and 2.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from agentgym.agents.prompts import Hint, HintPlace
from agentgym.episode import Group
from agentgym.options import refuse_unread

from .base import TeacherRule
from .grpo import EPSILON
from .informed import Informed, InformedOptions
from .peer import succeeded
from .reweight import Array, squash

OUTCOMES = {True: "With hindsight: this attempt succeeded.", False: "With hindsight: this attempt failed."}
"""What the teacher is told of the episode that it judges."""


class StepOpsdOptions(InformedOptions):
    """Options of StepOPSD; the others are those of :class:`~agentgym.trainers.credit.informed.InformedOptions`.

    Attributes:
        lam: share of the weight in the multiplier, in [0, 1]. Published: 0.2, and 0.05.
        lam_decay_steps: training steps over which ``lam`` falls linearly to 0; None keeps it.
        squash: from signed gap x to weight: ``sigmoid`` 2σ(x) or ``exp`` e^x.
        clip: weights are cut to 1 ± this.
        outcome: whether the teacher is told how the episode ended.
        peers: which episodes' teacher is shown another success of the group: none's (as released), those of
            ``failed`` episodes, or ``all``. One that is told nothing keeps its advantages.
        peer_place: where hindsight stands in the prompt.
        step_norm: ``none``, or ``mean_abs`` for the described normalisation over the actions of an episode.
        teacher: weights of the teacher: a ``stale`` copy of the policy's, or the ``current`` ones.
        teacher_refresh: training steps after which a ``stale`` copy is renewed.
    """

    lam: float = Field(default=0.2, ge=0, le=1)
    lam_decay_steps: int | None = Field(default=50, ge=1)
    squash: Literal["sigmoid", "exp"] = "sigmoid"
    clip: float = Field(default=0.2, gt=0, lt=1)
    outcome: bool = True
    peers: Literal["none", "failed", "all"] = "none"
    peer_place: HintPlace = "after_header"
    step_norm: Literal["none", "mean_abs"] = "none"
    teacher: Literal["stale", "current"] = "stale"
    teacher_refresh: int = Field(default=10, ge=1)

    @model_validator(mode="after")
    def _teacher_is_told_something(self) -> StepOpsdOptions:
        if not self.outcome and self.peers == "none":
            raise ValueError("outcome false with peers 'none' tells the teacher nothing; set peers, say 'failed'")
        refuse_unread(self, "teacher_refresh", self.teacher == "stale", 'teacher = "stale"')
        return self


class StepOpsd(Informed[StepOpsdOptions]):
    """GRPO's advantages, re-weighted token by token inside the actions."""

    def __init__(self, options: StepOpsdOptions | None = None) -> None:
        super().__init__(options or StepOpsdOptions())

    @property
    def teacher(self) -> TeacherRule | None:
        """None for the policy's present weights."""
        return None if self.options.teacher == "current" else TeacherRule("stale", self.options.teacher_refresh)

    def hints(self, group: Group) -> dict[int, Hint]:
        """The outcome, a peer, or both; where both are too long, the outcome alone."""
        options = self.options
        shown = super().hints(group) if options.peers != "none" else {}
        found: dict[int, Hint] = {}
        for index, episode in enumerate(group.episodes):
            if not episode.completed:
                continue
            success = succeeded(episode, options.success_threshold)
            forms = shown[index].forms if index in shown and not (success and options.peers == "failed") else ()
            if options.outcome:
                forms = (*(f"{OUTCOMES[success]}\n{form}" for form in forms), OUTCOMES[success])
            if forms:
                found[index] = Hint(forms, options.peer_place, options.peer_max_tokens)
        return found

    def reweight(
        self, group: Group, base: dict[int, Array], gaps: dict[int, list[Array]], coefficient: float
    ) -> dict[int, list[Array]]:
        """One weight a token of an action."""
        options = self.options
        found: dict[int, list[Array]] = {}
        for index, turns in gaps.items():
            tokens = [np.full(len(gap), advantage) for gap, advantage in zip(turns, base[index], strict=True)]
            spans = [turn.action_span or (0, 0) for turn in group.episodes[index].turns]
            acted = [turn for turn, (start, end) in enumerate(spans) if end > start]
            for turn in acted:
                part = slice(*spans[turn])
                gap = np.sign(base[index][turn]) * turns[turn][part]
                tokens[turn][part] *= 1 + coefficient * (squash(gap, options.squash, options.clip) - 1)
            if options.step_norm == "mean_abs" and acted:
                factors = step_factors(np.array([np.abs(tokens[turn][slice(*spans[turn])]).mean() for turn in acted]))
                for turn, factor in zip(acted, factors, strict=True):
                    tokens[turn][slice(*spans[turn])] *= factor
            found[index] = tokens
        return found


def step_factors(sizes: Array) -> Array:
    """What the actions of an episode are multiplied by, to be more alike in size.

    Args:
        sizes: mean absolute advantage of each action, shape ``[K]``.

    Returns:
        clip(mean size / size, ½, 2), shape ``[K]``.
    """
    factors: Array = np.clip(sizes.mean() / (sizes + EPSILON), 0.5, 2.0)
    return factors
