"""The commands ``agentgym replay`` and ``agentgym compare``, which read runs that were played."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from .cli_options import data_option
from .compare import compare, table
from .replay import Difference, replay


@click.command("replay")
@click.argument("run", type=click.Path(path_type=Path))
@data_option
def replay_command(run: Path, data: Path | None) -> int:
    """Plays every episode of RUN again without its agent; exit status 1 if anything differs from the record."""

    def show(name: str, difference: Difference) -> None:
        click.echo(f"{name}: {difference}")

    done = replay(run, data, on_difference=show)
    up_to = f", {done.broken} of them up to where they broke" if done.broken else ""
    click.echo(f"{done.episodes} episodes played again{up_to}; {done.different} differ from the record")
    if done.different:
        click.echo(
            f"error: {done.different} episodes differ; replay with the data and the version of agentgym that "
            f"{run / 'run.json'} names",
            err=True,
        )
    return 1 if done.different else 0


@click.command("compare")
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="RUN_A RUN_B …")
@click.option("--shared", is_flag=True, help="Compare on the tasks that all runs played to their end.")
def compare_command(runs: tuple[Path, ...], shared: bool) -> int:
    """Compares evaluations, or training runs by their newest common one, with the first of them, task by task."""
    console = Console()
    for comparison in compare(runs, shared=shared):
        console.print(table(comparison))
    return 0
