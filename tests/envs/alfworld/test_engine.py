from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentgym.envs.alfworld import tables, texts
from agentgym.envs.alfworld.engine import Engine
from agentgym.envs.alfworld.game import Game, compile_game
from agentgym.envs.alfworld.record import Record
from agentgym.errors import ConfigError

Play = Callable[..., str]
Official = Callable[[str], Game]

GAME_A = "valid_unseen look_at_obj_in_light-Bowl-None-DeskLamp-308*T20190907_133919_856963"
GAME_B = "train look_at_obj_in_light-AlarmClock-None-DeskLamp-304*T20190907_170557_255365"
GAME_C = "train pick_clean_then_place_in_recep-Mug-None-CoffeeMachine-1/*T20190909_134634_406636"
GAME_D = "train pick_clean_then_place_in_recep-Potato-None-DiningTable-4/*T20190909_114019_624535"


def test_worked_example(mini: Game, play: Play) -> None:
    engine = Engine(mini)
    assert engine.reset() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\n"
        "You are in the middle of a room. Looking quickly around you, you see "
        "a cabinet 2, a cabinet 1, a countertop 1, and a sinkbasin 1.\n\n"
        "Your task is to: put a clean mug in cabinet."
    )
    assert engine.admissible == (
        "go to cabinet 1",
        "go to cabinet 2",
        "go to countertop 1",
        "go to sinkbasin 1",
        "help",
        "inventory",
        "look",
    )
    assert play(engine, "look") == "You are in the middle of a room. Looking quickly around you, you see nothing."
    assert play(engine, "go to countertop 1") == (
        "You arrive at countertop 1. On the countertop 1, you see a butterknife 1, a mug 2, and a spoon 1."
    )
    assert play(engine, "look") == "You are facing the countertop 1, and sinkbasin 1. Next to it, you see nothing."
    assert engine.step("go to sinkbasin 1") == "Nothing happens."
    assert not engine.accepted
    assert play(engine, "examine sinkbasin 1") == "On the sinkbasin 1, you see nothing."
    assert engine.step("examine mug 2") == "Nothing happens."
    assert play(engine, "take butterknife 1 from countertop 1") == (
        "You pick up the butterknife 1 from the countertop 1."
    )
    assert engine.step("take mug 2 from countertop 1") == "Nothing happens."
    assert engine.admissible == (
        "examine butterknife 1",
        "examine countertop 1",
        "examine sinkbasin 1",
        "go to cabinet 1",
        "go to cabinet 2",
        "help",
        "inventory",
        "look",
        "move butterknife 1 to countertop 1",
        "move butterknife 1 to sinkbasin 1",
        "slice apple 1 with butterknife 1",
    )
    assert play(engine, "inventory") == "You are carrying: a butterknife 1."
    assert play(engine, "slice apple 1 with butterknife 1") == "You sliced the apple 1 with the butterknife 1."
    assert play(engine, "move butterknife 1 to sinkbasin 1", "look") == (
        "You are facing the countertop 1, and sinkbasin 1. Next to it, you see a butterknife 1."
    )
    assert play(engine, "inventory") == "You are not carrying anything."
    assert play(engine, "take mug 2 from countertop 1", "examine mug 2") == (
        "This is a normal mug 2. In it, you see a spoon 1."
    )
    assert play(engine, "clean mug 2 with sinkbasin 1") == "You clean the mug 2 using the sinkbasin 1."
    assert play(engine, "go to cabinet 2") == "You arrive at cabinet 2. The cabinet 2 is closed."
    assert engine.step("move mug 2 to cabinet 2") == "Nothing happens."
    assert play(engine, "open cabinet 2") == "You open the cabinet 2. The cabinet 2 is open. In it, you see a mug 1."
    assert not engine.won
    assert play(engine, "move mug 2 to cabinet 2") == "You move the mug 2 to the cabinet 2."
    assert engine.won
    assert play(engine, "close cabinet 2") == "You close the cabinet 2."
    assert engine.won


@pytest.mark.parametrize("command", ["  look ", "look\n", "\tgo to cabinet 1"])
def test_surrounding_space_is_ignored(mini: Game, command: str) -> None:
    engine = Engine(mini)
    assert engine.step(command) != "Nothing happens."
    assert engine.accepted


