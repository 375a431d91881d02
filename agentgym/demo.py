"""The main job in one command: evaluate three agents, train a small policy with SHARPO, evaluate it again.

Every stage is a run directory of its own, so the same command goes on where it was stopped, and any stage can be
looked at, compared or repeated with the command that the demo prints.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from rich.console import Console
from rich.table import Table

from .errors import DataError
from .evaluate import evaluate
from .summary import Summary

ENV = "alfworld"
SPLIT = "generated_valid"
MODEL = "builtin:alfworld-small"
RECIPE = "alfworld_sharpo_small.toml"


def recipe_path(name: str) -> Path:
    """A recipe that comes with the package, wherever it was installed.

    Raises:
        DataError: if it is not there.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "recipes", package.parent / "recipes"):
        if (folder / name).is_file():
            return folder / name
    raise DataError(f"recipe {name} is missing from this installation; install agentgym-harness again")


def demo(out: Path, repeats: int = 2) -> list[tuple[str, Summary]]:
    """Runs the demo in folders below ``out``.

    Args:
        out: where the run directories go.
        repeats: episodes of each task in each evaluation.

    Returns:
        What was evaluated, with its summary.

    Raises:
        AgentGymError: if something that the demo needs is not installed, or ``out`` belongs to something else.
    """
    console = Console()
    recipe = recipe_path(RECIPE)
    trained = f"hf/{out / 'policy'}"
    rows: list[tuple[str, Summary]] = []

    def step(label: str, agent: str, model: str | None, folder: str) -> None:
        option = f" --model {model}" if model else ""
        console.print(
            f"[dim]$ agentgym eval {ENV} --agent {agent}{option} --split {SPLIT} --repeats {repeats} "
            f"--out {out / folder}[/dim]",
            soft_wrap=True,
            highlight=False,
        )
        rows.append((label, evaluate(ENV, agent, model=model, split=SPLIT, repeats=repeats, out=out / folder)))

    step("random", "random", None, "eval-random")
    step("expert, who sees the whole state", "expert", None, "eval-expert")
    step("seeker, who sees what it meets", "seeker", None, "eval-seeker")
    step("small policy", "llm", f"hf/{MODEL}", "eval-before")
    console.print(f"[dim]$ agentgym train {recipe.name} --out {out / 'train'}[/dim]", soft_wrap=True, highlight=False)
    commands = importlib.import_module("agentgym.trainers.commands")
    commands.train(recipe, out / "train", (), export=out / "policy")
    step("small policy, after SHARPO", "llm", trained, "eval-after")
    return rows


def table(rows: list[tuple[str, Summary]]) -> Table:
    """One row for each agent: success with its interval, and the length of an episode."""
    first = rows[0][1]
    panel = f"{first.overall.tasks} games x {first.repeats} of {first.environment}/{first.split}"
    grid = Table(title=f"{panel} (panel {first.panel[:12]})")
    grid.add_column("agent")
    for name in ("success", f"{first.confidence:.0%} interval", "steps"):
        grid.add_column(name, justify="right")
    for label, summary in rows:
        row = summary.overall
        grid.add_row(
            label,
            _percent(row.success_rate),
            f"{100 * row.interval[0]:.1f} - {100 * row.interval[1]:.1f}",
            "-" if row.mean_steps is None else f"{row.mean_steps:.1f}",
        )
    return grid


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f}%"
