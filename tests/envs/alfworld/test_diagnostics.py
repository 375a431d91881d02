from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.alfworld.diagnostics import progress, refusal
from agentgym.envs.alfworld.engine import Engine
from agentgym.envs.alfworld.game import Game, compile_game
from agentgym.envs.alfworld.generator import generate
from agentgym.envs.alfworld.oracle import plan
from agentgym.envs.alfworld.record import FAMILIES, Record

GAMES = [compile_game(generate(5, family, 0)) for family in FAMILIES]
walks = st.lists(st.integers(0, 10_000), max_size=40)


def wander(engine: Engine, choices: list[int]) -> Iterator[None]:
    """Play by choosing among the admissible commands, interactions first."""
    for choice in choices:
        commands = [command for command in engine.admissible if choice % 3 == 0 or not command.startswith("go to ")]
        engine.step(commands[choice % len(commands)])
        yield


def all_commands(game: Game) -> Iterator[str]:
    """Every well-formed command of the wording 0.4.2."""
    things, places = game.object_names, game.receptacle_names
    for verb in ("go to", "open", "close", "examine", "use"):
        yield from (f"{verb} {name}" for name in (*things, *places))
    for form in ("take {} from {}", "move {} to {}", "clean {} with {}", "heat {} with {}", "cool {} with {}"):
        yield from (form.format(thing, place) for thing, place in product(things, places))
    yield from (f"slice {thing} with {knife}" for thing, knife in product(things, things))


@given(st.sampled_from(GAMES), walks, st.integers(0, 30))
@settings(max_examples=40, deadline=None)
def test_a_command_has_a_reason_exactly_if_it_is_refused(game: Game, choices: list[int], start: int) -> None:
    engine = Engine(game)
    for _ in wander(engine, choices):
        pass
    for command in (*islice(all_commands(game), start, None, 31), *engine.admissible):
        assert (refusal(engine, command) is None) == (command in engine.admissible), command


@given(st.sampled_from(GAMES), walks, st.text(max_size=30))
@settings(max_examples=60, deadline=None)
def test_progress_is_one_exactly_when_won(game: Game, choices: list[int], text: str) -> None:
    engine = Engine(game)
    for _ in wander(engine, choices):
        assert 0 <= progress(engine) <= 1
        assert (progress(engine) == 1) == engine.won
    assert (refusal(engine, text) is None) == (text.strip() in engine.admissible)


@pytest.mark.parametrize("game", GAMES, ids=FAMILIES)
def test_progress_rises_along_a_plan(game: Game) -> None:
    engine = Engine(game)
    commands = plan(engine)
    assert commands is not None
    seen = [progress(engine)]
    for command in commands:
        engine.step(command)
        seen.append(progress(engine))
    assert seen == sorted(seen) and seen[0] == 0 and seen[-1] == 1 and len(set(seen)) >= 3


def test_reasons(mini: Game) -> None:
    engine = Engine(mini)

    def reasons(*commands: str) -> list[str | None]:
        return [refusal(engine, command) for command in commands]

    assert reasons("dance", "", "take", "put mug 2 in/on cabinet 1") == ["unknown_command"] * 4
    assert reasons("go to fridge 1", "take pear 1 from cabinet 1", "use lamp 9") == ["unknown_name"] * 3
    assert reasons("Go To  cabinet 1", " LOOK ") == ["spelling"] * 2
    assert reasons("examine cabinet 1", "take mug 2 from countertop 1", "open cabinet 2") == ["not_here"] * 3
    assert reasons("look", " inventory ", "go to cabinet 1") == [None] * 3
    engine.step("go to cabinet 2")
    assert reasons("go to cabinet 2", "take mug 1 from cabinet 2") == ["already_here", "closed"]
    assert reasons("close cabinet 2", "move spoon 1 to cabinet 2") == ["already_done", "not_held"]
    engine.step("go to countertop 1")
    assert reasons("open countertop 1", "examine mug 2") == ["impossible", "not_held"]
    engine.step("take mug 2 from countertop 1")
    assert reasons("take spoon 1 from countertop 1", "clean mug 2 with countertop 1") == ["hand_full", "wrong_tool"]
    assert reasons("slice apple 1 with mug 2", "slice apple 1 with butterknife 1") == ["wrong_tool", "not_held"]
    engine.step("move mug 2 to countertop 1")
    engine.step("take spoon 1 from countertop 1")
    engine.step("go to cabinet 2")
    engine.step("open cabinet 2")
    assert reasons("move spoon 1 to cabinet 2", "open cabinet 2") == ["cannot_contain", "already_done"]


def test_the_old_wording_has_its_own_forms(mini_record: Record) -> None:
    engine = Engine(compile_game(mini_record, logic_version="2.1.1"))
    assert refusal(engine, "put mug 2 in/on cabinet 1") == "not_here"
    assert refusal(engine, "move mug 2 to cabinet 1") == refusal(engine, "help") == "unknown_command"


def test_long_commands_are_answered_quickly(mini: Game) -> None:
    engine = Engine(mini)
    began = time.process_time()
    for command in ("x" * 1_000_000, "take " * 200_000, "go to " + "a " * 500_000, " from ".join(["take"] * 150_000)):
        assert refusal(engine, command) in ("unknown_command", "unknown_name")
    assert time.process_time() - began < 5  # minutes, if it grew with the square of the length
