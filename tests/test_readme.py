"""What the README tells people to type works."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from agentgym.cli import cli

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE, AGENT = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = sorted(set(re.findall(r"(?:`|\$ )agentgym ([a-z][^`\n]*)", TEXT)))


def run(folder: Path, *command: str) -> str:
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example(tmp_path: Path) -> None:
    out = run(tmp_path, "-c", EXAMPLE)
    assert "You are in the middle of a room" not in out and "> go to" in out and "solved: 1.0" in out


def test_the_agent_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(AGENT)
    (command,) = (command for command in COMMANDS if "mine:Opener" in command)
    out = run(tmp_path, "-c", "from agentgym.cli import main; main()", *shlex.split(command))
    assert "mine:Opener" in out and (tmp_path / "runs/opener/summary.json").is_file()


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_can_be_read(line: str) -> None:
    command: click.Command = cli
    words = shlex.split(line)
    while isinstance(command, click.Group):
        name = words.pop(0)
        command = command.commands[name]
    command.make_context("agentgym", words)  # a usage error if an option does not exist


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 9


@pytest.mark.parametrize("path", re.findall(r"\]\(([a-z][^:)]*)\)|`((?:recipes|tests|docs)/[\w/]+\.\w+)`", TEXT))
def test_every_file_that_is_named_exists(path: tuple[str, str]) -> None:
    assert (ROOT / (path[0] or path[1])).exists()
