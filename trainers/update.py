"""One iteration's gradient steps: rows with advantages in, a changed policy and some numbers out.

Invariant: a loss is a weighted sum over the tokens of a whole optimiser batch, so it does not depend on how the batch
is cut into forward passes; only sampled ids carry a loss, and an output that was cut off mid-way carries none.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

from agentgym.errors import AgentGymError, ConfigError
from agentgym.seeding import Seed

from .batch import Row, micro_batches
from .config import UpdateSection
from .credit.token_loss import DivergenceLoss, GatedLoss, TokenLoss
from .distil import distil, gated_loss
from .forward import abilities, packed_attention
from .loss import clipped_loss, clipped_tokens, kl_penalty, token_weights, truncated_importance
from .policy import Policy, row_logprobs

DROPOUTS = ("attention_dropout", "attn_dropout", "attn_pdrop")
"""Names of configuration keys for dropout that is no module of its own."""


class NotFinite(AgentGymError):
    """A loss or a gradient is no number. The policy is as it was before the step.

    Attributes:
        batch: the rows of the step.
    """

    def __init__(self, batch: Sequence[TrainRow]) -> None:
        super().__init__("the loss or its gradient is not a finite number; lower update.lr or update.grad_clip")
        self.batch = batch

    def save(self, file: Path) -> None:
        """Writes the rows for inspection: for row n, ``n.ids``, ``n.positions``, ``n.advantages`` and so on."""
        tensors: dict[str, Tensor] = {}
        for number, item in enumerate(self.batch):
            arrays = {"ids": item.row.ids, "positions": item.row.positions, "turns": item.row.turns}
            values = {name: torch.from_numpy(array) for name, array in arrays.items()}
            values |= {"episode": torch.tensor(item.episode), "advantages": item.advantages, "mask": item.mask}
            values |= {"old": item.old, "sampler": item.sampler}
            optional = {"ref": item.ref, "teacher": item.teacher}
            values |= {name: value for name, value in optional.items() if value is not None}
            values |= {} if item.informed is None else {"informed_ids": torch.from_numpy(item.informed.ids)}
            tensors |= {f"{number}.{name}": value.clone() for name, value in values.items()}
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, file)


@dataclass(frozen=True, eq=False)
class TrainRow:
    """A row with what the loss needs; all tensors are fp32 [T] on the CPU.

    Attributes:
        row: the ids.
        episode: number of its episode in the iteration.
        advantages: of each sampled id.
        old: log-probability under the policy that generated, as the trainer computes it.
        sampler: the sampler's own.
        ref: under the reference policy; None without a divergence term.
        mask: bool [T], False on outputs that were cut off.
        teacher: under a teacher, for a gated loss; None without one.
        informed: the same outputs in a teacher's context, for a loss between distributions; None without one.
    """

    row: Row
    episode: int
    advantages: Tensor
    old: Tensor
    sampler: Tensor
    ref: Tensor | None
    mask: Tensor
    teacher: Tensor | None = None
    informed: Row | None = None

    @property
    def teaches(self) -> bool:
        """Whether the row has anything to learn from, the divergence from the reference aside."""
        told = self.teacher is not None or self.informed is not None
        return bool((self.mask & (told | (self.advantages != 0))).any())


def update(
    policy: Policy,
    optimiser: torch.optim.Optimizer,
    rows: Sequence[TrainRow],
    config: UpdateSection,
    seed: Seed,
    token_loss: TokenLoss | None = None,
    teacher: PreTrainedModel | None = None,
) -> dict[str, float]:
    """Trains on an iteration's rows.

    Args:
        policy: the policy; its engine forgets kept prefixes afterwards.
        optimiser: its optimiser.
        rows: the rows.
        config: loss and optimiser settings.
        seed: fixes how rows are dealt out over optimiser steps.
        token_loss: a loss beside the policy gradient, on the rows that have what it needs.
        teacher: the weights that read informed rows; None for the policy's own, as they are in each step.

    Raises:
        NotFinite: if a loss or gradient is no number.
        ConfigError: if activations cannot be made again for this model.

    Returns:
        Means over all tokens and steps: loss, kl, entropy, clip fraction, gradient norm; the largest deviation of the
        ratio from 1 in the first forward pass, which is before any change; the steps that were skipped because
        their rows taught nothing; with a token loss, its share of the loss, and the tokens that a teacher read.
    """
    sums: dict[str, float] = {}
    norms: list[float] = []
    first = math.nan
    skipped = 0
    with _mode(policy.model, config.gradient_checkpointing):
        for epoch in range(config.epochs):
            order = seed.child("epoch", epoch).generator().permutation(len(rows))
            for part in np.array_split(order, config.steps(len(rows))):
                batch = [rows[int(number)] for number in part]
                if not any(item.teaches for item in batch):
                    # Nothing to learn. Adam would blow the rounding of the divergence's gradient up to a full step.
                    skipped += 1
                    continue
                weights = _weights(batch, config)
                optimiser.zero_grad(set_to_none=True)
                active = [
                    i for i, item in enumerate(batch) if item.teaches or (item.ref is not None and item.mask.any())
                ]
                lengths = [len(batch[i].row.ids) for i in active]
                for micro in micro_batches(lengths, config.most_tokens, padded=not abilities(policy.model).packs):
                    chosen = [active[i] for i in micro]
                    numbers = _backward(
                        policy, [batch[i] for i in chosen], [weights[i] for i in chosen], config, token_loss
                    )
                    if math.isnan(first):
                        first = numbers["ratio_error"]
                    for name, value in numbers.items():
                        sums[name] = sums.get(name, 0.0) + value
                if isinstance(token_loss, DivergenceLoss):
                    with policy.autocast():
                        value, read = distil(
                            policy.model, teacher or policy.model, batch, weights, token_loss, config.most_tokens
                        )
                    for name, number in (("loss", value), ("token_loss", value), ("teacher_tokens", float(read))):
                        sums[name] = sums.get(name, 0.0) + number
                norm = float(torch.nn.utils.clip_grad_norm_(policy.model.parameters(), config.grad_clip))
                if not (math.isfinite(norm) and math.isfinite(sums.get("loss", 0.0))):
                    raise NotFinite(batch)
                norms.append(norm)
                optimiser.step()
    policy.engine.forget()
    tokens = max(1.0, sums.get("tokens", 0.0))
    steps = max(1, len(norms))
    found = {
        "update/loss": sums.get("loss", 0.0) / steps,
        "update/policy_kl": sums.get("policy_kl", 0.0) / tokens,
        "update/ref_kl": sums.get("ref_kl", 0.0) / tokens,
        "update/entropy": sums.get("entropy", 0.0) / tokens,
        "update/clip_fraction": sums.get("clipped", 0.0) / tokens,
        "update/grad_norm": sum(norms) / steps,
        "update/skipped_steps": float(skipped),
        "update/first_ratio_error": 0.0 if math.isnan(first) else first,
        "update/tokens": sums.get("tokens", 0.0),
    }
    if token_loss is not None:
        found["update/token_loss"] = sums.get("token_loss", 0.0) / steps
        found["update/teacher_tokens"] = sums.get("teacher_tokens", 0.0)
    return found


@contextmanager
def _mode(model: PreTrainedModel, gradient_checkpointing: bool) -> Iterator[None]:
    """How a model is trained; dropout would make it another policy than the one that acted."""
    if not gradient_checkpointing:
        model.eval()
        yield
        return
    config = model.config.to_dict()
    rates = [module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)]
    if any(rate > 0 for rate in [*rates, *(config.get(name) or 0.0 for name in DROPOUTS)]):
        raise ConfigError("update.gradient_checkpointing: this model would drop out while training; switch it off")
    attention = packed_attention(model) if abilities(model).packs else nullcontext()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # both are renamed in the course of transformers 5
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.train()  # only then does the library make activations again
        try:
            with attention:
                yield
        finally:
            model.eval()
            model.gradient_checkpointing_disable()


def _weights(batch: Sequence[TrainRow], config: UpdateSection) -> list[Tensor]:
    """The weight of each sampled id in the batch's loss, fp32 [T] for each row."""
    mask = torch.cat([item.mask for item in batch])
    episode = torch.cat([torch.full(item.mask.shape, item.episode) for item in batch])
    turn = torch.cat([torch.from_numpy(item.row.turns) for item in batch])
    turn_number = torch.unique(torch.stack([episode, turn]), dim=1, return_inverse=True)[1]
    weights = token_weights(config.aggregation, mask, episode, turn_number, max_tokens=config.norm_tokens)
    return list(torch.split(weights, [len(item.mask) for item in batch]))


