"""The parts of the backend that need no original packages; `test_parity` plays."""

from __future__ import annotations

import tempfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import agentgym
from agentgym.envs.alfworld import textworld_backend
from agentgym.envs.alfworld.textworld_backend import REQUIRED, OriginalProcess, check_installed
from agentgym.errors import ConfigError, EngineError, UnknownNameError

ECHO = """
import json, sys
for line in sys.stdin:
    operation, *arguments = json.loads(line)
    if operation == "open":
        print(json.dumps({"games": arguments[:1]}), flush=True)
    elif arguments == ["fail"]:
        print(json.dumps({"error": "KeyError: 'val1'"}), flush=True)
    elif arguments == ["nonsense"]:
        print(json.dumps({"observation": 1}), flush=True)
    elif arguments == ["crash"]:
        sys.exit("out of memory\\n\\n")
    else:
        answer = {"observation": arguments[0], "admissible": ["look"], "won": False, "score": 0, "done": False}
        print(json.dumps({**answer, "seconds": 0.5}), flush=True)
"""


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the packages were there."""
    monkeypatch.setattr(textworld_backend, "version", REQUIRED.__getitem__)


@pytest.fixture
def echo(installed: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A worker that answers with what it is told, and a folder of its own for temporary files."""
    worker, temporary = tmp_path / "worker.py", tmp_path / "temporary"
    worker.write_text(ECHO)
    temporary.mkdir()
    monkeypatch.setattr(textworld_backend, "_WORKER", worker)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return temporary


def test_missing_packages_are_named_with_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(textworld_backend, "version", missing)
    for attempt in (check_installed, lambda: agentgym.make("alfworld", backend="textworld")):
        with pytest.raises(ConfigError, match=r"pip install alfworld==0\.4\.2 textworld==1\.7\.0"):
            attempt()


def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textworld_backend, "version", {"alfworld": "0.5.0", "textworld": "1.7.0"}.__getitem__)
    with pytest.raises(ConfigError, match=r"alfworld 0\.4\.2 \(0\.5\.0\)"):
        check_installed()


def test_backends_and_their_options_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'textworld'"):
        agentgym.make("alfworld", backend="textword")
    with pytest.raises(UnknownNameError, match="logic_version"):
        agentgym.make("alfworld", backend="textworld", logic_version="0.4.2")
    assert agentgym.make("alfworld", backend="compiled").panel == agentgym.panel("alfworld")


def test_the_process_answers_and_leaves_nothing_behind(echo: Path) -> None:
    text = 'two\nlines, "quotes", \u2028 and \ud800'
    with OriginalProcess() as process:
        assert len(list(echo.iterdir())) == 1
        assert process.open("folder", 50) == ["folder"]
        reply = process.start("game")
        assert reply == ("game", ("look",), False, 0.0, False, 0.5)
        assert process.step(text).observation == text
        assert process.step("x" * 1_000_000).observation == "x" * 1_000_000
    assert list(echo.iterdir()) == []
    with pytest.raises(EngineError, match="has ended"):
        process.step("look")


def test_what_fails_in_the_process_is_told(echo: Path) -> None:
    with OriginalProcess() as process:
        with pytest.raises(EngineError, match=r"failed on start \(KeyError: 'val1'\)"):
            process.start("fail")
        with pytest.raises(EngineError, match="nonsense"):
            process.step("nonsense")
        with pytest.raises(EngineError, match=r"has ended \(out of memory\)"):
            process.step("crash")
    assert list(echo.iterdir()) == []


def test_a_forgotten_process_ends(echo: Path) -> None:
    process = OriginalProcess()
    child = process._process
    del process
    assert child.poll() is not None
    assert list(echo.iterdir()) == []
