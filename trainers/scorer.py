"""The policy as a judge of stored outputs, in the contexts that were played or with a hint put in.

Invariant: one renderer for student and teacher. Without a hint the contexts are the recorded ids; with an empty hint
the rebuilt prompts are the same ids, so that the two scores differ by rounding at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedModel

from agentgym.agents.prompts import PromptBuilder

from .batch import Row, episode_rows
from .credit.base import ScoreRequest, TurnScores
from .policy import Policy, score_rows


class PolicyScorer:
    """Scores episodes with a policy.

    Args:
        policy: the policy; its weights are read when `score` is called.
        most_tokens: most padded tokens in one forward pass.

    Attributes:
        tokens: tokens that were read so far.
        overflows: requests whose hint did not fit into the context.
    """

    def __init__(self, policy: Policy, most_tokens: int) -> None:
        self._policy = policy
        self._most_tokens = most_tokens
        settings = policy.settings
        self._builder = PromptBuilder(policy.engine.encoder, settings.prompts, settings.style, settings.history)
        self.tokens = 0
        self.overflows = 0

    def rows(self, request: ScoreRequest) -> list[Row] | None:
        """The rows of a request; None if they do not fit into the context."""
        prompts = None if request.hint is None else self._builder.rebuild(request.episode, request.hint)
        rows = episode_rows(request.episode, self._policy.engine.choices, prompts)
        return rows if all(len(row.ids) <= self._policy.engine.context_length for row in rows) else None

    def score(self, requests: Sequence[ScoreRequest], model: PreTrainedModel | None = None) -> list[TurnScores | None]:
        """Log-probabilities of the stored ids, by request and turn.

        Args:
            requests: what is wanted.
            model: other weights than the policy's, such as a reference.
        """
        parts = [self.rows(request) for request in requests]
        self.overflows += sum(part is None for part in parts)
        flat = [row for part in parts if part is not None for row in part]
        self.tokens += sum(len(row.ids) for row in flat)
        scores = iter(score_rows(model or self._policy.model, flat, self._most_tokens))
        found: list[TurnScores | None] = []
        for request, part in zip(requests, parts, strict=True):
            if part is None:
                found.append(None)
                continue
            values = np.concatenate([next(scores).numpy() for _ in part]) if part else np.zeros(0, dtype=np.float32)
            lengths = [len(turn.output_ids or ()) for turn in request.episode.turns]
            found.append(np.split(values, np.cumsum(lengths)[:-1]))
        return found
