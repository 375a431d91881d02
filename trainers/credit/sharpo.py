"""SHARPO: a success of the same group tells which segments of an episode deserve more of its advantage, and which less.

The policy itself, shown a successful peer in its context, scores the outputs that are there already. The mean gap
between informed and plain log-probability over a segment, in the direction of the advantage, becomes a bounded weight;
weights are balanced against segment length and mixed with the plain advantage. This is a reading of the published
description of SHARPO (arXiv 2610.00838), whose exact formula is not public; each open choice is an option.

Invariant: the multiplier of a segment is a pure re-weighting: it never changes an advantage's sign, is exactly 1 at
``lam=0`` and without another success, and with the default balance its token-weighted mean over an episode is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import numpy as np
from pydantic import Field, model_validator

from agentgym.agents.prompts import render_peer
from agentgym.episode import Episode, Group
from agentgym.errors import ConfigError

from .base import Credit, CreditMethod, CreditTable, ScoreRequest, SegmentCredit, TurnScores, output_length
from .grpo import EPSILON, GrpoOptions, group_stats, turn_advantages
from .peer import PeerChoice, choose_peer, succeeded
from .reweight import Array, Balance, Reweighted, Squash, gap_stats, mean_gap, multipliers, squash


class SharpoOptions(GrpoOptions):
    """Options of SHARPO; those of the base advantage are GRPO's.

    Attributes:
        lam: share of the weight in the multiplier, in [0, 1].
        lam_decay_steps: training steps over which ``lam`` falls linearly to 0; None keeps it.
        lam_on: ``weight`` multiplies by (1 - lam) + lam·w, ``base`` by lam + (1 - lam)·w.
        segment: what gets one weight: the environment-facing ``action`` or the whole ``turn``. A turn without an
            action keeps its advantage.
        apply_to: whether the multiplier acts on the ``segment`` alone or on its whole ``turn``.
        min_tokens: shorter segments keep their advantage.
        trajectories: ``all`` episodes with another success in the group, or the ``failed`` ones of these.
        peer: which success informs the teacher: the one with the fewest turns (``shortest``), the most
            (``longest``), the lowest member (``first``), or a seeded ``random`` draw.
        success_threshold: least score of a success; None takes the environment's own word.
        peer_content: whether the peer is shown as ``actions`` or as ``observations_actions``.
        peer_max_chars: longest rendering of the peer, in characters.
        student: plain log-probabilities: ``trainer`` scores them anew, ``sampler`` takes those stored at sampling.
        token_clamp: each token's gap is cut to ± this, in nats, before the mean; None keeps it.
        signed: whether the gap is taken in the direction of the advantage, so that a failure is penalised less where
            the teacher agrees. False rewards agreement whatever the outcome.
        tau: what gaps are divided by: a number of nats, ``group_mean_abs`` (their mean size in the group) or
            ``trajectory_z`` (they are centred and divided by their deviation in the episode).
        squash: from gap x to weight: ``sigmoid`` 2σ(x), ``exp`` e^x, ``tanh`` 1 + tanh(x), ``clip`` 1 + x.
        clip: weights are cut to 1 ± this; None leaves them in the range of the squash.
        balance: ``mean_one``, ``ratio``, ``mass_inside``, ``mass_outside`` or ``none``; see
            :func:`~agentgym.trainers.credit.reweight.multipliers`.
    """

    lam: float = Field(default=0.2, ge=0, le=1)
    lam_decay_steps: int | None = Field(default=None, ge=1)
    lam_on: Literal["weight", "base"] = "weight"
    segment: Literal["action", "turn"] = "action"
    apply_to: Literal["segment", "turn"] = "segment"
    min_tokens: int = Field(default=1, ge=1)
    trajectories: Literal["all", "failed"] = "all"
    peer: PeerChoice = "shortest"
    success_threshold: float | None = Field(default=None, ge=0, le=1)
    peer_content: Literal["actions", "observations_actions"] = "observations_actions"
    peer_max_chars: int = Field(default=4096, ge=1)
    student: Literal["trainer", "sampler"] = "trainer"
    token_clamp: float | None = Field(default=5.0, gt=0)
    signed: bool = True
    tau: float | Literal["group_mean_abs", "trajectory_z"] = 1.0
    squash: Squash = "sigmoid"
    clip: float | None = Field(default=0.2, gt=0, lt=1)
    balance: Balance = "mean_one"

    @model_validator(mode="after")
    def _choices_agree(self) -> Self:
        if isinstance(self.tau, float) and self.tau <= 0:
            raise ValueError("tau must be positive")
        if self.clip is None and (self.squash in ("exp", "clip") or self.balance == "ratio"):
            raise ValueError("squash 'exp' or 'clip' and balance 'ratio' are unbounded without clip; set it, say 0.2")
        if self.lam_decay_steps is not None and self.lam_on == "base":
            raise ValueError("lam_decay_steps returns to the plain advantage, which lam_on 'base' does not do at lam 0")
        return self

    def coefficient(self, step: int) -> float:
        """Share of the weight in the multiplier at a training step."""
        fall = 1.0 if self.lam_decay_steps is None else max(0.0, 1 - step / self.lam_decay_steps)
        return self.lam * fall if self.lam_on == "weight" else 1 - self.lam


class PeerRenderer(Protocol):
    """Writes a peer as a hint, or None if it cannot fit."""

    def __call__(
        self, peer: Episode, *, content: Literal["observations_actions", "actions"], max_chars: int
    ) -> str | None:
        """The text of the hint."""
        ...


@dataclass(frozen=True)
class _Plan:
    """An episode to re-weight: its position, its segments (turn, first token, end), the hint (None: it cannot fit)."""

    index: int
    segments: list[tuple[int, int, int]]
    hint: str | None


class Sharpo(CreditMethod):
    """GRPO's advantages, re-weighted segment by segment by a peer-informed copy of the policy."""

    def __init__(self, options: SharpoOptions | None = None, render: PeerRenderer = render_peer) -> None:
        self.options = options or SharpoOptions()
        self.render = render

    def requests(self, group: Group, *, step: int = 0) -> list[ScoreRequest]:
        """For each episode with a peer: the plain prompts (unless the sampler's are used), then the informed ones."""
        asked: list[ScoreRequest] = []
        for plan in self._plans(group, turn_advantages(group, self.options), step):
            if plan.hint is None:
                continue
            if self.options.student == "trainer":
                asked.append(ScoreRequest(group.episodes[plan.index]))
            asked.append(ScoreRequest(group.episodes[plan.index], plan.hint))
        return asked

    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """Rows of kind ``turn`` with the base advantage, overridden on re-weighted segments."""
        base = turn_advantages(group, self.options)
        plans = self._plans(group, base, step)
        answers = iter(scores)
        gaps: dict[int, Array] = {}
        for plan in plans:
            pair = None if plan.hint is None else self._scores(group.episodes[plan.index], answers)
            if pair is not None:
                student, teacher = pair
                clamp = self.options.token_clamp
                means = [mean_gap(teacher[turn][a:b], student[turn][a:b], clamp) for turn, a, b in plan.segments]
                gaps[plan.index] = np.array(means)

        tau = self._tau(gaps)
        done = {
            plan.index: self._reweight(group.episodes[plan.index], plan, base[plan.index], gaps[plan.index], tau, step)
            for plan in plans
            if plan.index in gaps
        }
        stats = group_stats(group, self.options)
        turns = {index: len(advantages) for index, advantages in base.items()}
        stats["peer/coverage"] = sum(turns[plan.index] for plan in plans) / max(1, sum(turns.values()))
        stats["peer/overflow"] = float(len(plans) - len(done))
        return Credit(CreditTable.from_rows(self._rows(group, base, plans, done)), stats | gap_stats(done.values()))

    def _plans(self, group: Group, base: dict[int, Array], step: int) -> list[_Plan]:
        options = self.options
        if options.coefficient(step) == 0 and options.balance != "mass_outside":
            return []  # every multiplier would be 1: nothing to ask
        plans: list[_Plan] = []
        for index, advantages in base.items():
            if options.trajectories == "failed" and succeeded(group.episodes[index], options.success_threshold):
                continue
            peer = choose_peer(group, index, options.peer, options.success_threshold)
            segments = list(self._segments(group.episodes[index], advantages))
            if peer is not None and segments:
                other = group.episodes[peer]
                hint = self.render(other, content=options.peer_content, max_chars=options.peer_max_chars)
                plans.append(_Plan(index, segments, hint))
        return plans

    def _segments(self, episode: Episode, advantages: Array) -> Iterator[tuple[int, int, int]]:
        """The segments to re-weight; an advantage of 0 has nothing to re-assign."""
        for index, turn in enumerate(episode.turns):
            whole = (0, output_length(episode, index))
            start, end = (turn.action_span or (0, 0)) if self.options.segment == "action" else whole
            if end - start >= self.options.min_tokens and advantages[index] != 0:
                yield index, start, end

    def _scores(self, episode: Episode, answers: Iterator[TurnScores | None]) -> tuple[TurnScores, TurnScores] | None:
        """The student's and the teacher's log-probabilities of an episode's outputs; None if a prompt cannot fit."""
        if self.options.student == "trainer":
            student = next(answers)
        else:
            stored = [turn.output_logprobs for turn in episode.turns]
            if None in stored:
                raise ConfigError(f"episode of {episode.task} lacks sampler log-probabilities; set student 'trainer'")
            student = [np.array(logprobs, dtype=np.float32) for logprobs in stored]
        teacher = next(answers)
        return None if student is None or teacher is None else (student, teacher)

    def _tau(self, gaps: dict[int, Array]) -> float:
        """What gaps are divided by, where that is one number for the group."""
        if self.options.tau == "group_mean_abs" and gaps:
            sizes = np.abs(np.concatenate(list(gaps.values())))
            return math.fsum(sizes) / len(sizes) + EPSILON
        return self.options.tau if isinstance(self.options.tau, float) else 1.0

    def _reweight(
        self, episode: Episode, plan: _Plan, advantages: Array, gaps: Array, tau: float, step: int
    ) -> Reweighted:
        options = self.options
        base = np.array([advantages[turn] for turn, _, _ in plan.segments])
        scaled = (np.sign(base) if options.signed else 1.0) * gaps / tau
        if options.tau == "trajectory_z":
            scaled = (scaled - scaled.mean()) / (scaled.std() + EPSILON)
        weights = squash(scaled, options.squash, options.clip)
        whole = options.apply_to == "turn"
        sizes = [output_length(episode, turn) if whole else end - start for turn, start, end in plan.segments]
        lengths = np.array(sizes, dtype=np.float64)
        bound, coefficient = options.clip or 1.0, options.coefficient(step)
        return Reweighted(
            success=succeeded(episode, options.success_threshold),
            gaps=gaps,
            lengths=lengths,
            base=base,
            multipliers=multipliers(weights, lengths, options.balance, bound, coefficient),
            unbalanced=multipliers(weights, lengths, "none", bound, coefficient),
        )

    def _rows(
        self, group: Group, base: dict[int, Array], plans: list[_Plan], done: dict[int, Reweighted]
    ) -> Iterator[SegmentCredit]:
        for index, advantages in base.items():
            for turn, advantage in enumerate(advantages):
                length = output_length(group.episodes[index], turn)
                yield SegmentCredit(index, turn, 0, length, "turn", float(advantage))
        for plan in plans:
            if plan.index not in done:
                continue
            for (turn, start, end), multiplier in zip(plan.segments, done[plan.index].multipliers, strict=True):
                if self.options.apply_to == "turn":
                    start, end = 0, output_length(group.episodes[plan.index], turn)
                advantage = float(base[plan.index][turn] * multiplier)
                yield SegmentCredit(plan.index, turn, start, end, self.options.segment, advantage)
