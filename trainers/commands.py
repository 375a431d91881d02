"""What the command line runs: `agentgym train` and `agentgym policy`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentgym import registry
from agentgym.agents.engines.card import read_settings
from agentgym.errors import ConfigError
from agentgym.runs import RunFolder

from .config import check, read_recipe, read_tree
from .init import ModelConfig
from .sft import SftRecipe, fresh_policy, warm_start
from .trainer import Trainer


def train(recipe_file: Path, out: Path, overrides: Sequence[str], export: Path | None = None) -> Path:
    """Trains as a recipe says, or goes on with a run that was interrupted.

    Args:
        recipe_file: the TOML file.
        out: the run directory.
        overrides: ``table.key=value``.
        export: where a copy of the trained policy goes, without the optimiser; None for nowhere.

    Returns:
        The folder of the last checkpoint.

    Raises:
        AgentGymError: for a bad recipe, missing data, or a directory of another run.
    """
    recipe = read_recipe(recipe_file, overrides)
    panel = registry.panel(recipe.env.name, recipe.env.split, recipe.env.data or None)
    identity = {
        "command": "train",
        "recipe": recipe.model_dump(mode="json"),
        "panel": {"hash": panel.hash, "tasks": len(panel)},
    }
    with RunFolder.open(out, identity):
        trainer = Trainer(recipe, out)
        final = trainer.run()
        if export is not None:
            trainer.policy.save(export)
        return final


def policy_init(env: str, split: str | None, out: Path, overrides: Sequence[str]) -> int:
    """Writes a fresh small policy with a tokenizer of its own.

    Returns:
        Number of parameters.

    Raises:
        ConfigError: if ``out`` is in use or a size is out of range.
        UnknownNameError: for an unknown environment, split or key.
    """
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} is not empty; choose another --out")
    tree = read_tree(None, overrides)
    play = {"prompts": "compact", "style": "append", **tree.pop("play", {})}
    config = check(ModelConfig, tree.get("model", {}), Path("--set"))
    chosen = split or registry.spec(env).default_split
    policy = fresh_policy(env, chosen, config, read_settings(None, play))
    out.mkdir(parents=True, exist_ok=True)
    policy.save(out)
    return sum(parameter.numel() for parameter in policy.model.parameters())


def policy_sft(recipe_file: Path, out: Path, overrides: Sequence[str]) -> dict[str, float]:
    """Warm-starts a policy by imitation as a recipe says; see `agentgym.trainers.sft.warm_start`."""
    return warm_start(check(SftRecipe, read_tree(recipe_file, overrides), recipe_file), out)
