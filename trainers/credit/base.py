"""What a credit method is: a function from a group of episodes to one advantage for each segment.

Invariant: a method is deterministic, carries no gradient and does no I/O. What it wants to know of the policy it asks
beforehand (``requests``), so that a trainer can score many groups in one batch; the answers come back to ``assign``.
Beside advantages, a method may hand out a loss on single tokens, which the update evaluates (``token_loss``).
Episodes that broke (``not episode.completed``) enter no statistic and get no row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import NoneType
from typing import Literal, Protocol, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from agentgym.agents.prompts import Hint
from agentgym.episode import Episode, Group, SegmentKind
from agentgym.errors import ConfigError, DataError, EngineError

from .token_loss import TokenLoss


@dataclass(frozen=True, slots=True)
class SegmentCredit:
    """One advantage and the tokens it is for.

    Attributes:
        episode: position of the episode in the group.
        turn: index of the turn.
        start: first token in the turn's output ids.
        end: one past the last token.
        kind: ``turn`` rows are laid first, rows of the other kinds override them.
        advantage: the advantage of each of these tokens.
    """

    episode: int
    turn: int
    start: int
    end: int
    kind: SegmentKind
    advantage: float


@dataclass(frozen=True, eq=False)
class CreditTable:
    """The segments of a group as columns, all of length R.

    Attributes:
        episode: int64, position in the group.
        turn: int64, index of the turn.
        start: int64, first token.
        end: int64, one past the last token.
        kind: str, kind of segment.
        advantage: float64.
    """

    episode: NDArray[np.int64]
    turn: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    kind: NDArray[np.str_]
    advantage: NDArray[np.float64]

    @classmethod
    def from_rows(cls, rows: Iterable[SegmentCredit]) -> Self:
        """Builds the columns, in the order of the rows."""
        rows = list(rows)
        return cls(
            episode=np.array([row.episode for row in rows], dtype=np.int64),
            turn=np.array([row.turn for row in rows], dtype=np.int64),
            start=np.array([row.start for row in rows], dtype=np.int64),
            end=np.array([row.end for row in rows], dtype=np.int64),
            kind=np.array([row.kind for row in rows], dtype=np.str_),
            advantage=np.array([row.advantage for row in rows], dtype=np.float64),
        )

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.advantage)

    def token_advantages(self, group: Group) -> list[list[NDArray[np.float64]]]:
        """Advantages by episode, turn and output token; tokens that no row covers get 0."""
        laid = [[np.zeros(len(turn.output_ids or ())) for turn in episode.turns] for episode in group.episodes]
        for row in np.argsort(self.kind != "turn", kind="stable"):
            tokens = laid[self.episode[row]][self.turn[row]]
            tokens[self.start[row] : self.end[row]] = self.advantage[row]
        return laid


@dataclass(frozen=True)
class ScoreRequest:
    """Asks for the log-probabilities of an episode's stored output ids.

    Attributes:
        episode: the episode, with tokens.
        hint: what the prompts of the episode are to hold in addition; None for the prompts as they were.
        weights: whose weights answer: the ``policy``'s, or those of the method's own ``teacher``.
    """

    episode: Episode
    hint: Hint | None = None
    weights: Literal["policy", "teacher"] = "policy"


@dataclass(frozen=True)
class TeacherRule:
    """How the weights of a teacher, which begin as the policy's, follow the policy.

    Attributes:
        kind: ``reference`` stays where it began, ``stale`` is renewed now and then, ``ema`` trails behind.
        refresh: training steps between two renewals of ``stale``.
        rate: share of the way to the policy that ``ema`` goes after each training step.
    """

    kind: Literal["reference", "stale", "ema"]
    refresh: int = 10
    rate: float = 0.05


@dataclass(frozen=True)
class PlayRequest:
    """Asks the present policy to play on from the middle of an episode.

    Attributes:
        episode: the episode.
        turn: the turn before which the others part from it; 0 asks for episodes from the start.
        count: number of episodes that are wanted.
    """

    episode: Episode
    turn: int
    count: int


TurnScores = list[NDArray[np.float32]]
"""For each turn, the log-probability in nats of each output id, shape ``[tokens of the turn]``."""


@dataclass(frozen=True, eq=False)
class Credit:
    """What a method hands back for one group.

    Attributes:
        table: one advantage a segment.
        stats: numbers worth logging; a key is absent where it has no meaning (no peer: no gap). Over the groups of a
            training step the mean of a plain number is logged; what a mean would misstate, such as a range, a share or
            a count, is a :class:`~agentgym.trainers.credit.pooled.Pooled`.
        targets: for a :class:`GatedLoss`, the teacher's log-probabilities, by position of the episode in the group.
        informed: for a :class:`DivergenceLoss`, the teacher's context and weights, by position of the episode.
    """

    table: CreditTable
    stats: dict[str, float] = field(default_factory=dict)
    targets: dict[int, TurnScores] = field(default_factory=dict)
    informed: dict[int, ScoreRequest] = field(default_factory=dict)


class Scorer(Protocol):
    """The policy as a judge of stored outputs: fp32, without gradient, temperature and restriction as at sampling."""

    def score(self, requests: Sequence[ScoreRequest]) -> list[TurnScores | None]:
        """One answer a request, in order; None if no form of the hint fits."""
        ...


class Continuer(Protocol):
    """The policy and its environment as those who play on from the middle of an episode."""

    def play_on(self, requests: Sequence[PlayRequest]) -> list[list[Episode]]:
        """The whole episodes, broken ones included, by request; none where the state cannot be reached again."""
        ...


class Branching(Protocol):
    """How the last members of a group part from the first ones in their midst, instead of beginning at the start."""

    @property
    def top(self) -> int:
        """How many of the most probable ids count in the entropy of a token."""
        ...

    def members(self, size: int) -> int:
        """How many members of a group of this size are played on from others; fewer than all."""
        ...

    def branches(self, group: Group, entropies: Sequence[TurnScores | None], count: int) -> list[PlayRequest]:
        """Where ``count`` further members part from those that there are.

        Args:
            group: the members so far.
            entropies: by position, for each turn that of each output token in nats; None for broken episodes.
            count: number of members that are wanted.
        """
        ...


class CreditOptions(BaseModel):
    """Options that every method has: what counts as the reward of an episode. In a recipe, ``"none"`` means None.

    Attributes:
        reward: the outcome that is compared within a group: ``success`` (0 or 1), ``score`` (in [0, 1]) or ``return``
            (the sum of the environment's rewards).
        reward_scale: factor on it; verl-agent uses 10.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    reward: Literal["success", "score", "return"] = "success"
    reward_scale: float = Field(default=1.0, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _none_is_a_word(cls, values: dict[str, object]) -> dict[str, object]:
        """TOML has no way to write None: where it may stand, the text ``none`` means it."""
        return {key: None if value == "none" and cls._may_be_none(key) else value for key, value in values.items()}

    @classmethod
    def _may_be_none(cls, key: str) -> bool:
        field = cls.model_fields.get(key)
        return field is not None and NoneType in get_args(field.annotation)

    def reward_of(self, episode: Episode) -> float:
        """The reward of a completed episode.

        Raises:
            ConfigError: if the environment did not report the chosen outcome.
            DataError: if it is a score outside of its range.
        """
        outcomes = {"success": episode.success, "score": episode.score, "return": episode.episode_return}
        outcome = outcomes[self.reward]
        if outcome is None:
            raise ConfigError(f"{episode.env} reports no {self.reward} for {episode.task}; choose another `reward`")
        if self.reward == "score" and not 0 <= outcome <= 1:
            raise DataError(
                f"{episode.env} reports a score of {outcome} for {episode.task}, which is not in [0, 1]; mend the "
                "environment, or choose another `reward`"
            )
        return self.reward_scale * float(outcome)


class CreditMethod(ABC):
    """A credit method. Implement ``assign``, and ``requests`` if the method needs log-probabilities."""

    @property
    def teacher(self) -> TeacherRule | None:
        """The rule of the teacher whose weights the requests name; None if they name the policy's only."""
        return None

    @property
    def token_loss(self) -> TokenLoss | None:
        """A loss beside the policy gradient, on the episodes that ``assign`` names; None for none."""
        return None

    @property
    def branching(self) -> Branching | None:
        """How groups become trees; None where all members are played from the start."""
        return None

    def among(self, groups: Sequence[Group]) -> CreditMethod:
        """The method for groups of one batch; itself, unless a group's credit depends on the others or on a judge."""
        return self

    def trials(self, group: Group, *, step: int = 0) -> list[PlayRequest]:
        """What the method wants played on from the group's episodes to see what comes of it; never trained on."""
        return []

    def after(self, asked: Sequence[PlayRequest], answers: Sequence[Sequence[Episode]]) -> CreditMethod:
        """The method that knows what came of its trials."""
        return self

    def requests(self, group: Group, *, step: int = 0) -> list[ScoreRequest]:
        """What the method asks of the policy before it can assign credit at training step ``step``."""
        return []

    @abstractmethod
    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """Credit of one group, given the answers to ``requests(group, step=step)`` in order."""

    def advantages(self, group: Group, scorer: Scorer | None = None, *, step: int = 0) -> Credit:
        """Credit of one group; asks the scorer itself.

        Raises:
            ConfigError: if the method needs a scorer and there is none, or an episode lacks what the method reads.
            EngineError: if the scorer's answers are not finite numbers of the right shape.
        """
        return credit_groups(self, [group], scorer, step=step)[0]


def credit_groups(
    method: CreditMethod,
    groups: Sequence[Group],
    scorer: Scorer | None = None,
    *,
    step: int = 0,
    player: Continuer | None = None,
) -> list[Credit]:
    """Credit of many groups with a single call of scorer and player; errors as in :meth:`CreditMethod.advantages`.

    Without a player there are no trials.
    """
    method = method.among(groups)
    trials = [request for group in groups for request in method.trials(group, step=step)]
    if trials and player is not None:
        method = method.after(trials, player.play_on(trials))
    asked = [method.requests(group, step=step) for group in groups]
    answers = iter(_ask(scorer, [request for requests in asked for request in requests]))
    return [
        method.assign(group, list(islice(answers, len(requests))), step=step)
        for group, requests in zip(groups, asked, strict=True)
    ]


def output_length(episode: Episode, turn: int) -> int:
    """Number of output tokens of a turn.

    Raises:
        ConfigError: if the episode has no tokens.
    """
    ids = episode.turns[turn].output_ids
    if ids is None:
        raise ConfigError(f"episode of {episode.task} holds no token ids; play it with a model that returns them")
    return len(ids)


def _ask(scorer: Scorer | None, requests: list[ScoreRequest]) -> list[TurnScores | None]:
    if not requests:
        return []
    if scorer is None:
        raise ConfigError("this credit method needs log-probabilities of the policy; pass a scorer")
    answers = scorer.score(requests)
    if len(answers) != len(requests):
        raise EngineError(f"the scorer answered {len(answers)} of {len(requests)} requests; it must answer each")
    for request, answer in zip(requests, answers, strict=True):
        if answer is None:
            continue
        wanted = [(output_length(request.episode, turn),) for turn in range(len(request.episode.turns))]
        if [scores.shape for scores in answer] != wanted or not all(np.isfinite(scores).all() for scores in answer):
            raise EngineError(
                f"the scorer's log-probabilities for {request.episode.task} are not one finite number per output "
                "token; check the policy for overflow and that the episode belongs to it"
            )
    return answers
