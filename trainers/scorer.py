"""The policy, or its teacher, as a judge of stored outputs, in the contexts that were played or with a hint put in.

Invariant: one renderer for student and teacher. Without a hint the contexts are the recorded ids; with an empty hint
the rebuilt prompts are the same ids, so that the two scores differ by rounding at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel

from agentgym.agents.prompts import PromptBuilder
from agentgym.episode import Episode, Group
from agentgym.errors import ConfigError

from .batch import Row, episode_rows
from .credit.base import ScoreRequest, TurnScores
from .policy import Policy, entropy_rows, score_rows


class PolicyScorer:
    """Scores episodes with a policy.

    Args:
        policy: the policy; its weights are read when `score` is called.
        most_tokens: most tokens in one forward pass (or one row).
        teacher: the weights of requests that name the teacher; read when `score` is called, too.

    Attributes:
        tokens: tokens that were read so far.
        hints: requests with a hint.
        shortened: those of them whose hint only fitted in a shorter form.
        overflows: requests that did not fit at all.
    """

    def __init__(self, policy: Policy, most_tokens: int, teacher: PreTrainedModel | None = None) -> None:
        self._policy = policy
        self._teacher = teacher
        self._most_tokens = most_tokens
        settings = policy.settings
        self._builder = PromptBuilder(policy.engine.encoder, settings.prompts, settings.style, settings.history)
        self.tokens = 0
        self.hints = 0
        self.shortened = 0
        self.overflows = 0

    def rows(self, request: ScoreRequest) -> list[Row] | None:
        """The rows of a request, with its hint in the fullest form that fits; None if the context is too short."""
        return self._fit(request)[1]

    def claim(self, request: ScoreRequest) -> list[Row] | None:
        """The same for rows that are read elsewhere, so that the hint is counted here."""
        return self._count(request, self._fit(request))[1]

    def _count(
        self, request: ScoreRequest, fitted: tuple[int | None, list[Row] | None]
    ) -> tuple[int | None, list[Row] | None]:
        self.hints += request.hint is not None
        self.shortened += bool(fitted[0])
        self.overflows += fitted[1] is None
        return fitted

    def _fit(self, request: ScoreRequest) -> tuple[int | None, list[Row] | None]:
        """The number of the hint's form, and the rows."""
        hint, encoder = request.hint, self._policy.engine.encoder
        if hint is None:
            return None, self._rows(request.episode)
        found: dict[str, list[Row]] = {}

        def fits(form: str) -> bool:
            rows = self._rows(request.episode, self._builder.rebuild(request.episode, form, hint.place))
            if rows is not None:
                found[form] = rows
            return rows is not None

        number = hint.fullest(encoder, fits)
        return number, None if number is None else found[hint.forms[number]]

    def _rows(self, episode: Episode, prompts: Sequence[tuple[int, ...]] | None = None) -> list[Row] | None:
        rows = episode_rows(episode, self._policy.engine.choices, prompts)
        return rows if all(len(row.ids) <= self._policy.engine.context_length for row in rows) else None

    def _weights(self, request: ScoreRequest) -> PreTrainedModel:
        if request.weights == "policy":
            return self._policy.model
        if self._teacher is None:
            raise ConfigError("this credit method has a teacher with weights of its own; give the scorer a teacher")
        return self._teacher

    def score(self, requests: Sequence[ScoreRequest], model: PreTrainedModel | None = None) -> list[TurnScores | None]:
        """Log-probabilities of the stored ids, by request and turn.

        Args:
            requests: what is wanted.
            model: other weights than those that the requests name, such as a reference.

        Raises:
            ConfigError: if a request names a teacher and there is none.
        """
        fitted = [self._count(request, self._fit(request)) for request in requests]
        models = [model or self._weights(request) for request in requests]
        found: list[TurnScores | None] = [None] * len(requests)
        for weights in dict.fromkeys(models):
            answered = [(i, rows) for i, (_, rows) in enumerate(fitted) if rows is not None and models[i] is weights]
            flat = [row for _, rows in answered for row in rows]
            self.tokens += sum(len(row.ids) for row in flat)
            with self._policy.autocast():
                scores = iter(score_rows(weights, flat, self._most_tokens))
            for i, rows in answered:
                found[i] = _by_turn(requests[i].episode, [next(scores).numpy() for _ in rows])
        return found

    def entropies(self, group: Group, top: int) -> list[TurnScores | None]:
        """How uncertain the policy was at each token, by position and turn, in nats; None for broken episodes.

        Args:
            group: the episodes.
            top: how many of the most probable ids count.
        """
        found: list[TurnScores | None] = []
        for episode in group.episodes:
            rows = self._rows(episode) if episode.completed else None
            if rows is None:
                found.append(None)
                continue
            self.tokens += sum(len(row.ids) for row in rows)
            with self._policy.autocast():
                values = entropy_rows(self._policy.model, rows, self._most_tokens, top)
            found.append(_by_turn(episode, [part.numpy() for part in values]))
        return found


def _by_turn(episode: Episode, by_row: Sequence[NDArray[np.float32]]) -> TurnScores:
    values = np.concatenate(by_row) if by_row else np.zeros(0, dtype=np.float32)
    lengths = [len(turn.output_ids or ()) for turn in episode.turns]
    return np.split(values, np.cumsum(lengths)[:-1])