@pytest.mark.parametrize("command", ["", "Look", "go to  cabinet 1", "go to cabinet 3", "put mug 1 in/on cabinet 1"])
def test_everything_else_must_match_exactly(mini: Game, command: str) -> None:
    engine = Engine(mini)
    before = engine.observation_key, engine.admissible
    assert engine.step(command) == "Nothing happens."
    assert not engine.accepted
    assert (engine.observation_key, engine.admissible) == before


def test_help(mini: Game) -> None:
    lines = Engine(mini).step("help").split("\n")
    assert lines[0] == "Available commands:"
    assert lines[7] == "  move (object) to (receptacle):  place an object in or on a receptacle"
    assert len(lines) == 15
    assert lines[-1] == ""


@pytest.mark.parametrize(
    ("items", "text"),
    [((), "nothing"), (("a",), "a"), (("a", "b"), "a, and b"), (("a", "b", "c"), "a, b, and c")],
)
def test_listing(items: tuple[str, ...], text: str) -> None:
    assert texts.listing(items) == text


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("clean hot sliced", "This is a hot and clean sliced apple 1."),
        ("clean cool sliced", "This is a cool and clean sliced apple 1."),
        ("clean sliced", "This is a clean sliced apple 1."),
        ("hot sliced", "This is a hot sliced apple 1."),
        ("cool sliced", "This is a cool sliced apple 1."),
        ("clean hot", "This is a hot and clean apple 1."),
        ("clean cool", "This is a cool and clean apple 1."),
        ("hot", "This is a hot apple 1."),
        ("clean", "This is a clean apple 1."),
        ("cool", "This is a cold apple 1."),
        ("lit", "This apple 1 is on."),
        ("sliceable sliced", "This is a sliced apple 1."),
        ("sliced", "There's nothing special about apple 1."),
        ("sliceable", "There's nothing special about apple 1."),
        ("clean lit", "This is a clean apple 1."),
    ],
)
def test_condition(flags: str, text: str) -> None:
    names = ("clean", "hot", "cool", "sliced", "lit", "sliceable")
    assert texts.condition("apple 1", **{name: name in flags.split() for name in names}) == text


def test_quirk_shared_location(official_game: Official, play: Play) -> None:
    engine = Engine(official_game(GAME_A))
    play(engine, "go to drawer 2")
    assert engine.step("go to drawer 3") == "Nothing happens."
    assert play(engine, "examine drawer 3") == "On the drawer 3, you see a cellphone 2."


def test_quirk_invisible_ids_take_numbers(official_game: Official, play: Play) -> None:
    game = official_game("train pick_cool_then_place_in_recep-Apple-None-GarbageCan-19/*T20190908_121626_855247")
    engine = Engine(game)
    seen: set[str] = set()
    for receptacle in game.receptacle_names:
        engine.step(f"go to {receptacle}")
        engine.step(f"open {receptacle}")
        seen.update(word for word in ("egg 1", "egg 2", "egg 3") if f"a {word}" in engine.step(f"examine {receptacle}"))
    assert seen == {"egg 1", "egg 3"}


def test_quirk_basin_names(official_game: Official, play: Play) -> None:
    """Named after the id, working like the type."""
    game = official_game("valid_seen pick_two_obj_and_place-SoapBar-None-GarbageCan-418*")
    assert "sinkbasin 1" in game.receptacle_names
    assert "sink 1" in game.object_names


def test_bathtub_with_sink_type_cleans(mini_json: dict[str, Any], play: Play) -> None:
    mini_json["facts"] = {
        predicate: [[term.replace("sink_bar_1", "bathtub_bar_1") for term in row] for row in rows]
        for predicate, rows in mini_json["facts"].items()
    }
    engine = Engine(compile_game(Record.from_json(mini_json, "x:1")))
    play(engine, "go to countertop 1", "take mug 2 from countertop 1")
    assert play(engine, "clean mug 2 with bathtubbasin 1") == "You clean the mug 2 using the bathtubbasin 1."


def test_true_bathtub_does_not_clean(mini_json: dict[str, Any], play: Play) -> None:
    types = mini_json["facts"]["receptacletype"]
    types[-1][1] = "bathtubbasintype"
    engine = Engine(compile_game(Record.from_json(mini_json, "x:1")))
    play(engine, "go to countertop 1", "take mug 2 from countertop 1")
    assert not [command for command in engine.admissible if command.startswith("clean")]