def _backward(
    policy: Policy,
    items: Sequence[TrainRow],
    weights: Sequence[Tensor],
    config: UpdateSection,
    token_loss: TokenLoss | None,
) -> dict[str, float]:
    """Adds the gradient of some rows; returns sums over their tokens."""
    device = policy.model.device
    with policy.autocast():
        scores = row_logprobs(policy.model, [item.row for item in items], entropy_gradient=config.entropy_coef > 0)

    def join(values: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(values)).to(device)

    old = join([item.old for item in items])
    advantages = join([item.advantages for item in items])
    weight = join(list(weights))
    counted = weight > 0
    correction = truncated_importance(old, join([item.sampler for item in items]), config.importance_cap)
    surrogate = clipped_loss(
        scores.logprobs,
        old,
        advantages,
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        dual_clip=config.dual_clip,
    )
    loss = (surrogate * correction * weight).sum()
    ref_kl = torch.zeros((), device=device)
    references = [item.ref for item in items if item.ref is not None]
    if len(references) == len(items):
        divergence = kl_penalty(scores.logprobs, join(references), config.kl_kind)
        loss = loss + config.kl_coef * (divergence * weight).sum()
        ref_kl = (divergence.detach() * counted).sum()
    pull = torch.zeros((), device=device)
    if isinstance(token_loss, GatedLoss) and any(item.teacher is not None for item in items):
        told = join([item.old if item.teacher is None else item.teacher for item in items])
        judged = join([torch.full(item.old.shape, float(item.teacher is not None)) for item in items])
        pull = token_loss.coefficient * (gated_loss(scores.logprobs, told, token_loss) * judged * weight).sum()
        loss = loss + pull
    if config.entropy_coef > 0:
        loss = loss - config.entropy_coef * (scores.entropy * weight).sum()
    loss.backward()
    with torch.no_grad():
        log_ratio = (scores.logprobs - old) * counted
        clipped = clipped_tokens(scores.logprobs, old, advantages, clip_low=config.clip_low, clip_high=config.clip_high)
        return {
            "loss": float(loss),
            "token_loss": float(pull),
            "tokens": float(counted.sum()),
            "policy_kl": float((log_ratio.exp() - 1 - log_ratio).sum()),
            "ref_kl": float(ref_kl),
            "entropy": float((scores.entropy * counted).sum()),
            "clipped": float((clipped & counted).sum()),
            "ratio_error": float((log_ratio.exp() - 1).abs().max()),
        }
