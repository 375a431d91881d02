"""The commands ``agentgym data get | import | info | verify``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from .data import data_source
from .registry import data_folder


def _data(*, required: bool) -> click.Option:
    return click.Option(
        ["--data"],
        type=click.Path(path_type=Path, file_okay=False),
        envvar="AGENTGYM_DATA",
        required=required,
        help="Folder for data packs (also AGENTGYM_DATA).",
    )


def _show(lines: Iterator[str]) -> int:
    for line in lines:
        click.echo(line)
    return 0


@click.group("data")
def data_group() -> None:
    """Official data: download, import, description, check."""


@data_group.command("get")
@click.argument("env")
@click.option(
    "--sources",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TOML file that says where to download from; the package has one.",
)
def get_command(env: str, sources: Path | None, data: Path) -> int:
    """Downloads the official data of ENV and packs it; goes on with a download that was interrupted."""
    return _show(data_source(env).get(data, sources))


@data_group.command("import")
@click.argument("env")
@click.option("--from", "source", type=click.Path(path_type=Path), required=True, help="Folder in the official layout.")
@click.option("--upgrade", is_flag=True, help="Bring data of an earlier version up to date.")
def import_command(env: str, source: Path, data: Path, upgrade: bool) -> int:
    """Packs official data of ENV that is there already."""
    return _show(data_source(env).take(source, data, upgrade=upgrade))


@data_group.command("info")
@click.argument("env")
def info_command(env: str, data: Path | None) -> int:
    """Describes the data of ENV, and states that no evaluation task is in a training split."""
    return _show(data_source(env).info(data_folder(data)))


@data_group.command("verify")
@click.argument("env")
def verify_command(env: str, data: Path) -> int:
    """Works every figure and hash of the data of ENV out again."""
    data_folder(data)
    return _show(data_source(env).verify(data))


for _command in (get_command, import_command, info_command, verify_command):
    _command.params.append(_data(required=_command is not info_command))
