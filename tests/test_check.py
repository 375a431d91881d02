from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from agentgym.check import CHECKS, check
from agentgym.cli import cli
from agentgym.errors import ConfigError, UnknownNameError

# Class -> the checks that must fail, all others must pass, and what the first of them says.
BROKEN = {
    "Moody": ({"determinism", "snapshot", "state key", "gymnasium"}, "differs when played again"),
    "HashOrdered": ({"determinism"}, "fresh process"),
    "HashPanel": ({"panel", "determinism"}, "fresh process"),
    "WholeReward": ({"five-tuple", "fuzzed actions"}, "reward is int, not float"),
    "TwoEnds": ({"five-tuple", "step limit", "fuzzed actions"}, "at once"),
    "ListOfActions": ({"info"}, "not a tuple of strings or None"),
    "WrongSegment": ({"info"}, "segment is 0 where it should be -1"),
    "HighScore": ({"score"}, "score is 10.0"),
    "SolvedAtOnce": ({"score"}, "solved before the first action"),
    "Endless": ({"info", "step limit"}, "segment is 7 where it should be 8"),
    "NoLimit": ({"step limit", "state key"}, "cannot be made with max_steps=3"),
    "Forgetful": ({"snapshot"}, "restored in"),
    "TextSnapshot": ({"snapshot"}, "returns str, not bytes"),
    "OffByOne": ({"parsing"}, "is not the text"),
    "HiddenState": ({"state key"}, "one state key after"),
    "Fragile": ({"fuzzed actions"}, "raised ValueError"),
    "Unprintable": ({"gymnasium"}, "raised AssertionError"),
}


def failures(name: str, tasks: int = 2) -> dict[str, str]:
    results = check(name, tasks=tasks)
    assert [result.name for result in results] == list(CHECKS)
    return {result.name: result.reason for result in results if not result.passed}


@pytest.mark.parametrize("name", ["guess", "alfworld", "webshop", "agentgym_guess:SPEC", "broken_envs:Sound"])
def test_sound_environments_pass(name: str) -> None:
    assert failures(name) == {}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_found(name: str) -> None:
    expected, reason = BROKEN[name]
    found = failures(f"broken_envs:{name}")
    assert set(found) == expected
    assert reason in found[next(label for label in CHECKS if label in expected)]


@pytest.mark.parametrize(
    ("name", "label", "reason"),
    [
        ("RestlessPanel", "panel", "made again"),
        ("FourValues", "five-tuple", "not five values"),
        ("NoGoal", "info", "lacks 'goal'"),
    ],
)
def test_what_breaks_several_checks(name: str, label: str, reason: str) -> None:
    assert reason in failures(f"broken_envs:{name}")[label]


def test_the_state_key_check_meets_states_twice() -> None:
    for name in ("guess", "alfworld"):
        (reason,) = (result.reason for result in check(name, tasks=2) if result.name == "state key")
        found = re.match(r"(\d+) states reached by two paths", reason)
        assert found is not None and int(found[1]) > 10


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'alfworld'"):
        check("alfwold")
    with pytest.raises(UnknownNameError, match="did you mean 'Sound'"):
        check("broken_envs:Sond")
    with pytest.raises(ConfigError, match="neither"):
        check("broken_envs:itertools")
    with pytest.raises(ConfigError, match=r"no arguments.*size"):
        check("broken_envs:Unmade")
    with pytest.raises(ConfigError, match="splits"):
        check("broken_envs:Sound", split="easy")
    with pytest.raises(UnknownNameError, match="split"):
        check("guess", split="esy")


def test_the_command() -> None:
    run = CliRunner().invoke
    good = run(cli, ["check", "guess", "--split", "hard", "--tasks", "1"], standalone_mode=False)
    assert good.return_value == 0 and "FAIL" not in good.output and "40 tasks" in good.output
    bad = run(cli, ["check", "broken_envs:Fragile", "--tasks", "1"], standalone_mode=False)
    assert bad.return_value == 1 and bad.output.count("FAIL") == 1
    assert "error: 1 of 12 checks failed (fuzzed actions)" in bad.output
    elsewhere = run(cli, ["check", "broken_envs:Sound"], standalone_mode=False, env={"AGENTGYM_DATA": "/"})
    assert elsewhere.return_value == 0
