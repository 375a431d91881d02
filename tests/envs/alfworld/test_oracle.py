from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.alfworld.engine import Engine
from agentgym.envs.alfworld.game import Game, compile_game
from agentgym.envs.alfworld.generator import generate
from agentgym.envs.alfworld.oracle import plan
from agentgym.envs.alfworld.pack import read_pack
from agentgym.envs.alfworld.record import FAMILIES, Record

GAMES = [compile_game(generate(5, family, index)) for family in FAMILIES for index in range(3)]


def check(engine: Engine, commands: tuple[str, ...]) -> None:
    """Every command is accepted, and the last one wins, no earlier one."""
    for command in commands:
        assert not engine.won
        engine.step(command)
        assert engine.accepted, command
    assert engine.won


def test_plan_of_the_mini_game(mini: Game) -> None:
    engine = Engine(mini)
    key = engine.observation_key
    commands = plan(engine)
    # Cabinet 1 and cabinet 2 are equally far: the first in order is taken.
    assert commands == (
        "go to countertop 1",
        "take mug 2 from countertop 1",
        "clean mug 2 with sinkbasin 1",
        "go to cabinet 1",
        "open cabinet 1",
        "move mug 2 to cabinet 1",
    )
    assert engine.observation_key == key
    assert commands is not None
    check(engine, commands)
    assert plan(engine) == ()


def test_plan_goes_on_from_the_middle(mini: Game) -> None:
    engine = Engine(mini)
    for command in ("go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2"):
        engine.step(command)
        assert engine.accepted
    expected = (
        "go to sinkbasin 1",
        "clean mug 1 with sinkbasin 1",
        "go to cabinet 2",
        "move mug 1 to cabinet 2",
    )
    for done in range(len(expected)):
        assert plan(engine) == expected[done:]
        engine.step(expected[done])
    assert engine.won


def test_wrong_object_is_put_down_first(mini: Game) -> None:
    engine = Engine(mini)
    for command in ("go to countertop 1", "take spoon 1 from countertop 1"):
        engine.step(command)
    commands = plan(engine)
    assert commands is not None
    assert commands[0] == "move spoon 1 to countertop 1"
    check(engine, commands)


def test_stops_when_the_object_still_lies_in_another_goal_receptacle(mini_json: dict[str, Any]) -> None:
    mini_json["facts"]["inreceptacle"].append(["mug_bar_1", "cabinet_bar_1"])
    engine = Engine(compile_game(Record.from_json(mini_json, "x:1")))
    commands = plan(engine)
    assert commands == ("go to countertop 1", "take mug 2 from countertop 1", "clean mug 2 with sinkbasin 1")
    assert commands is not None
    check(engine, commands)


def test_no_plan_when_the_hand_cannot_be_emptied(mini_json: dict[str, Any]) -> None:
    facts = mini_json["facts"]
    facts["objecttype"].append(["teddybear_bar_1", "teddybeartype"])
    facts["pickupable"].append(["teddybear_bar_1"])
    facts["inreceptacle"].append(["teddybear_bar_1", "countertop_bar_1"])
    engine = Engine(compile_game(Record.from_json(mini_json, "x:1")))
    engine.step("go to countertop 1")
    engine.step("take teddybear 1 from countertop 1")
    assert engine.accepted
    assert plan(engine) is None


def test_plan_speaks_the_old_wording(mini_record: Record) -> None:
    engine = Engine(compile_game(mini_record, logic_version="2.1.1"))
    commands = plan(engine)
    assert commands is not None
    assert commands[-1] == "put mug 2 in/on cabinet 1"
    check(engine, commands)


@given(st.sampled_from(GAMES), st.lists(st.integers(0, 10_000), max_size=50))
@settings(max_examples=150, deadline=None)
def test_plans_win_from_anywhere(game: Game, choices: list[int]) -> None:
    engine = Engine(game)
    for choice in choices:
        options = [command for command in engine.admissible if not command.startswith("go to ")]
        if choice % 3 == 0:
            options = list(engine.admissible)
        engine.step(options[choice % len(options)])
    commands = plan(engine)
    if commands is None:
        assert engine.state.held >= 0
        assert not any(engine.state.held in accepted for accepted in game.accepts)
    else:
        check(engine, commands)


@pytest.mark.parametrize(("split", "total"), [("valid_seen", 812), ("valid_unseen", 788)])
def test_official_validation_games(shared_data: Path, split: str, total: int) -> None:
    longest: dict[str, int] = dict.fromkeys(FAMILIES, 0)
    commands = 0
    for record in read_pack(shared_data / "alfworld" / f"{split}.jsonl.xz"):
        engine = Engine(compile_game(record))
        found = plan(engine)
        assert found is not None
        check(engine, found)
        commands += len(found)
        longest[record.family] = max(longest[record.family], len(found))
    assert commands == total
    assert max(longest.values()) <= 10
