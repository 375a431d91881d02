"""Recipes: what `agentgym train` reads. Every key is typed, documented and checked; an unknown one is an error.

A recipe is a TOML file with one table for each class below; ``--set table.key=value`` overrides single keys.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentgym.errors import ConfigError, DataError, UnknownNameError
from agentgym.options import literal, refuse_unread

from .credit import credit_options, list_credits
from .loss import Aggregation, KlKind


class Section(BaseModel):
    """A table of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class EnvSection(Section):
    """``[env]``: what is played.

    Attributes:
        name: environment.
        split: tasks to train on.
        eval_split: tasks to evaluate on.
        data: folder with data packs; empty for the built-in ones.
        max_steps: step limit.
        options: further options of the environment, a table of their own.
    """

    name: str
    split: str
    eval_split: str
    data: str = ""
    max_steps: int = Field(default=50, ge=1)
    options: dict[str, Any] = Field(default={})

    @property
    def made_with(self) -> dict[str, Any]:
        """What `agentgym.make` gets."""
        if "max_steps" in self.options:
            raise ConfigError("[env.options] holds max_steps, which is a key of [env]; move it there")
        return {**self.options, "max_steps": self.max_steps}


class LoraSection(Section):
    """``[policy.lora]``: low-rank adapters instead of all weights.

    Attributes:
        rank: of the update of each layer; 0 trains all weights.
        alpha: the update is multiplied by alpha / rank.
        layers: names of the linear layers that get one, such as ``["q_proj", "v_proj"]``; all but the vocabulary's if
            empty.
    """

    rank: int = Field(default=0, ge=0)
    alpha: float = Field(default=32.0, gt=0)
    layers: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _all_is_read(self) -> Self:
        for name in ("alpha", "layers"):
            refuse_unread(self, name, self.rank > 0, "a rank above 0")
        return self


class PolicySection(Section):
    """``[policy]``: what is trained.

    Attributes:
        model: folder written by ``save_pretrained``, or ``builtin:NAME``.
        device: torch device, or ``auto``.
        precision: of the arithmetic in scoring and training. Weights, log-probabilities and losses are fp32 in both;
            ``bf16`` makes sampler and trainer differ by some hundredths of a nat, which is corrected for and logged.
        settings: overrides of the checkpoint's card (prompts, style, temperature, …).
        lora: adapters.
    """

    model: str
    device: str = "auto"
    precision: Literal["fp32", "bf16"] = "fp32"
    settings: dict[str, Any] = Field(default={})
    lora: LoraSection = LoraSection()


class RolloutSection(Section):
    """``[rollout]``: what is played in one iteration.

    Attributes:
        tasks: tasks.
        group: episodes of each task.
        concurrency: most episodes in flight.
        sampler: ``policy`` samples with the very weights that are trained; ``vllm`` with a copy in vLLM, in this
            process, which takes the new weights after each update.
        vllm: settings of vLLM; see `agentgym.agents.engines.vllm.VllmSettings`.
    """

    tasks: int = Field(default=8, ge=1)
    group: int = Field(default=8, ge=1)
    concurrency: int = Field(default=64, ge=1)
    sampler: Literal["policy", "vllm"] = "policy"
    vllm: dict[str, Any] = Field(default={})

    @model_validator(mode="after")
    def _all_is_read(self) -> Self:
        refuse_unread(self, "vllm", self.sampler == "vllm", 'sampler = "vllm"')
        return self