def test_quirk_appliances_work_closed_and_hot_excludes_cold(official_game: Official, play: Play) -> None:
    engine = Engine(official_game(GAME_D))
    play(engine, "go to microwave 1", "open microwave 1", "take apple 2 from microwave 1", "go to fridge 1")
    assert play(engine, "examine fridge 1") == "The fridge 1 is closed."
    assert play(engine, "cool apple 2 with fridge 1") == "You cool the apple 2 using the fridge 1."
    assert play(engine, "examine apple 2") == "This is a cold apple 2."
    play(engine, "go to sinkbasin 1", "clean apple 2 with sinkbasin 1")
    assert play(engine, "examine apple 2") == "This is a cool and clean apple 2."
    assert play(engine, "go to microwave 1", "close microwave 1", "heat apple 2 with microwave 1") == (
        "You heat the apple 2 using the microwave 1."
    )
    assert play(engine, "heat apple 2 with microwave 1") == "You heat the apple 2 using the microwave 1."
    assert play(engine, "examine apple 2") == "This is a hot and clean apple 2."


def test_quirk_slicing_reaches_closed_and_unlisted_things(official_game: Official, play: Play) -> None:
    game = official_game(GAME_D)
    engine = Engine(game)
    for receptacle in game.receptacle_names:
        engine.step(f"go to {receptacle}")
        engine.step(f"open {receptacle}")
        if f"take knife 1 from {receptacle}" in engine.admissible:
            play(engine, f"take knife 1 from {receptacle}")
            break
    engine.step("go to microwave 1")
    engine.step("close microwave 1")
    assert engine.step("examine microwave 1") == "The microwave 1 is closed."
    assert play(engine, "slice apple 2 with knife 1") == "You sliced the apple 2 with the knife 1."
    assert "egg 1" not in play(engine, "go to sinkbasin 1")
    assert play(engine, "slice egg 1 with knife 1") == "You sliced the egg 1 with the knife 1."


def test_quirk_containers_are_normal_and_their_contents_static(official_game: Official, play: Play) -> None:
    game = official_game(GAME_D)
    engine = Engine(game)
    pan, knife = game.object_names.index("pan 1"), game.object_names.index("knife 1")
    assert knife in game.inner[pan]
    source = next(r for r, contents in enumerate(game.start.contents) if knife in contents)
    where = game.receptacle_names[source]
    play(engine, f"go to {where}", f"take knife 1 from {where}", "go to sinkbasin 1", "move knife 1 to sinkbasin 1")
    source = next(r for r, contents in enumerate(game.start.contents) if pan in contents)
    where = game.receptacle_names[source]
    play(engine, f"go to {where}", f"take pan 1 from {where}")
    assert play(engine, "examine pan 1") == "This is a normal pan 1. In it, you see a knife 1."
    play(engine, "go to sinkbasin 1", "clean pan 1 with sinkbasin 1")
    assert play(engine, "examine pan 1") == "This is a normal pan 1. In it, you see a knife 1."


def test_quirk_some_objects_start_cold(official_game: Official, play: Play) -> None:
    game = official_game(GAME_D)
    engine = Engine(game)
    potato = game.object_names.index("potato 1")
    where = game.receptacle_names[next(r for r, held in enumerate(game.start.contents) if potato in held)]
    engine.step(f"go to {where}")
    engine.step(f"open {where}")
    assert play(engine, f"take potato 1 from {where}", "examine potato 1") == "This is a cold potato 1."


def test_quirk_toggling_is_sticky(official_game: Official, play: Play) -> None:
    game = official_game(GAME_A)
    engine = Engine(game)
    lamp = game.object_names.index("desklamp 1")
    where = game.receptacle_names[next(r for r, held in enumerate(game.start.contents) if lamp in held)]
    play(engine, f"go to {where}")
    assert play(engine, "use desklamp 1") == "You turn on the desklamp 1."
    key = engine.observation_key
    assert play(engine, "use desklamp 1") == "You turn on the desklamp 1."
    assert engine.observation_key == key


def test_quirk_look_lists_what_was_left(official_game: Official, play: Play) -> None:
    engine = Engine(official_game(GAME_B))
    play(engine, "go to desk 1", "take creditcard 1 from desk 1")
    for drawer in ("drawer 3", "drawer 2"):
        engine.step(f"open {drawer}")
    play(engine, "move creditcard 1 to drawer 3", "take creditcard 1 from drawer 3", "move creditcard 1 to drawer 2")
    assert play(engine, "look") == (
        "You are facing the desk 1, drawer 3, drawer 2, and drawer 1. "
        "Next to it, you see a creditcard 1, and a creditcard 1."
    )


