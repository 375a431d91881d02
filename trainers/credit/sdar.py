"""SDAR: beside GRPO, every sampled token is pulled up, the more the likelier an informed copy of the policy finds it.

With gap Δ between the log-probability of the teacher, which reads a success of the same group, and the policy's, the
loss gains ``coef`` times the mean of σ(``beta``·Δ)·Δ over tokens; the gate σ carries no gradient, so a token is pushed
up by ``coef``·σ(``beta``·Δ), never down. The teacher is the policy before the update, asked once an iteration. Source:
arXiv 2605.15155, where the teacher reads a collection of skills ahead of the whole prompt
(``peer_place="before_prompt"``). The released runs have ``coef`` 0.01 and ``beta`` 5, which are the defaults here; the
paper has 0.1 and 10.

An episode without another success in its group (no success, the only one, a group of one) and one whose hint does not
fit have GRPO's loss alone; when all succeed, each reads another. Groups may differ in size; action spans, state keys
and snapshots are not read.

Invariant: advantages are GRPO's bit for bit, and with ``coef=0`` so is the loss, and nothing is asked of the policy.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from agentgym.episode import Group

from .base import Credit, CreditMethod, ScoreRequest, TurnScores
from .grpo import GrpoOptions, group_stats, turn_advantages, turn_table
from .peer import PeerOptions, peer_coverage, peer_hints
from .pooled import count
from .token_loss import GatedLoss


class GatedOptions(PeerOptions, GrpoOptions):
    """Options of a gated loss beside GRPO's.

    Attributes:
        coef: factor on the loss.
    """

    coef: float = Field(default=0.01, ge=0)


class SdarOptions(GatedOptions):
    """Options of SDAR; the others are those of the peer that the teacher reads, and GRPO's.

    Attributes:
        coef: factor on the loss. Released: 0.01; paper: 0.1.
        beta: steepness of the gate. Released: 5; paper: 10.
    """

    coef: float = Field(default=0.01, ge=0)
    beta: float = Field(default=5.0, ge=0)


class Gated(CreditMethod):
    """GRPO's advantages, and a gated loss towards the policy that reads a peer.

    Args:
        options: the options.
        beta: steepness of the gate.
    """

    def __init__(self, options: GatedOptions, beta: float) -> None:
        self.options = options
        self.beta = beta

    @property
    def token_loss(self) -> GatedLoss | None:
        """The gated loss; None at coefficient 0."""
        return GatedLoss(self.options.coef, self.beta) if self.options.coef > 0 else None

    def requests(self, group: Group, *, step: int = 0) -> list[ScoreRequest]:
        """For each episode with another success: the informed prompts."""
        hints = peer_hints(group, self.options) if self.options.coef > 0 else {}
        return [ScoreRequest(group.episodes[index], hint) for index, hint in hints.items()]

    def assign(self, group: Group, scores: Sequence[TurnScores | None], *, step: int = 0) -> Credit:
        """GRPO's rows; the teacher's log-probabilities are the targets of the loss."""
        judged = list(peer_hints(group, self.options)) if self.options.coef > 0 else []
        pairs = zip(judged, scores, strict=True)
        targets = {index: answer for index, answer in pairs if answer is not None}
        stats = group_stats(group, self.options)
        stats |= {"peer/coverage": peer_coverage(group, judged), "peer/overflow": count(len(judged) - len(targets))}
        return Credit(turn_table(group, turn_advantages(group, self.options)), stats, targets=targets)


class Sdar(Gated):
    """GRPO, and a pull on each token that grows with the teacher's liking."""

    def __init__(self, options: SdarOptions | None = None) -> None:
        options = options or SdarOptions()
        super().__init__(options, options.beta)
