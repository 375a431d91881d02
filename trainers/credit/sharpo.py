"""SHARPO: a success of the same group tells which segments of an episode deserve more of its advantage, and which less.

The policy itself, shown a successful peer in its context, scores the outputs that are there already. The mean gap
between informed and plain log-probability over a segment, in the direction of the advantage, becomes a bounded weight;
weights are balanced against segment length and mixed with the plain advantage. This is a reading of the published
description of SHARPO (arXiv 2610.00838), whose exact formula is not public; each open choice is an option of
:class:`SharpoOptions`.

Without another success (no success, the only one, a group of one) and where the hint does not fit, advantages are
GRPO's; when all succeed they are 0 (penalties aside). Groups may differ in size; a turn without an action keeps its
advantage, unless whole turns are weighed; state keys and snapshots are not read.

Invariant: the multiplier of a segment is a pure re-weighting: it never changes an advantage's sign, is exactly 1 at
``lam=0`` and without another success, and with the default balance its token-weighted mean over an episode is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from agentgym.agents.prompts import PEER_TOKENS, Hint, HintPlace, PeerContent, render_peer
from agentgym.episode import Episode, Group, SegmentKind
from agentgym.errors import ConfigError
from agentgym.options import refuse_unread
from agentgym.seeding import Seed

from .base import (
    Credit,
    CreditMethod,
    CreditTable,
    ScoreRequest,
    SegmentCredit,
    TeacherRule,
    TurnScores,
    output_length,
)
from .grpo import EPSILON, GrpoOptions, group_stats, turn_advantages
from .peer import PeerChoice, PeerRenderer, choose_peers, peer_coverage, succeeded, write_peers
from .pooled import count
from .reweight import Array, Balance, Reweighted, Squash, gap_stats, mean_gap, multipliers, squash


class SharpoOptions(GrpoOptions):
    """Options of SHARPO; those of the base advantage are GRPO's.

    The published description leaves twenty choices open:

    * D1 segment: ``segment``. Sub-goals are left out: an environment would have to mark them, and its reward does not
      where it comes at the end only. D2 tokens outside of a segment: ``apply_to``.
    * D3 episodes: ``trajectories``. D4 peer: ``peer``. D5 success: ``success_threshold``.
    * D6 text of the peer: ``peer_content``, ``peer_max_tokens``. D7 its place: ``peer_place``. D18 what is done if it
      is too long: see ``peer_max_tokens``.
    * D8 weights of the teacher: ``teacher``, ``teacher_refresh``, ``teacher_ema``. D9 the student's score: ``student``.
    * D10 direction of the gap: ``signed``. D19 outliers: ``token_clamp``. D20 short segments: ``min_tokens``.
    * D13 scale of the gap: ``tau``. D11 its squash: ``squash``. D12 the bound of that: ``clip``. D14 balance against
      length: ``balance``.
    * D15 coefficient: ``lam``, ``lam_decay_steps``. D16 what it weighs: ``lam_on``. D17 unit of the base advantage:
      ``baseline_unit``.

    Attributes:
        lam: share of the weight in the multiplier, in [0, 1].
        lam_decay_steps: training steps over which ``lam`` falls linearly to 0; None keeps it.
        lam_on: ``weight`` multiplies by (1 - lam) + lam·w, ``base`` by lam + (1 - lam)·w.
        segment: what gets one weight: the environment-facing ``action``, the whole ``turn``, or with ``think_action``
            the action and what precedes it, one each. A turn without an action keeps its advantage, unless whole turns
            are weighed.
        apply_to: whether the multiplier acts on the ``segment`` alone or on its whole ``turn``.
        min_tokens: shorter segments keep their advantage; at 1, none do.
        trajectories: ``all`` episodes with another success in the group, or the ``failed`` ones of these.
        peer: which success informs the teacher: the one with the fewest turns (``shortest``), the most
            (``longest``), the lowest member (``first``), a seeded ``random`` draw, or the ``average`` of the teacher's
            log-probabilities over all other successes. The last costs a scoring pass for each of them, so up to
            (group size - 1) times as much. A control: ``other_task`` draws a success of another task in the batch, for
            the same episodes as otherwise; if there is none, advantages are the base's.
        success_threshold: least score of a success; None takes the environment's own word.
        peer_content: whether of the peer's steps are shown the ``actions``, the beginnings of
            ``observations_actions``, or in ``full`` all that was seen and written, thoughts included.
        peer_max_tokens: most tokens of the peer. One that is longer, or does not fit into the policy's context, loses
            thoughts, then observations, then steps from the middle, until it does. Episodes where it never does keep
            their advantages.
        peer_place: where the peer stands in the prompt; see :data:`~agentgym.agents.prompts.HintPlace`.
        teacher: weights of the teacher: the policy's ``current`` ones, those it began with (``reference``), a ``stale``
            copy, or a moving average (``ema``).
        teacher_refresh: training steps after which a ``stale`` copy is renewed.
        teacher_ema: share of the way to the policy that ``ema`` goes in each training step.
        student: plain log-probabilities: ``trainer`` scores them anew, ``sampler`` takes those stored at sampling.
        token_clamp: each token's gap is cut to ± this, in nats, before the mean; None keeps it.
        signed: whether the gap is taken in the direction of the advantage, so that a failure is penalised less where
            the teacher agrees. False rewards agreement whatever the outcome.
        gap: where gaps come from: the ``teacher``; or, as controls, ``permuted`` deals the teacher's gaps out anew over
            the segments of the group, so that only their distribution is left, and ``match`` asks no teacher: the gap
            is +:data:`MATCH` where the peer took the same action somewhere, and -:data:`MATCH` elsewhere.
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
    segment: Literal["action", "think_action", "turn"] = "action"
    apply_to: Literal["segment", "turn"] = "segment"
    min_tokens: int = Field(default=1, ge=1)
    trajectories: Literal["all", "failed"] = "all"
    peer: PeerChoice = "shortest"
    success_threshold: float | None = Field(default=None, ge=0, le=1)
    peer_content: PeerContent = "observations_actions"
    peer_max_tokens: int = Field(default=PEER_TOKENS, ge=1)
    peer_place: HintPlace = "before_format"
    teacher: Literal["current", "reference", "stale", "ema"] = "current"
    teacher_refresh: int = Field(default=10, ge=1)
    teacher_ema: float = Field(default=0.05, gt=0, le=1)
    student: Literal["trainer", "sampler"] = "trainer"
    token_clamp: float | None = Field(default=5.0, gt=0)
    signed: bool = True
    gap: Literal["teacher", "permuted", "match"] = "teacher"
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
        if self.segment == "think_action" and self.apply_to == "turn":
            raise ValueError("segment 'think_action' gives a turn two weights, so apply_to must be 'segment'")
        refuse_unread(self, "teacher_refresh", self.teacher == "stale", 'teacher = "stale"')
        refuse_unread(self, "teacher_ema", self.teacher == "ema", 'teacher = "ema"')
        return self

    def coefficient(self, step: int) -> float:
        """Share of the weight in the multiplier at a training step."""
        fall = 1.0 if self.lam_decay_steps is None else max(0.0, 1 - step / self.lam_decay_steps)
        return self.lam * fall if self.lam_on == "weight" else 1 - self.lam


