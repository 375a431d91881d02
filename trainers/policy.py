"""A causal language model as a policy: log-probabilities of stored ids, fp32, under temperature and restriction.

Invariant: sampler and trainer mean the same distribution. With one set of weights, `Policy.logprobs` of a sampled id is
what the engine reported when it drew it, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from agentgym.agents.engines import resolve_checkpoint
from agentgym.agents.engines.card import PlaySettings, read_settings, write_card
from agentgym.agents.engines.transformers import TransformersEngine, quiet

from .batch import Row, micro_batches
from .forward import Predictions, abilities
from .lora import has_lora, plain_state

Precision = Literal["fp32", "bf16"]


class Scores(NamedTuple):
    """Log-probabilities of the sampled ids of some rows, row after row.

    Attributes:
        logprobs: fp32 [S], in nats.
        entropy: fp32 [S], of the distribution at each position, in nats.
    """

    logprobs: Tensor
    entropy: Tensor


class Policy:
    """A model, its tokenizer and how it is played.

    Args:
        engine: the model with its tokenizer; the policy trains the engine's own weights.
        settings: prompts, style and sampling.
        precision: of the arithmetic in scoring and training; weights, log-probabilities and losses are fp32 in both.
    """

    def __init__(self, engine: TransformersEngine, settings: PlaySettings, precision: Precision = "fp32") -> None:
        self.engine = engine
        self.settings = settings
        self.precision: Precision = precision

    @classmethod
    def load(
        cls,
        name: str,
        *,
        overrides: dict[str, object] | None = None,
        device: str = "auto",
        precision: Precision = "fp32",
    ) -> Policy:
        """Loads a checkpoint by path or ``builtin:NAME``.

        Raises:
            UnknownNameError, DataError, ConfigError: see `resolve_checkpoint` and `read_settings`.
        """
        path = resolve_checkpoint(name)
        settings = read_settings(path, overrides or {})
        # Steps of a usual size would be rounded away in shorter numbers.
        engine = TransformersEngine.from_pretrained(path, name=f"hf/{name}", device=device, dtype=torch.float32)
        return cls(engine, settings, precision)

    @property
    def model(self) -> PreTrainedModel:
        """The weights."""
        return self.engine.model

    def autocast(self) -> torch.autocast:
        """The context for forward passes in the policy's precision."""
        return torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.precision == "bf16")

    def save(self, path: Path) -> None:
        """Writes weights (safetensors), tokenizer and card into a folder."""
        model = self.frozen_copy() if has_lora(self.model) else self.model
        with quiet():
            model.save_pretrained(path, safe_serialization=True)
        self.engine.tokenizer.save_pretrained(path)
        write_card(path, self.settings)
        for file in path.iterdir():
            file.chmod(0o644)  # the library writes weights that nobody else may read

    def frozen_copy(self) -> PreTrainedModel:
        """A copy of the present weights that no update reaches."""
        copy: Any = AutoModelForCausalLM.from_config(self.model.config)
        copy.load_state_dict(plain_state(self.model))
        copy.generation_config = self.model.generation_config
        copy.to(device=self.model.device, dtype=self.model.dtype).eval()
        frozen: PreTrainedModel = copy.requires_grad_(False)
        return frozen


def row_logprobs(model: PreTrainedModel, rows: Sequence[Row], *, entropy_gradient: bool = False) -> Scores:
    """Log-probabilities of the sampled ids of some rows in one forward pass.

    Args:
        model: the model, in whatever mode and gradient context the caller wants.
        rows: rows of one temperature, S sampled ids in all.
        entropy_gradient: whether the entropy carries a gradient, too.
    """
    chosen = _sampled(model, rows)

    def read(logp: Tensor, start: int, stop: int) -> tuple[Tensor, Tensor]:
        picked = logp.gather(1, chosen[start:stop, None])[:, 0]
        with torch.set_grad_enabled(torch.is_grad_enabled() and entropy_gradient):
            entropy = -(logp.exp() * logp.masked_fill(logp == float("-inf"), 0.0)).sum(-1)
        return picked, entropy

    logprobs, entropy = Predictions(model, rows).read(read)
    return Scores(logprobs, entropy)


def _sampled(model: PreTrainedModel, rows: Sequence[Row]) -> Tensor:
    return torch.from_numpy(np.concatenate([row.sampled for row in rows])).to(model.device)


@torch.no_grad()
def score_rows(model: PreTrainedModel, rows: Sequence[Row], most_tokens: int) -> list[Tensor]:
    """Log-probabilities of the sampled ids of any number of rows, without gradient.

    Args:
        model: the model; it is put into evaluation mode.
        rows: the rows, all of one temperature.
        most_tokens: most tokens in one forward pass.

    Returns:
        fp32 [T] for each row, on the CPU.
    """

    def measure(batch: Sequence[Row]) -> Tensor:
        chosen = _sampled(model, batch)

        def read(logp: Tensor, start: int, stop: int) -> tuple[Tensor]:
            return (logp.gather(1, chosen[start:stop, None])[:, 0],)

        return Predictions(model, batch).read(read)[0]

    return _by_row(model, rows, most_tokens, measure)


@torch.no_grad()
def entropy_rows(model: PreTrainedModel, rows: Sequence[Row], most_tokens: int, top: int) -> list[Tensor]:
    """The entropy at each sampled id, in nats, of the ``top`` most probable ids alone; otherwise as `score_rows`."""

    def read(logp: Tensor, start: int, stop: int) -> tuple[Tensor]:
        kept = logp.topk(min(top, logp.shape[-1]), dim=-1).values
        return (-(kept.exp() * kept.masked_fill(kept == float("-inf"), 0.0)).sum(-1),)

    return _by_row(model, rows, most_tokens, lambda batch: Predictions(model, batch).read(read)[0])


def _by_row(
    model: PreTrainedModel, rows: Sequence[Row], most_tokens: int, measure: Callable[[list[Row]], Tensor]
) -> list[Tensor]:
    model.eval()
    found: list[Tensor] = [torch.empty(0)] * len(rows)
    for batch in micro_batches([len(row.ids) for row in rows], most_tokens, padded=not abilities(model).packs):
        values = measure([rows[number] for number in batch]).cpu()
        for number, part in zip(batch, values.split([len(rows[n].positions) for n in batch]), strict=True):
            found[number] = part
    return found
