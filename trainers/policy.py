"""A causal language model as a policy: log-probabilities of stored ids, fp32, under temperature and restriction.

Invariant: sampler and trainer mean the same distribution. With one set of weights, `Policy.logprobs` of a sampled id is
what the engine reported when it drew it, up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from agentgym.agents.engines import resolve_checkpoint
from agentgym.agents.engines.card import PlaySettings, read_settings, write_card
from agentgym.agents.engines.transformers import TransformersEngine, quiet

from .batch import Row, micro_batches, pad


class Scores(NamedTuple):
    """Log-probabilities of the sampled ids of some rows.

    Attributes:
        logprobs: fp32 [N, T], in nats; 0 where ``mask`` is False.
        entropy: fp32 [N, T], of the distribution at each position, in nats, without gradient.
        mask: bool [N, T], True on sampled ids.
    """

    logprobs: Tensor
    entropy: Tensor
    mask: Tensor


class Policy:
    """A model, its tokenizer and how it is played.

    Args:
        engine: the model with its tokenizer; the policy trains the engine's own weights.
        settings: prompts, style and sampling.
    """

    def __init__(self, engine: TransformersEngine, settings: PlaySettings) -> None:
        self.engine = engine
        self.settings = settings

    @classmethod
    def load(cls, name: str, *, overrides: dict[str, object] | None = None, device: str = "auto") -> Policy:
        """Loads a checkpoint by path or ``builtin:NAME``.

        Raises:
            UnknownNameError, DataError, ConfigError: see `resolve_checkpoint` and `read_settings`.
        """
        path = resolve_checkpoint(name)
        settings = read_settings(path, overrides or {})
        # Steps of a usual size would be rounded away in shorter numbers.
        engine = TransformersEngine.from_pretrained(path, name=f"hf/{name}", device=device, dtype=torch.float32)
        return cls(engine, settings)

    @property
    def model(self) -> PreTrainedModel:
        """The weights."""
        return self.engine.model

    def save(self, path: Path) -> None:
        """Writes weights (safetensors), tokenizer and card into a folder."""
        with quiet():
            self.model.save_pretrained(path, safe_serialization=True)
        self.engine.tokenizer.save_pretrained(path)
        write_card(path, self.settings)
        for file in path.iterdir():
            file.chmod(0o644)  # the library writes weights that nobody else may read

    def frozen_copy(self) -> PreTrainedModel:
        """A copy of the present weights that no update reaches."""
        copy: Any = AutoModelForCausalLM.from_config(self.model.config)
        copy.load_state_dict(self.model.state_dict())
        copy.to(device=self.model.device, dtype=self.model.dtype).eval()
        frozen: PreTrainedModel = copy.requires_grad_(False)
        return frozen


def row_logprobs(model: PreTrainedModel, rows: Sequence[Row]) -> Scores:
    """Log-probabilities of the sampled ids of some rows in one forward pass.

    Args:
        model: the model, in whatever mode and gradient context the caller wants.
        rows: N rows of one temperature; T is the most sampled ids in one of them.
    """
    device = model.device
    ids = pad([row.ids for row in rows]).to(device)
    # No mask: padding stands on the right, where a causal model cannot see it, and without one attention is faster.
    logits = model(input_ids=ids, use_cache=False).logits
    row_of = torch.tensor(np.repeat(np.arange(len(rows)), [len(row.positions) for row in rows]), device=device)
    before = torch.tensor(np.concatenate([row.positions for row in rows]) - 1, device=device)
    chosen = torch.tensor(np.concatenate([row.sampled for row in rows]), device=device)
    # Only the logits that predict a sampled id are turned into probabilities: [all sampled ids, vocabulary].
    scaled = logits[row_of, before].float() / rows[0].temperature
    closed = _closed(rows, scaled)
    if closed is not None:
        scaled = scaled.masked_fill(closed, float("-inf"))
    logp = torch.log_softmax(scaled, dim=-1)
    picked = logp.gather(1, chosen[:, None])[:, 0]
    with torch.no_grad():
        entropy = -(logp.exp() * logp.masked_fill(logp == float("-inf"), 0.0)).sum(-1)
    widths = [len(row.positions) for row in rows]
    mask = torch.arange(max(widths), device=device) < torch.tensor(widths, device=device)[:, None]
    zeros = torch.zeros(mask.shape, dtype=torch.float32, device=device)
    return Scores(zeros.masked_scatter(mask, picked), zeros.masked_scatter(mask, entropy), mask)


def _closed(rows: Sequence[Row], like: Tensor) -> Tensor | None:
    """True where the restriction forbids an id, [all sampled ids, vocabulary]; None if no row is restricted."""
    if all(row.allowed is None for row in rows):
        return None
    closed = torch.ones(like.shape, dtype=torch.bool)
    number = 0
    for row in rows:
        for allowed in row.allowed if row.allowed is not None else [range(like.shape[1])] * len(row.positions):
            closed[number, list(allowed)] = False
            number += 1
    return closed.to(like.device)


@torch.no_grad()
def score_rows(model: PreTrainedModel, rows: Sequence[Row], most_tokens: int) -> list[Tensor]:
    """Log-probabilities of the sampled ids of any number of rows, without gradient.

    Args:
        model: the model; it is put into evaluation mode.
        rows: the rows, all of one temperature.
        most_tokens: most padded tokens in one forward pass.

    Returns:
        fp32 [T] for each row, on the CPU.
    """
    model.eval()
    found: list[Tensor] = [torch.empty(0)] * len(rows)
    for batch in micro_batches([len(row.ids) for row in rows], most_tokens):
        scores = row_logprobs(model, [rows[number] for number in batch])
        for number, values, mask in zip(batch, scores.logprobs, scores.mask, strict=True):
            found[number] = values[mask].cpu()
    return found