MATCH = 0.5
"""Nats of gap where actions are compared as text; the default bound of the weight is reached at 0.41."""


class _Segment(NamedTuple):
    """Tokens of an output that get one weight."""

    turn: int
    start: int
    end: int
    kind: SegmentKind


@dataclass(frozen=True)
class _Plan:
    """An episode to re-weight: its position, its segments and its peers."""

    index: int
    segments: list[_Segment]
    peers: list[Episode]


class Sharpo(CreditMethod):
    """GRPO's advantages, re-weighted segment by segment by a peer-informed copy of the policy."""

    def __init__(
        self,
        options: SharpoOptions | None = None,
        render: PeerRenderer = render_peer,
        batch: Sequence[Group] = (),
    ) -> None:
        self.options = options or SharpoOptions()
        self.render = render
        self._batch = batch

    def among(self, groups: Sequence[Group]) -> Sharpo:
        """With ``peer="other_task"``, the method that knows the other groups."""
        return Sharpo(self.options, self.render, groups) if self.options.peer == "other_task" else self

    @property
    def teacher(self) -> TeacherRule | None:
        """None for the policy's present weights."""
        options = self.options
        if options.teacher == "current":
            return None
        return TeacherRule(options.teacher, options.teacher_refresh, options.teacher_ema)

    def requests(self, group: Group, *, step: int = 0) -> list[ScoreRequest]:
        """For each episode with a peer: the plain prompts (unless the sampler's are used), then the informed ones."""
        asked: list[ScoreRequest] = []
        if self.options.gap == "match":
            return asked
        weights: Literal["policy", "teacher"] = "policy" if self.teacher is None else "teacher"
        plans = self._plans(group, turn_advantages(group, self.options), step)
        hints = iter(self._hints([peer for plan in plans for peer in plan.peers]))
        for plan in plans:
            if self.options.student == "trainer":
                asked.append(ScoreRequest(group.episodes[plan.index]))
            asked += [ScoreRequest(group.episodes[plan.index], next(hints), weights) for _ in plan.peers]
        return asked

    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """Rows of kind ``turn`` with the base advantage, overridden on re-weighted segments."""
        base = turn_advantages(group, self.options)
        plans = self._plans(group, base, step)
        answers = iter(scores)
        gaps: dict[int, Array] = {}
        for plan in plans:
            if self.options.gap == "match":
                gaps[plan.index] = _matches(group.episodes[plan.index], plan)
                continue
            pair = self._scores(group.episodes[plan.index], len(plan.peers), answers)
            if pair is not None:
                student, teacher = pair
                clamp = self.options.token_clamp
                means = [mean_gap(teacher[turn][a:b], student[turn][a:b], clamp) for turn, a, b, _ in plan.segments]
                gaps[plan.index] = np.array(means)
        if self.options.gap == "permuted" and gaps:
            gaps = _permuted(group, gaps)

        tau = self._tau(gaps)
        done = {
            plan.index: self._reweight(group.episodes[plan.index], plan, base[plan.index], gaps[plan.index], tau, step)
            for plan in plans
            if plan.index in gaps
        }
        stats = group_stats(group, self.options)
        stats["peer/coverage"] = peer_coverage(group, [plan.index for plan in plans])
        stats["peer/overflow"] = count(len(plans) - len(done))
        return Credit(CreditTable.from_rows(self._rows(group, base, plans, done)), stats | gap_stats(done.values()))

    def _plans(self, group: Group, base: dict[int, Array], step: int) -> list[_Plan]:
        options = self.options
        if options.coefficient(step) == 0 and options.balance != "mass_outside":
            return []  # every multiplier would be 1: nothing to ask
        plans: list[_Plan] = []
        others = [
            episode
            for other in self._batch
            if other.episodes[0].task != group.episodes[0].task
            for episode in other.episodes
            if succeeded(episode, options.success_threshold)
        ]
        for index, advantages in base.items():
            if options.trajectories == "failed" and succeeded(group.episodes[index], options.success_threshold):
                continue
            chosen = choose_peers(group, index, options.peer, options.success_threshold)
            peers = [group.episodes[peer] for peer in chosen]
            if options.peer == "other_task" and peers:
                peers = _draw(others, group.episodes[index])
            segments = list(self._segments(group.episodes[index], advantages))
            if peers and segments:
                plans.append(_Plan(index, segments, peers))
        return plans

    def _hints(self, peers: Sequence[Episode]) -> list[Hint]:
        options = self.options
        return write_peers(peers, options.peer_content, options.peer_place, options.peer_max_tokens, self.render)

    def _segments(self, episode: Episode, advantages: Array) -> Iterator[_Segment]:
        """The segments to re-weight; an advantage of 0 has nothing to re-assign."""
        for index, turn in enumerate(episode.turns):
            start, end = turn.action_span or (0, 0)
            if self.options.segment == "turn":
                found = [_Segment(index, 0, output_length(episode, index), "turn")]
            else:
                found = [_Segment(index, start, end, "action")]
            if self.options.segment == "think_action" and end > start:
                found.insert(0, _Segment(index, 0, start, "think"))
            for segment in found:
                if segment.end - segment.start >= self.options.min_tokens and advantages[index] != 0:
                    yield segment

    def _scores(
        self, episode: Episode, hints: int, answers: Iterator[TurnScores | None]
    ) -> tuple[TurnScores, TurnScores] | None:
        """The student's and the teacher's log-probabilities of an episode's outputs; None if no hint fits."""
        if self.options.student == "trainer":
            student = next(answers)
        else:
            stored = [turn.output_logprobs for turn in episode.turns]
            if None in stored:
                raise ConfigError(f"episode of {episode.task} lacks sampler log-probabilities; set student 'trainer'")
            student = [np.array(logprobs, dtype=np.float32) for logprobs in stored]
        teachers = [answer for answer in islice(answers, hints) if answer is not None]
        if student is None or not teachers:
            return None
        return student, [np.mean(turn, axis=0) for turn in zip(*teachers, strict=True)]

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
        base = np.array([advantages[segment.turn] for segment in plan.segments])
        scaled = (np.sign(base) if options.signed else 1.0) * gaps / tau
        if options.tau == "trajectory_z":
            scaled = (scaled - scaled.mean()) / (scaled.std() + EPSILON)
        weights = squash(scaled, options.squash, options.clip)
        whole = options.apply_to == "turn"
        sizes = [output_length(episode, turn) if whole else end - start for turn, start, end, _ in plan.segments]
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
            for (turn, start, end, kind), multiplier in zip(plan.segments, done[plan.index].multipliers, strict=True):
                if self.options.apply_to == "turn":
                    start, end = 0, output_length(group.episodes[plan.index], turn)
                advantage = float(base[plan.index][turn] * multiplier)
                yield SegmentCredit(plan.index, turn, start, end, kind, advantage)


def _draw(others: list[Episode], episode: Episode) -> list[Episode]:
    """One of the successes of other tasks, by the episode's own seed; none if there is none."""
    if not others:
        return []
    others = sorted(others, key=lambda other: (other.task, other.member))
    generator = Seed(episode.seed).child("other task", episode.member).generator()
    return [others[int(generator.integers(len(others)))]]


def _permuted(group: Group, gaps: dict[int, Array]) -> dict[int, Array]:
    """The same gaps, dealt out anew over all segments, in the order of the members."""
    order = sorted(gaps, key=lambda index: group.episodes[index].member)
    generator = Seed(group.episodes[order[0]].seed).child("permuted").generator()
    dealt = generator.permutation(np.concatenate([gaps[index] for index in order]))
    return dict(zip(order, np.split(dealt, np.cumsum([len(gaps[index]) for index in order])[:-1]), strict=True))


def _matches(episode: Episode, plan: _Plan) -> Array:
    taken = {turn.action for peer in plan.peers for turn in peer.turns}
    return np.array([MATCH if episode.turns[segment.turn].action in taken else -MATCH for segment in plan.segments])
