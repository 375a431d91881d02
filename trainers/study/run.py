"""A study from its command line to its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentgym.errors import ConfigError, RunMismatchError
from agentgym.runs import IDENTITY, RunFolder, write_whole
from agentgym.trainers.commands import identify
from agentgym.trainers.config import Recipe

from .jobs import run_all
from .picture import draw
from .plan import Plan
from .reading import finished
from .report import Report, read_report
from .tables import markdown

PAGE, NUMBERS, PICTURE = "report.md", "report.json", "curves.png"


def study(
    recipes: Sequence[Path], out: Path, *, seeds: Sequence[int], jobs: int = 1, overrides: Sequence[str] = ()
) -> Report:
    """Trains each recipe with each seed, or goes on with what was interrupted, and compares them.

    More recipes, seeds or iterations may be asked for later, in the same folder: what is there is not trained again.

    Args:
        recipes: TOML files; the first is what the others are compared with.
        out: the study's folder; runs go to ``out/NAME/SEED``, the report to ``out/report.md``, ``out/report.json`` and
            ``out/curves.png``.
        seeds: roots of the seed trees.
        jobs: most training runs at a time, each a process with one thread.
        overrides: ``table.key=value``, for all recipes.

    Returns:
        The report. Runs that failed are in its ``failures``; a later call tries them again.

    Raises:
        AgentGymError: for bad recipes, missing data, or a folder of something else; nothing has begun then.
    """
    if jobs < 1:
        raise ConfigError(f"jobs is {jobs}; it must be 1 or more")
    if (out / IDENTITY).exists() or (out.exists() and not out.is_dir()):
        raise RunMismatchError(f"{out} is a run or a file, not a study; choose another --out")
    plan = Plan.of(recipes, seeds, out, overrides)
    _check(plan)
    owed = [run for run in plan.runs if not finished(run.folder, plan.points)]
    failures = run_all(plan.runs, owed, jobs) if owed else {}
    report = read_report(plan, failures)
    draw(report, out / PICTURE)
    write_whole(out / NUMBERS, report.to_json())
    write_whole(out / PAGE, markdown(report, PICTURE))
    return report


def _check(plan: Plan) -> None:
    """Says what is wrong with recipes and folders before hours are spent on them.

    Raises:
        AgentGymError: if anything is.
    """
    for name in plan.names:
        runs = plan.of_name(name)
        identity = identify(runs[0].recipe)  # hashes the weights, once for all seeds
        for run in runs:
            if (run.folder / IDENTITY).exists():
                RunFolder.open(run.folder, {**identity, "recipe": _settled(run.recipe, identity)}).close()


def _settled(recipe: Recipe, identity: dict[str, object]) -> object:
    """The recipe's part of an identity, with this recipe's seed."""
    part = identity["recipe"]
    return {**part, "run": {**part["run"], "seed": recipe.run.seed}} if isinstance(part, dict) else part
