"""One iteration's gradient steps: rows with advantages in, a changed policy and some numbers out.

Invariant: a loss is a weighted sum over the tokens of a whole optimiser batch, so it does not depend on how the batch
is cut into forward passes; only sampled ids carry a loss, and an output that was cut off mid-way carries none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from agentgym.seeding import Seed

from .batch import Row, micro_batches
from .config import UpdateSection
from .loss import clipped_loss, clipped_tokens, kl_penalty, token_weights, truncated_importance
from .policy import Policy, row_logprobs


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
    """

    row: Row
    episode: int
    advantages: Tensor
    old: Tensor
    sampler: Tensor
    ref: Tensor | None
    mask: Tensor


def update(
    policy: Policy, optimiser: torch.optim.Optimizer, rows: Sequence[TrainRow], config: UpdateSection, seed: Seed
) -> dict[str, float]:
    """Trains on an iteration's rows.

    Args:
        policy: the policy; its engine forgets kept prefixes afterwards.
        optimiser: its optimiser.
        rows: the rows.
        config: loss and optimiser settings.
        seed: fixes how rows are dealt out over optimiser steps.

    Returns:
        Means over all tokens and steps: loss, kl, entropy, clip fraction, gradient norm; the largest deviation of the
        ratio from 1 in the first forward pass, which is before any change; and the steps that were skipped because
        every advantage of their rows was 0.
    """
    sums: dict[str, float] = {}
    norms: list[float] = []
    first = math.nan
    skipped = 0
    policy.model.eval()  # dropout would make the policy that is trained another one than the policy that acted
    for epoch in range(config.epochs):
        order = seed.child("epoch", epoch).generator().permutation(len(rows))
        for part in np.array_split(order, min(config.minibatches, len(rows))):
            batch = [rows[int(number)] for number in part]
            if not any(bool((item.advantages != 0).any()) for item in batch):
                # Nothing to learn. Adam would blow the rounding of the divergence's gradient up to a full step.
                skipped += 1
                continue
            weights = _weights(batch, config)
            optimiser.zero_grad(set_to_none=True)
            active = [i for i, item in enumerate(batch) if item.ref is not None or bool((item.advantages != 0).any())]
            lengths = [len(batch[i].row.ids) for i in active]
            for micro in micro_batches(lengths, config.most_tokens):
                chosen = [active[i] for i in micro]
                numbers = _backward(policy, [batch[i] for i in chosen], [weights[i] for i in chosen], config)
                if math.isnan(first):
                    first = numbers["ratio_error"]
                for name, value in numbers.items():
                    sums[name] = sums.get(name, 0.0) + value
            norm = torch.nn.utils.clip_grad_norm_(policy.model.parameters(), config.grad_clip)
            norms.append(float(norm))
            optimiser.step()
    policy.engine.forget()
    tokens = max(1.0, sums.get("tokens", 0.0))
    steps = max(1, len(norms))
    return {
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


def _weights(batch: Sequence[TrainRow], config: UpdateSection) -> list[Tensor]:
    """The weight of each sampled id in the batch's loss, fp32 [T] for each row."""
    # One long row: the weights depend on which tokens belong together, not on the layout.
    mask = torch.cat([item.mask for item in batch])[None]
    episode = torch.cat([torch.full(item.mask.shape, item.episode) for item in batch])
    turn = torch.cat([torch.from_numpy(item.row.turns) for item in batch])
    turn_number = torch.unique(torch.stack([episode, turn]), dim=1, return_inverse=True)[1]
    weights = token_weights(config.aggregation, mask, episode[None], turn_number[None], max_tokens=config.norm_tokens)
    return list(torch.split(weights[0], [len(item.mask) for item in batch]))


def _backward(
    policy: Policy, items: Sequence[TrainRow], weights: Sequence[Tensor], config: UpdateSection
) -> dict[str, float]:
    """Adds the gradient of some rows; returns sums over their tokens."""
    device = policy.model.device
    scores = row_logprobs(policy.model, [item.row for item in items])
    mask = scores.mask

    def spread(values: Sequence[Tensor]) -> Tensor:
        flat = torch.cat(list(values)).to(device)
        return torch.zeros(mask.shape, dtype=flat.dtype, device=device).masked_scatter(mask, flat)

    old = spread([item.old for item in items])
    advantages = spread([item.advantages for item in items])
    weight = spread(list(weights))
    counted = weight > 0
    correction = truncated_importance(old, spread([item.sampler for item in items]), config.importance_cap)
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
        divergence = kl_penalty(scores.logprobs, spread(references), config.kl_kind)
        loss = loss + config.kl_coef * (divergence * weight).sum()
        ref_kl = (divergence.detach() * counted).sum()
    loss.backward()
    with torch.no_grad():
        log_ratio = (scores.logprobs - old) * counted
        clipped = clipped_tokens(scores.logprobs, old, advantages, clip_low=config.clip_low, clip_high=config.clip_high)
        return {
            "loss": float(loss),
            "tokens": float(counted.sum()),
            "policy_kl": float((log_ratio.exp() - 1 - log_ratio).sum()),
            "ref_kl": float(ref_kl),
            "entropy": float((scores.entropy * counted).sum()),
            "clipped": float((clipped & counted).sum()),
            "ratio_error": float((log_ratio.exp() - 1).abs().max()),
        }
