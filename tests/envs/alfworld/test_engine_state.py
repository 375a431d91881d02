"""Snapshots, copies, keys and the admissible list, along random play."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.envs.alfworld.engine import Engine
from agentgym.envs.alfworld.game import Game, compile_game
from agentgym.envs.alfworld.generator import generate
from agentgym.envs.alfworld.golden import play_digest
from agentgym.envs.alfworld.record import FAMILIES
from agentgym.errors import DataError

GAMES = [compile_game(generate(3, family, index)) for family in FAMILIES for index in range(2)]
walks = st.lists(st.integers(0, 10_000), max_size=60)
games = st.sampled_from(GAMES)


def walk(engine: Engine, choices: list[int]) -> list[object]:
    """Play by choosing among the admissible commands, interactions first, and record all that shows."""
    shown: list[object] = []
    for choice in choices:
        commands = [command for command in engine.admissible if not command.startswith("go to ")]
        if choice % 3 == 0:
            commands = list(engine.admissible)
        command = commands[choice % len(commands)]
        shown.append((command, engine.step(command), engine.won, engine.admissible))
        shown.append((engine.dynamics_key, engine.observation_key))
    return shown


@given(games, walks, walks)
@settings(max_examples=60, deadline=None)
def test_continuations_are_identical(game: Game, before: list[int], after: list[int]) -> None:
    engine = Engine(game)
    walk(engine, before)
    saved, twin = engine.snapshot(), engine.clone()
    expected = walk(engine, after)
    assert walk(twin, after) == expected
    restored = Engine(game)
    walk(restored, after)
    restored.restore(saved)
    assert restored.snapshot() == saved
    assert walk(restored, after) == expected
    engine.restore(saved)
    assert walk(engine, after) == expected


@given(games, walks)
@settings(max_examples=60, deadline=None)
def test_what_an_engine_shows_follows_from_its_state(game: Game, choices: list[int]) -> None:
    """No cache is stale: a fresh engine in the same state agrees."""
    engine = Engine(game)
    for choice in choices:
        walk(engine, [choice])
        fresh = Engine(game)
        fresh.restore(engine.snapshot())
        assert fresh.admissible == engine.admissible == tuple(sorted(set(engine.admissible)))
        assert fresh.won == engine.won


@given(walks)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_exactly_the_admissible_commands_are_accepted(mini: Game, choices: list[int]) -> None:
    engine = Engine(mini)
    walk(engine, choices)
    things = [*mini.object_names, *mini.receptacle_names]
    vocabulary = {"look", "inventory", "help", *(f"{verb} {x}" for verb in ("open", "close", "use") for x in things)}
    vocabulary |= {f"{verb} {x}" for verb in ("examine", "go to") for x in things}
    for x, y in product(things, things):
        vocabulary |= {f"take {x} from {y}", f"move {x} to {y}", f"put {x} in/on {y}"}
        vocabulary |= {f"{verb} {x} with {y}" for verb in ("clean", "heat", "cool", "slice")}
    accepted = set()
    for command in vocabulary:
        twin = engine.clone()
        if twin.step(command) != "Nothing happens.":
            accepted.add(command)
        assert twin.accepted == (command in accepted)
    assert accepted == set(engine.admissible)


@given(games, walks, st.text())
@settings(max_examples=100, deadline=None)
def test_any_text_is_answered(game: Game, choices: list[int], command: str) -> None:
    engine = Engine(game)
    walk(engine, choices)
    key = engine.observation_key
    if command.strip() not in engine.admissible:
        assert engine.step(command) == "Nothing happens."
        assert not engine.accepted
        assert engine.observation_key == key


@given(games, walks, st.data())
@settings(max_examples=100, deadline=None)
def test_damaged_snapshots_are_refused(game: Game, choices: list[int], data: st.DataObject) -> None:
    engine = Engine(game)
    walk(engine, choices)
    saved = engine.snapshot()
    position = data.draw(st.integers(0, len(saved) - 1))
    flipped = bytearray(saved)
    flipped[position] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(flipped), saved[:position], saved + b"\0", data.draw(st.binary(max_size=80))):
        with pytest.raises(DataError):
            engine.restore(damaged)
    assert engine.snapshot() == saved


def test_snapshots_of_another_game_are_refused(mini: Game) -> None:
    other = compile_game(mini.record, shuffle_seed=1)
    for foreign in (Engine(other), Engine(GAMES[0])):
        with pytest.raises(DataError, match="another game"):
            Engine(mini).restore(foreign.snapshot())


def test_snapshots_are_small() -> None:
    assert max(len(Engine(game).snapshot()) for game in GAMES) < 2_000


def test_keys_follow_the_state_and_not_the_path(mini: Game) -> None:
    direct, detour = Engine(mini), Engine(mini)
    direct.step("go to cabinet 1")
    for command in ("go to cabinet 2", "open cabinet 2", "look", "nonsense", "close cabinet 2", "go to cabinet 1"):
        detour.step(command)
    assert direct.observation_key == detour.observation_key
    assert direct.dynamics_key == detour.dynamics_key
    direct.step("open cabinet 1")
    assert direct.observation_key != detour.observation_key


def test_what_was_left_behind_shows_in_the_observation_key_only(mini: Game) -> None:
    stayed, moved = Engine(mini), Engine(mini)
    for engine in (stayed, moved):
        engine.step("go to countertop 1")
    for command in (
        "take spoon 1 from countertop 1",
        "move spoon 1 to sinkbasin 1",
        "take spoon 1 from sinkbasin 1",
        "move spoon 1 to countertop 1",
    ):
        moved.step(command)
        assert moved.accepted
    assert stayed.dynamics_key == moved.dynamics_key
    assert stayed.observation_key != moved.observation_key
    assert stayed.admissible == moved.admissible
    assert stayed.step("look").endswith("nothing.")
    assert moved.step("look").endswith("a spoon 1.")


def test_keys_of_different_games_differ(mini: Game) -> None:
    keys = {Engine(game).observation_key for game in (*GAMES, mini, compile_game(mini.record, logic_version="2.1.1"))}
    assert len(keys) == len(GAMES) + 2


def test_keys_are_the_same_in_every_process() -> None:
    program = (
        "from agentgym.envs.alfworld.engine import Engine\n"
        "from agentgym.envs.alfworld.game import compile_game\n"
        "from agentgym.envs.alfworld.generator import generate\n"
        "engine = Engine(compile_game(generate(3, 'place', 0)))\n"
        "import sys; sys.stdout.write(engine.dynamics_key + ' ' + engine.observation_key)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    engine = Engine(GAMES[0])
    assert done.stdout == f"{engine.dynamics_key} {engine.observation_key}"


def test_threads_share_a_game() -> None:
    expected = [play_digest(game) for game in GAMES]
    with ThreadPoolExecutor(8) as threads:
        jobs = random.Random(0).sample(range(len(GAMES)), len(GAMES)) * 8
        digests = list(threads.map(lambda index: play_digest(GAMES[index]), jobs))
    assert digests == [expected[index] for index in jobs]


def test_playing_leaves_the_game_as_it_was(mini: Game) -> None:
    before = (mini.start.copy(), repr(mini))
    walk(Engine(mini), list(range(50)))
    assert (mini.start, repr(mini)) == before
