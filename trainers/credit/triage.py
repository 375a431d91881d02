"""TRIAGE: GRPO's advantage, plus what a judge thinks of the part that each action played.

A judge labels every turn: decisive (+1), exploration (+0.5), no progress (-0.1) or regression (-0.5). The values of all
labelled turns of a batch are whitened (less their mean, over the population's deviation) and added ``lam`` times, on
the tokens of the action or of the turn. Source: arXiv 2606.32017, where the judge is a frozen model that thinks aloud
and does not see the outcome. Nothing is asked of the policy.

The judge is a set of rules about what the environment reported (:class:`~.roles.RuleLabeller`, which also reads
rewards), a control that draws labels or gives all the same, or a model. A turn without an answer (the judge failed, was
too slow, or wrote nonsense), or with ``segment="action"`` without an action, keeps GRPO's advantage and enters no mean.
Groups of one, and groups in which all or none succeed, are labelled like others; without state keys the rules compare
what is seen. Groups may differ in size; snapshots are not read.

Invariant: over the labelled turns of a batch the added values have mean 0; with ``lam=0``, and where all labels are
equal, advantages are GRPO's bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Self

import numpy as np
from pydantic import Field

from agentgym.agents.engines import load_engine
from agentgym.episode import Group

from .base import Credit, CreditMethod, CreditTable, SegmentCredit, TurnScores, output_length
from .grpo import FLAT, GrpoOptions, group_stats, turn_advantages
from .judge import EngineJudge
from .pooled import share
from .reweight import Array
from .roles import AskingLabeller, ConstantLabeller, Labeller, RandomLabeller, Role, RuleLabeller, labelled

VALUES: dict[Role, float] = {"decisive": 1.0, "exploration": 0.5, "no progress": -0.1, "regression": -0.5}
"""What each part is worth, before whitening."""

Place = tuple[int, int, int]
"""Number of the group in the batch, position of the episode, turn."""


class TriageOptions(GrpoOptions):
    """Options of TRIAGE; the others are those of :class:`~agentgym.trainers.credit.grpo.GrpoOptions`.

    Attributes:
        lam: factor on the whitened value of a turn's label.
        segment: the tokens that get it: the ``action``'s, or the whole ``turn``'s.
        judge: ``rules``, the controls ``random`` and ``constant``, or a model string such as ``hf/PATH``.
        window: turns before and after the one in question that a model is shown.
        judge_timeout: seconds until a model's answers count as missing.
        judge_tokens: most tokens of a model's answer, thoughts included.
    """

    lam: float = Field(default=0.3, ge=0)
    segment: Literal["action", "turn"] = "action"
    judge: str = "rules"
    window: int = Field(default=5, ge=0)
    judge_timeout: float = Field(default=60.0, gt=0)
    judge_tokens: int = Field(default=256, ge=1)


class Triage(CreditMethod):
    """GRPO's advantages plus whitened labels.

    Args:
        options: the options.
        labeller: who labels, in place of the option.
        batch: the groups that are whitened together; only :meth:`among` gives them.

    Raises:
        ConfigError, DataError, UnknownNameError: if the judge's model cannot be loaded.
    """

    def __init__(
        self, options: TriageOptions | None = None, labeller: Labeller | None = None, batch: Sequence[Group] = ()
    ) -> None:
        self.options = options or TriageOptions()
        self.labeller = labeller or _labeller(self.options)
        self._numbers = {id(group): number for number, group in enumerate(batch)}
        self._added = self._whitened(batch)

    def among(self, groups: Sequence[Group]) -> Self:
        """The method with these groups labelled."""
        return type(self)(self.options, self.labeller, groups)

    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """Rows of kind ``turn`` for every turn, and of kind ``action`` for those that a label moved."""
        if id(group) not in self._numbers:
            return self.among([group]).assign(group, scores, step=step)
        number = self._numbers[id(group)]
        added = {place[1:]: value for place, value in self._added.items() if place[0] == number}
        stats = group_stats(group, self.options)
        turns = sum(len(group.episodes[index].turns) for index in labelled(group))
        if self.options.lam > 0 and turns:
            stats["judge/answered"] = share(len(added), turns)
        return Credit(CreditTable.from_rows(self._rows(group, added)), stats)

    def _whitened(self, batch: Sequence[Group]) -> dict[Place, float]:
        if self.options.lam == 0:
            return {}
        places = [(number, index) for number, group in enumerate(batch) for index in labelled(group)]
        roles = self.labeller.label([batch[number].episodes[index] for number, index in places])
        values = {
            (number, index, turn): VALUES[role]
            for (number, index), episode in zip(places, roles, strict=True)
            for turn, role in enumerate(episode)
            if role is not None and self._tokens(batch[number], index, turn) is not None
        }
        return dict(zip(values, whiten(list(values.values())).tolist(), strict=True))

    def _tokens(self, group: Group, index: int, turn: int) -> tuple[int, int] | None:
        """The tokens that a turn's label is for; None if there are none."""
        length = output_length(group.episodes[index], turn)
        span = group.episodes[index].turns[turn].action_span if self.options.segment == "action" else (0, length)
        return span if span is not None and span[0] < span[1] else None

    def _rows(self, group: Group, added: Mapping[tuple[int, int], float]) -> Iterator[SegmentCredit]:
        for index, advantages in turn_advantages(group, self.options).items():
            for turn, advantage in enumerate(advantages.tolist()):
                yield SegmentCredit(index, turn, 0, output_length(group.episodes[index], turn), "turn", advantage)
                value, span = added.get((index, turn), 0.0), self._tokens(group, index, turn)
                if value != 0 and span is not None:
                    yield SegmentCredit(index, turn, *span, "action", advantage + self.options.lam * value)


def whiten(values: Sequence[float]) -> Array:
    """Values less their mean, over the population's deviation; exactly 0 if all are equal. Shape ``[n]``."""
    array = np.array(values, dtype=np.float64)
    if not len(array) or np.ptp(array) < FLAT:
        return np.zeros_like(array)
    whitened: Array = (array - array.mean()) / array.std()
    return whitened


def _labeller(options: TriageOptions) -> Labeller:
    known: dict[str, type[Labeller]] = {
        "rules": RuleLabeller,
        "random": RandomLabeller,
        "constant": ConstantLabeller,
    }
    if options.judge in known:
        return known[options.judge]()
    judge = EngineJudge(load_engine(options.judge), options.judge_timeout, options.judge_tokens)
    return AskingLabeller(judge, options.window)