def test_quirk_object_in_two_receptacles(official_game: Official, play: Play) -> None:
    """It leaves only the one that was named; the game can be won while holding it, and lost again."""
    game = official_game(GAME_C)
    engine = Engine(game)
    play(engine, "go to countertop 2", "take mug 1 from countertop 2")
    twin = engine.clone()
    assert play(twin, "go to coffeemachine 1") == (
        "You arrive at coffeemachine 1. On the coffeemachine 1, you see a mug 1."
    )
    play(engine, "go to sinkbasin 1")
    assert not engine.won
    play(engine, "clean mug 1 with sinkbasin 1")
    assert engine.won
    play(engine, "go to coffeemachine 1", "move mug 1 to coffeemachine 1")
    assert engine.won
    play(engine, "take mug 1 from coffeemachine 1")
    assert not engine.won


def test_quirk_dead_ends() -> None:
    nowhere = tables.PICKUPABLE - frozenset().union(*tables.CAN_CONTAIN.values())
    assert nowhere == {"bootstype", "papertowelrolltype", "scrubbrushtype", "teddybeartype"}
    assert "footstooltype" not in frozenset().union(*tables.CAN_CONTAIN.values())


def test_tables_agree_with_each_other() -> None:
    assert len(tables.OBJECT_TYPES) == 77
    assert len(tables.CAN_CONTAIN) == 29
    for attribute in (tables.CLEANABLE, tables.HEATABLE, tables.COOLABLE, tables.SLICEABLE, tables.RECEPTACLE_OBJECTS):
        assert attribute <= tables.PICKUPABLE


def test_two_wants_both_in_the_same_receptacle(mini_json: dict[str, Any], play: Play) -> None:
    mini_json |= {"type": "pick_two_obj_and_place", "goal": ["two", "mugtype", "cabinettype"]}
    engine = Engine(compile_game(Record.from_json(mini_json, "x:1")))
    play(engine, "go to countertop 1", "take mug 2 from countertop 1", "go to cabinet 1", "open cabinet 1")
    play(engine, "move mug 2 to cabinet 1")
    assert not engine.won
    play(engine, "take mug 2 from cabinet 1", "go to cabinet 2", "open cabinet 2", "move mug 2 to cabinet 2")
    assert engine.won


def test_start_at_a_receptacle_shows_it_in_the_introduction(mini_json: dict[str, Any]) -> None:
    mini_json["facts"]["atlocation"] = [["agent1", "loc_bar_3"]]
    engine = Engine(compile_game(Record.from_json(mini_json, "x:1")))
    middle = "You are facing the countertop 1, and sinkbasin 1. Next to it, you see nothing."
    assert engine.reset().split("\n\n")[1] == middle == engine.step("look")


def test_old_wording(mini_record: Record, play: Play) -> None:
    engine = Engine(compile_game(mini_record, logic_version="2.1.1"))
    assert "help" not in engine.admissible
    assert engine.step("help") == "Nothing happens."
    # Locations are numbered like everything else: downwards along the ids.
    assert play(engine, "go to countertop 1") == (
        "You arrive at loc 1. On the countertop 1, you see a butterknife 1, a mug 2, and a spoon 1."
    )
    assert play(engine, "go to cabinet 2") == "You arrive at loc 3. The cabinet 2 is closed."
    play(engine, "go to sinkbasin 1", "take mug 2 from countertop 1", "go to cabinet 1", "open cabinet 1")
    assert engine.step("move mug 2 to cabinet 1") == "Nothing happens."
    assert engine.admissible[-2:] == ("look", "put mug 2 in/on cabinet 1")
    assert play(engine, "put mug 2 in/on cabinet 1") == "You put the mug 2 in/on the cabinet 1."


def test_unknown_wording_is_refused(mini_record: Record) -> None:
    with pytest.raises(ConfigError, match=r"0\.4\.2"):
        compile_game(mini_record, logic_version="3.0")


def test_shuffling_changes_numbers_only(official_game: Official) -> None:
    record = official_game(GAME_C).record
    plain, first, again, other = (compile_game(record, shuffle_seed=seed) for seed in (None, 1, 1, 2))
    assert first.intro == again.intro
    assert first.object_names == again.object_names
    assert first.object_names != other.object_names != plain.object_names
    assert sorted(first.object_names) == sorted(plain.object_names)
    assert first.object_types == plain.object_types
    assert first.fingerprint != plain.fingerprint
