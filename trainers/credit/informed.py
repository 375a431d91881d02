"""What methods share whose teacher, the policy with a success of the same group in its context, judges single tokens.

Invariant: an episode without another success, whose hint does not fit, or whose advantages are all 0 keeps GRPO's
advantages bit for bit, and so does every episode at coefficient 0, where nothing is asked of the policy at all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Generic, Literal, TypeVar

import numpy as np
from pydantic import Field

from agentgym.agents.prompts import Hint
from agentgym.episode import Group

from .base import Credit, CreditMethod, CreditTable, ScoreRequest, SegmentCredit, TurnScores, output_length
from .grpo import GrpoOptions, group_stats, turn_advantages
from .peer import PeerOptions, peer_coverage, peer_hints
from .pooled import Pooled, count
from .reweight import Array


class InformedOptions(PeerOptions, GrpoOptions):
    """Options that these methods share; those of the base advantage are GRPO's.

    Attributes:
        lam: share of the weight in the multiplier, in [0, 1].
        lam_decay_steps: training steps over which ``lam`` falls linearly to 0; None keeps it.
    """

    lam: float = Field(default=0.5, ge=0, le=1)
    lam_decay_steps: int | None = Field(default=None, ge=1)

    def coefficient(self, step: int) -> float:
        """Share of the weight in the multiplier at a training step."""
        fall = 1.0 if self.lam_decay_steps is None else max(0.0, 1 - step / self.lam_decay_steps)
        return self.lam * fall


O = TypeVar("O", bound=InformedOptions)  # noqa: E741


class Informed(CreditMethod, Generic[O]):
    """GRPO's advantages, moved by the gap between informed and plain log-probabilities; implement ``reweight``."""

    def __init__(self, options: O) -> None:
        self.options = options

    @abstractmethod
    def reweight(
        self, group: Group, base: dict[int, Array], gaps: dict[int, list[Array]], coefficient: float
    ) -> dict[int, list[Array]]:
        """New advantages.

        Args:
            group: the group.
            base: GRPO's advantage of each turn, by position of every completed episode; shape ``[turns]``.
            gaps: by position of each informed episode, teacher minus student in nats; a turn's shape is ``[tokens]``.
            coefficient: share of the weight in the multiplier, positive.

        Returns:
            The advantage of each token, shaped as ``gaps``; an episode that is left out keeps its advantages.
        """

    def hints(self, group: Group) -> dict[int, Hint]:
        """What the teacher is told, by position of each completed episode that it can judge: another success."""
        return peer_hints(group, self.options)

    def requests(self, group: Group, *, step: int = 0) -> list[ScoreRequest]:
        """For each episode that the teacher judges: the plain prompts, then the informed ones."""
        weights: Literal["policy", "teacher"] = "policy" if self.teacher is None else "teacher"
        asked: list[ScoreRequest] = []
        for index, hint in self._judged(group, turn_advantages(group, self.options), step).items():
            episode = group.episodes[index]
            asked += [ScoreRequest(episode), ScoreRequest(episode, hint, weights)]
        return asked

    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """Rows of kind ``turn``: one a turn, or one for each run of equal advantages where the teacher had its say."""
        base = turn_advantages(group, self.options)
        judged = self._judged(group, base, step)
        gaps = log_gaps(judged, scores)
        moved = self.reweight(group, base, gaps, self.options.coefficient(step)) if gaps else {}
        stats = group_stats(group, self.options)
        stats |= judged_stats(group, judged, gaps)
        return Credit(token_table(group, base, moved), stats)

    def _judged(self, group: Group, base: dict[int, Array], step: int) -> dict[int, Hint]:
        if self.options.coefficient(step) == 0:
            return {}
        return {index: hint for index, hint in self.hints(group).items() if base[index].any()}


def log_gaps(judged: Iterable[int], scores: Sequence[TurnScores | None]) -> dict[int, list[Array]]:
    """Teacher minus student in nats, by position of the episode and turn, shape ``[tokens]``.

    Args:
        judged: positions of the episodes that were asked about.
        scores: for each of them the student's log-probabilities, then the teacher's; None where a hint did not fit,
            which leaves the episode out.
    """
    found: dict[int, list[Array]] = {}
    for index, student, teacher in zip(judged, scores[::2], scores[1::2], strict=True):
        if student is not None and teacher is not None:
            pairs = zip(teacher, student, strict=True)
            found[index] = [a.astype(np.float64) - b.astype(np.float64) for a, b in pairs]
    return found


def judged_stats(group: Group, judged: Collection[int], gaps: Mapping[int, list[Array]]) -> dict[str, float]:
    """How much a teacher judged, how often its hint did not fit, and what its gaps were like."""
    stats: dict[str, float] = {
        "peer/coverage": peer_coverage(group, judged),
        "peer/overflow": count(len(judged) - len(gaps)),
    }
    tokens = np.concatenate([turn for turns in gaps.values() for turn in turns] or [np.zeros(0)])
    if len(tokens):
        stats |= {"gap/mean": Pooled(np.mean, tokens), "gap/sd": Pooled(np.std, tokens)}
    return stats


def token_table(group: Group, base: Mapping[int, Array], moved: Mapping[int, list[Array]]) -> CreditTable:
    """Rows of kind ``turn``: one a turn, or one for each run of equal advantages of a moved episode's tokens."""
    return CreditTable.from_rows(_rows(group, base, moved))


def _rows(group: Group, base: Mapping[int, Array], moved: Mapping[int, list[Array]]) -> Iterator[SegmentCredit]:
    for index, advantages in base.items():
        for turn, advantage in enumerate(advantages):
            length = output_length(group.episodes[index], turn)
            tokens = moved[index][turn] if index in moved and length else np.full(1, advantage)
            cuts = (np.flatnonzero(np.diff(tokens)) + 1).tolist()
            for start, end in pairwise([0, *cuts, length]):
                yield SegmentCredit(index, turn, start, end, "turn", float(tokens[start]))
