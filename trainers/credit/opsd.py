"""OPSD beside GRPO: a teacher's gap as a reward for each token, or its distributions as a target.

The teacher is the policy with a success of the same group in its context. ``signal="reward"`` adds ``coef`` times the
gap Δ = log teacher - log policy of each token, without gradient, to the token's advantage: the reverse KL divergence as
a reward. The other signals are losses between the whole distributions at each sampled token. ``base_weight=0`` leaves
GRPO out, for pure distillation. Source: arXiv 2601.18734, where the teacher reads the reference solution and has the
weights that the policy began with; the reward is that of on-policy distillation. :mod:`.opsd_released` is the baseline
that is widely compared under this name.

An episode without another success in its group (no success, the only one, a group of one) and one whose hint does not
fit have ``base_weight`` times GRPO's loss alone; when all succeed, each reads another. Groups may differ in size;
action spans, state keys and snapshots are not read.

Invariant: with ``coef=0`` and ``base_weight=1`` the advantages are GRPO's bit for bit, there is no further loss, and
nothing is asked of the policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from agentgym.episode import Group
from agentgym.options import refuse_unread

from .base import Credit, CreditMethod, ScoreRequest, TeacherRule, TurnScores
from .grpo import GrpoOptions, group_stats, turn_advantages
from .informed import judged_stats, log_gaps, token_table
from .peer import PeerOptions, peer_coverage, peer_hints
from .token_loss import Divergence, DivergenceLoss


class OpsdOptions(PeerOptions, GrpoOptions):
    """Options of OPSD; the others are those of the peer that the teacher reads, and GRPO's.

    Attributes:
        coef: factor on the gap or the divergence.
        signal: ``reward`` adds the gap to the advantage; ``reverse_kl``, ``forward_kl`` and ``jsd`` are losses between
            whole distributions.
        jsd_beta: share of the teacher in the mixture of ``jsd``.
        top: number of the policy's likeliest ids that a divergence compares one by one, all others as one; None
            compares all.
        base_weight: factor on GRPO's advantages.
        teacher: weights of the teacher: those that the policy began with (``reference``), a moving average (``ema``),
            or the ``current`` ones.
        teacher_ema: share of the way to the policy that ``ema`` goes in each training step.
    """

    coef: float = Field(default=0.05, ge=0)
    signal: Literal["reward"] | Divergence = "reward"
    jsd_beta: float = Field(default=0.5, gt=0, lt=1)
    top: int | None = Field(default=None, ge=1)
    base_weight: float = Field(default=1.0, ge=0)
    teacher: Literal["reference", "ema", "current"] = "reference"
    teacher_ema: float = Field(default=0.001, gt=0, le=1)

    @model_validator(mode="after")
    def _all_is_read(self) -> Self:
        refuse_unread(self, "teacher_ema", self.teacher == "ema", 'teacher = "ema"')
        return self


class Opsd(CreditMethod):
    """GRPO, and the teacher's gap as a reward or its distributions as a target."""

    def __init__(self, options: OpsdOptions | None = None) -> None:
        self.options = options or OpsdOptions()

    @property
    def teacher(self) -> TeacherRule | None:
        """None for the policy's present weights."""
        options = self.options
        return None if options.teacher == "current" else TeacherRule(options.teacher, rate=options.teacher_ema)

    @property
    def token_loss(self) -> DivergenceLoss | None:
        """The divergence; None where the signal is a reward, and at coefficient 0."""
        options = self.options
        if options.signal == "reward" or options.coef == 0:
            return None
        return DivergenceLoss(options.signal, options.coef, options.jsd_beta, options.top)

    def requests(self, group: Group, *, step: int = 0) -> list[ScoreRequest]:
        """For a reward, of each episode with another success: the plain prompts, then the informed ones."""
        if self.options.signal != "reward":
            return []
        return [ask for told in self._told(group).values() for ask in (ScoreRequest(told.episode), told)]

    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """Rows of kind ``turn``, one for each run of equal advantages; for a divergence, the teacher's contexts."""
        options = self.options
        base = {i: options.base_weight * values for i, values in turn_advantages(group, options).items()}
        told, stats = self._told(group), group_stats(group, options)
        if options.signal != "reward":
            stats["peer/coverage"] = peer_coverage(group, told)
            return Credit(token_table(group, base, {}), stats, informed=told)
        gaps = log_gaps(told, scores)
        moved = {
            index: [advantage + options.coef * gap for advantage, gap in zip(base[index], turns, strict=True)]
            for index, turns in gaps.items()
        }
        return Credit(token_table(group, base, moved), stats | judged_stats(group, told, gaps))

    def _told(self, group: Group) -> dict[int, ScoreRequest]:
        """What the teacher reads, by position of the episode."""
        if self.options.coef == 0:
            return {}
        weights: Literal["policy", "teacher"] = "policy" if self.teacher is None else "teacher"
        hints = peer_hints(group, self.options)
        return {index: ScoreRequest(group.episodes[index], hint, weights) for index, hint in hints.items()}