class UpdateSection(Section):
    """``[update]``: the optimiser and the loss.

    Attributes:
        lr: learning rate of AdamW.
        warmup: optimiser steps over which it rises from 0; it changes between iterations, not within one.
        weight_decay: of AdamW.
        grad_clip: largest norm of the gradient.
        minibatches: optimiser steps per iteration; the iteration's rows are dealt out over them.
        minibatch_rows: rows of an optimiser step, instead of a number of steps; 0 for ``minibatches``.
        epochs: passes over the iteration's rows.
        most_tokens: most tokens in one forward pass; no result but rounding depends on it.
        gradient_checkpointing: makes the activations of a layer again in the backward pass instead of keeping them:
            less memory, a third more arithmetic.
        aggregation: see `agentgym.trainers.loss.token_weights`.
        norm_tokens: what the aggregation ``seq_mean_token_sum_norm`` divides by.
        clip_low: the ratio is cut at 1 - this.
        clip_high: the ratio is cut at 1 + this.
        dual_clip: bound of the loss where the advantage is negative.
        kl_coef: weight of the divergence from the initial policy; 0 leaves it out.
        kl_kind: its estimator.
        entropy_coef: weight of the mean entropy, which is subtracted from the loss.
        importance_cap: bound of the weight that corrects for the sampler's rounding.
    """

    lr: float = Field(default=1e-6, gt=0)
    warmup: int = Field(default=0, ge=0)
    weight_decay: float = Field(default=0.01, ge=0)
    grad_clip: float = Field(default=1.0, gt=0)
    minibatches: int = Field(default=1, ge=1)
    minibatch_rows: int = Field(default=0, ge=0)
    epochs: int = Field(default=1, ge=1)
    most_tokens: int = Field(default=16384, ge=1)
    gradient_checkpointing: bool = False
    aggregation: Aggregation = "token_mean"
    norm_tokens: int = Field(default=1024, ge=1)
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    clip_high: float = Field(default=0.2, gt=0)
    dual_clip: float = Field(default=3.0, gt=1)
    kl_coef: float = Field(default=0.01, ge=0)
    kl_kind: KlKind = "k3"
    entropy_coef: float = Field(default=0.0, ge=0)
    importance_cap: float = Field(default=2.0, gt=0)

    @model_validator(mode="after")
    def _one_size_of_step(self) -> Self:
        if self.minibatch_rows and self.minibatches > 1:
            raise ValueError("minibatches and minibatch_rows both say how large a step is; keep one")
        return self

    def steps(self, rows: int) -> int:
        """Optimiser steps in one pass over a number of rows."""
        return max(1, min(-(-rows // self.minibatch_rows) if self.minibatch_rows else self.minibatches, rows))


class EvalSection(Section):
    """``[eval]``: the fixed panel, played with fixed seeds.

    Attributes:
        every: iterations between two evaluations; the first is before any update, the last after the last one.
        limit: tasks, evenly spaced over the split; all if None.
        repeats: episodes of each task.
        temperature: instead of the policy's own.
    """

    every: int = Field(default=5, ge=1)
    limit: int | None = Field(default=None, ge=1)
    repeats: int = Field(default=1, ge=1)
    temperature: float | None = Field(default=None, ge=0)


class RunSection(Section):
    """``[run]``: how long, and what is kept.

    Attributes:
        iterations: rollout batches.
        seed: root of the seed tree.
        save_every: iterations between two checkpoints; what came after the last one is played again after an
            interruption, with the same result.
        keep: checkpoints that are kept, the newest ones.
        keep_best: whether the policy that did best on the fixed panel is kept, too, in ``checkpoints/best``: by score
            where that is the reward, by success otherwise.
    """

    iterations: int = Field(ge=1)
    seed: int = Field(default=0, ge=0)
    save_every: int = Field(default=1, ge=1)
    keep: int = Field(default=2, ge=1)
    keep_best: bool = False


class Recipe(Section):
    """A training run.

    Attributes:
        env: what is played.
        policy: what is trained.
        rollout: what is played in one iteration.
        credit: ``method`` and that method's options.
        update: the optimiser and the loss.
        eval: the fixed panel.
        run: how long.
    """

    env: EnvSection
    policy: PolicySection
    rollout: RolloutSection = RolloutSection()
    credit: dict[str, Any]
    update: UpdateSection = UpdateSection()
    eval: EvalSection = EvalSection()
    run: RunSection

    @property
    def method(self) -> str:
        """Name of the credit method."""
        return str(self.credit["method"])

    @property
    def credit_options(self) -> dict[str, Any]:
        """Options of the credit method."""
        return {key: value for key, value in self.credit.items() if key != "method"}


S = TypeVar("S", bound=Section)


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Reads a training recipe and checks it, the credit method's options included.

    Args:
        path: the TOML file.
        overrides: ``table.key=value``; values are written as in TOML, and bare words are text.

    Raises:
        DataError: if the file is missing or not TOML.
        UnknownNameError: for a key that does not exist.
        ConfigError: for a value out of range.
    """
    tree = read_tree(path, overrides)
    recipe = check(Recipe, tree, path)
    if "method" not in recipe.credit:
        raise ConfigError(f'{path}: [credit] names no method; add method = "NAME", one of {", ".join(list_credits())}')
    credit_options(recipe.method, recipe.credit_options)
    return recipe


def read_tree(path: Path | None, overrides: Sequence[str]) -> dict[str, Any]:
    """A TOML file (or nothing) as nested dictionaries, with dotted overrides put in.

    A file that begins with ``extends = "OTHER.toml"`` says only what it has otherwise than that file, which is looked
    for beside it: tables are joined key by key, but for ``[credit]`` where it names another method.

    Raises:
        DataError: if a file is missing, not TOML, or extends itself.
        ConfigError: for an override that is not a setting.
    """
    tree = {} if path is None else _read_toml(path)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not (key and equals):
            raise ConfigError(f"--set {override!r} is not a setting; write --set table.key=value")
        *tables, name = key.split(".")
        place = tree
        for table in tables:
            place = place.setdefault(table, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--set {key}: {table} is a value, not a table")
        place[name] = literal(text)
    return tree


def _read_toml(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); see the folder recipes/") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a TOML file ({error})") from error
    other = tree.pop("extends", None)
    if other is None:
        return tree
    if not isinstance(other, str):
        raise ConfigError(f'{path}: extends is not a file name; write extends = "OTHER.toml"')
    below = path.parent / other
    if below.resolve() in (file.resolve() for file in (*above, path)):
        raise DataError(f"{path}: extends {other}, which extends it; remove one of the two lines")
    merged = _read_toml(below, (*above, path))
    for key, value in tree.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict) and value.get("method") in (None, old.get("method")):
            value = {**old, **value}
        merged[key] = value
    return merged


def check(model: type[S], tree: Mapping[str, Any], path: Path) -> S:
    """Checks a tree against a section's types.

    Raises:
        UnknownNameError: for a key that does not exist.
        ConfigError: for a value that is missing or out of range.
    """
    try:
        return model.model_validate(dict(tree))
    except ValidationError as error:
        # A misspelt key also leaves the right one missing; the spelling is what helps.
        first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
        *tables, name = [str(part) for part in first["loc"]] or [""]
        if first["type"] == "extra_forbidden":
            owner: Any = model
            for table in tables:
                owner = owner.model_fields[table].annotation
            raise UnknownNameError(f"key in [{'.'.join(tables) or path.name}]", name, owner.model_fields) from error
        place = f"{'.'.join([*tables, name])}: " if first["loc"] else ""
        way_out = "; the folder recipes/ has examples" if first["type"] == "missing" else ""
        raise ConfigError(f"{path}: {place}{first['msg'].removeprefix('Value error, ')}{way_out}") from error
