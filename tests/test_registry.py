from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
from agentgym_guess import SPEC

import agentgym
from agentgym import registry
from agentgym.errors import ConfigError, DataError, UnknownNameError


def test_installed_environments_are_listed_and_made() -> None:
    assert {"alfworld", "guess"} <= set(agentgym.list_envs())
    assert list(agentgym.list_envs()) == sorted(agentgym.list_envs())
    assert registry.spec("guess") is SPEC
    assert {"agentgym/ALFWorld-v0", "agentgym/Guess-v0"} <= set(gymnasium.registry)
    panel = agentgym.panel("guess")
    assert (panel.split, len(panel)) == ("easy", 12) and agentgym.panel("guess", "hard").hash != panel.hash
    assert agentgym.make("guess", max_steps=3).max_steps == 3
    assert [split.tasks for split in registry.splits("guess")] == [12, 40]


@pytest.mark.parametrize(
    ("call", "suggestion"),
    [
        (lambda: agentgym.make("alfwrld"), "alfworld"),
        (lambda: agentgym.panel("gess"), "guess"),
        (lambda: registry.gym_id("alfword"), "alfworld"),
        (lambda: agentgym.panel("guess", "esay"), "easy"),
        (lambda: agentgym.make("guess", max_step=3), "max_steps"),
    ],
)
def test_unknown_names(call: object, suggestion: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        call()  # type: ignore[operator]
    assert caught.value.suggestion == suggestion and suggestion in str(caught.value)


def test_data_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        agentgym.panel("guess", data=tmp_path / "absent")
    assert len(agentgym.panel("guess", data=tmp_path)) == 12


def test_a_plug_in_that_is_no_environment_hurts_only_who_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "bad-1.0.dist-info").mkdir()
    (tmp_path / "bad-1.0.dist-info" / "METADATA").write_text("Name: bad\nVersion: 1.0\n")
    (tmp_path / "bad-1.0.dist-info" / "entry_points.txt").write_text("[agentgym.envs]\nBad = bad:X\nWorse = worse:X\n")
    (tmp_path / "bad.py").write_text("X = 3\n")
    script = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "import agentgym, agentgym.errors as errors\n"
        "assert {'bad', 'worse', 'alfworld'} <= set(agentgym.list_envs())\n"
        "assert not [name for name in sys.modules if name.startswith('agentgym.envs')]\n"
        "agentgym.panel('alfworld')\n"
        "for name, kind in (('bad', errors.ConfigError), ('worse', errors.UnknownNameError)):\n"
        "    try: agentgym.panel(name)\n"
        "    except kind: pass\n"
        "    else: raise SystemExit(name)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)


def test_load_object() -> None:
    assert registry.load_object("agentgym_guess:SPEC") is SPEC
    for path in ("agentgym_guess", ":x", "agentgym_guess:", ""):
        with pytest.raises(ConfigError, match=r"package\.module:object"):
            registry.load_object(path)
