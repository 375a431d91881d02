from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.alfworld import generator
from agentgym.envs.alfworld.engine import Engine
from agentgym.envs.alfworld.game import compile_game
from agentgym.envs.alfworld.pack import read_pack
from agentgym.envs.alfworld.prior import search_order
from agentgym.envs.alfworld.record import FAMILIES, Record
from agentgym.envs.alfworld.seeker import Seeker, read_task

BUILTIN = Path(generator.__file__).parent / "data"
INTRO = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
    "a cabinet 2, a cabinet 1, a desk 1, a fridge 1, and a sinkbasin 1.\n\nYour task is to: {}."
)


def play(record: Record, steps: int = 50) -> list[str]:
    """The commands of one episode; raises nothing and stops when won."""
    engine = Engine(compile_game(record))
    observation, seeker, commands = engine.reset(), Seeker(), []
    for _ in range(steps):
        commands.append(seeker.act(observation, {}))
        observation = engine.step(commands[-1])
        if engine.won:
            break
    return commands if engine.won else []


def solved(records: list[Record]) -> float:
    return sum(bool(play(record)) for record in records) / len(records)


def test_it_reads_every_template_sentence() -> None:
    for family in FAMILIES:
        for template in generator.SENTENCES[family]:
            assert read_task(template.format(o="soapbar", r="toilet")) == (family, "soapbar", "toilet")
    assert read_task("wash the dishes") is None


def test_search_order_is_the_likeliest_type_first() -> None:
    assert search_order("handtowel")[0] == "handtowelholder"
    assert search_order("pillow")[:2] == ("bed", "sofa")
    assert search_order("pot")[0] == "stoveburner"
    assert sorted(search_order("unknown")) == sorted(search_order("apple"))


def test_it_solves_the_builtin_games() -> None:
    assert solved(list(read_pack(BUILTIN / "generated_valid.jsonl.xz"))) >= 0.95


@pytest.mark.parametrize("split", ["valid_unseen", "valid_seen"])
def test_it_solves_the_official_games(shared_data: Path, split: str) -> None:
    assert solved(list(read_pack(shared_data / "alfworld" / f"{split}.jsonl.xz"))) >= 0.95


def test_it_plays_the_same_way_twice() -> None:
    record = generator.generate(5, "two", 2)
    assert play(record) == play(record) != []


def test_it_searches_in_list_order_opens_and_skips_what_it_saw() -> None:
    seeker = Seeker()
    answers = [
        ("start", INTRO.format("put a cool apple in cabinet"), "go to fridge 1"),
        ("closed", "You arrive at fridge 1. The fridge 1 is closed.", "open fridge 1"),
        ("empty", "You open the fridge 1. The fridge 1 is open. In it, you see nothing.", "go to sinkbasin 1"),
        ("found", "You arrive at sinkbasin 1. On the sinkbasin 1, you see a fork 1, and a apple 2.", "take apple 2"),
        ("held", "You pick up the apple 2 from the sinkbasin 1.", "go to fridge 1"),
        ("open", "You arrive at fridge 1. The fridge 1 is open. In it, you see nothing.", "cool apple 2 with fridge 1"),
        ("cool", "You cool the apple 2 using the fridge 1.", "go to cabinet 2"),
        ("closed", "You arrive at cabinet 2. The cabinet 2 is closed.", "open cabinet 2"),
        ("open", "You open the cabinet 2. The cabinet 2 is open. In it, you see a cup 1.", "move apple 2 to cabinet 2"),
    ]
    for label, observation, command in answers:
        assert seeker.act(observation, {}).startswith(command), label


def test_a_refused_go_to_means_that_it_is_there_already() -> None:
    seeker = Seeker()
    assert seeker.act(INTRO.format("put a pen in fridge"), {}) == "go to desk 1"
    assert seeker.act("You arrive at desk 1. On the desk 1, you see a pen 1.", {}) == "take pen 1 from desk 1"
    assert seeker.act("You pick up the pen 1 from the desk 1.", {}) == "go to fridge 1"
    assert seeker.act("Nothing happens.", {}) == "examine fridge 1"
    assert seeker.act("The fridge 1 is closed.", {}) == "open fridge 1"


def test_two_objects_go_into_the_receptacle_that_has_one_already() -> None:
    seeker = Seeker()
    seeker.act(INTRO.format("find two mug and put them in cabinet"), {})
    assert seeker.act("You arrive at desk 1. On the desk 1, you see nothing.", {}) == "go to fridge 1"
    listed = "The fridge 1 is open. In it, you see a mug 2."
    assert seeker.act(f"You arrive at fridge 1. {listed}", {}) == "take mug 2 from fridge 1"
    assert seeker.act("You pick up the mug 2 from the fridge 1.", {}) == "go to cabinet 2"
    assert seeker.act("You arrive at cabinet 2. The cabinet 2 is closed.", {}) == "open cabinet 2"
    opened = "You open the cabinet 2. The cabinet 2 is open. In it, you see a mug 3."
    assert seeker.act(opened, {}) == "move mug 2 to cabinet 2"
    # With one of them in cabinet 2, another that lies in cabinet 1 goes there, and those in cabinet 2 stay.
    assert seeker.act("You move the mug 2 to the cabinet 2.", {}) == "go to cabinet 1"
    assert seeker.act("You arrive at cabinet 1. On the cabinet 1, you see a mug 1.", {}) == "take mug 1 from cabinet 1"
    assert seeker.act("You pick up the mug 1 from the cabinet 1.", {}) == "go to cabinet 2"


def test_refusing_everything_never_locks_it_in() -> None:
    seeker = Seeker()
    commands = [seeker.act(INTRO.format("put a pen in desk"), {})]
    commands += [seeker.act("Nothing happens.", {}) for _ in range(40)]
    assert all(first != second for first, second in pairwise(commands))
    assert {f"examine {name}" for name in ("cabinet 1", "cabinet 2", "desk 1", "fridge 1", "sinkbasin 1")} <= {
        *commands
    }


PIECES = st.sampled_from(
    [
        "Nothing happens.",
        "You arrive at desk 1.",
        "On the desk 1, you see a pen 1, and a mug 7.",
        "The cabinet 1 is closed.",
        "The cabinet 3 is open. In it, you see a pen 2.",
        "You pick up the pen 1 from the desk 1.",
        "You move the",
        "You turn on the",
        INTRO.format("put two pen in cabinet"),
        INTRO.format("examine the pen with the desklamp"),
        INTRO.format("put a clean pen in desk"),
        INTRO.format("fly"),
    ]
)


@settings(max_examples=60)
@given(st.lists(st.one_of(st.text(), st.lists(PIECES).map(" ".join)), max_size=60))
def test_any_text_gets_an_answer(observations: list[str]) -> None:
    first, second = Seeker(), Seeker()
    for observation in observations:
        command = first.act(observation, {})
        assert command
        assert command == second.act(observation, {})
