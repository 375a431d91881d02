"""New ALFWorld games: rooms drawn from the measured tables, with a goal that the oracle reaches in the engine.

A game is a pure function of (seed, family, index): it has its own random stream, of which only ``random()`` is used, so
that every machine and Python version draws byte-identical records. Generated games belong to splits whose names start
with ``generated`` and are never mixed into official ones. Objects follow the *kind* of room: unlike in the official
games, no two games share a floor plan. Objects that would lie nowhere are left out, and nothing starts open or cold.

Difficulty varies as it does in the rooms of the train split. A `Difficulty` draws again until a game lies within its
bounds: it changes which games are kept, not how they are made.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from agentgym.errors import ConfigError, DataError
from agentgym.seeding import Seed

from .engine import Engine
from .game import compile_game
from .oracle import plan
from .pack import write_pack
from .record import FAMILIES, GOAL_KIND_OF_FAMILY, PREDICATES, TYPE_OF_FAMILY, Record
from .rooms import OPENABLE, ROOMS, Room
from .tables import (
    CAN_CONTAIN,
    CLEANABLE,
    COOLABLE,
    HEATABLE,
    PICKUPABLE,
    RECEPTACLE_OBJECTS,
    SLICEABLE,
    TOGGLEABLE,
)

TRIES = 200
TRIES_WITHIN_BOUNDS = 5_000  # of one game, if a difficulty is asked for
LAMP = "DeskLamp"

# Split name -> (first index, built-in games per family). Indices of two splits never meet, so ids do not either.
SPLITS: Mapping[str, tuple[int, int]] = {"generated_train": (0, 50), "generated_valid": (500_000, 12)}
_INDICES = 1_000_000  # indices a seed has; game number = seed * _INDICES + index

_APPLIANCE = {"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"}
_ATTRIBUTE = {"clean": "cleanable", "heat": "heatable", "cool": "coolable"}
SENTENCES = {
    "place": ("put a {o} in {r}", "put some {o} on {r}"),
    "look": ("look at {o} under the {r}", "examine the {o} with the {r}"),
    "clean": ("put a clean {o} in {r}", "clean some {o} and put it in {r}"),
    "heat": ("put a hot {o} in {r}", "heat some {o} and put it in {r}"),
    "cool": ("put a cool {o} in {r}", "cool some {o} and put it in {r}"),
    "two": ("put two {o} in {r}", "find two {o} and put them in {r}"),
}

# Object type attributes that records state, as predicate -> types.
ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "pickupable": PICKUPABLE,
    "isreceptacleobject": RECEPTACLE_OBJECTS,
    "cleanable": CLEANABLE,
    "heatable": HEATABLE,
    "coolable": COOLABLE,
    "sliceable": SLICEABLE,
    "toggleable": TOGGLEABLE,
}

T = TypeVar("T")
_Receptacle = tuple[str, str, str]  # id, type, location
_Facts = dict[str, list[list[str]]]


class Difficulty(NamedTuple):
    """Bounds of a game, both ends included.

    Attributes:
        plan: commands of the oracle's plan.
        distractors: objects that lie somewhere and are not of the type that the goal asks for.
    """

    plan: tuple[int, int]
    distractors: tuple[int, int]


Level = Literal["easy", "hard"]
LEVELS: tuple[Level, ...] = ("easy", "hard")

# Family -> commands of the plan and distractors of a typical (median) generated game.
_TYPICAL = {"place": (4, 15), "look": (4, 21), "clean": (6, 40), "heat": (6, 42), "cool": (6, 42), "two": (8, 16)}
_MANY = 10_000


def difficulty_of(family: str, level: Level) -> Difficulty:
    """The bounds of a level: ``easy`` is at most typical in both respects, ``hard`` above it in both."""
    commands, distractors = _TYPICAL[family]
    if level == "easy":
        return Difficulty((0, commands), (0, distractors))
    return Difficulty((commands + 1, _MANY), (distractors + 1, _MANY))


class Draw:
    """A random stream with the few draws that the generator needs."""

    def __init__(self, seed: Seed) -> None:
        self._random = random.Random(seed.value)

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self._random.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """One of the items, each as likely."""
        return items[int(self._random.random() * len(items))]

    def weigh(self, weights: Mapping[T, float]) -> T:
        """One of the keys, as likely as its weight says."""
        point = self._random.random() * sum(weights.values())
        *items, last = weights
        for item in items:
            point -= weights[item]
            if point < 0:
                return item
        return last


def generate(
    seed: int, family: str | None, index: int, split: str = "generated", difficulty: Difficulty | None = None
) -> Record:
    """Draw one game.

    Args:
        seed: any number from 0 up.
        family: one of ``FAMILIES``; None draws one, by seed and index.
        index: number of the game, 0 to 999,999.
        split: name of the split to write into the record; it does not influence the game.
        difficulty: bounds of the game, which the name of the trial repeats; None for a game as it comes.

    Raises:
        ConfigError: if an argument is out of range.
        DataError: if no room allowed the task in 200 tries, or none within the bounds in 5,000.
    """
    if seed < 0 or not 0 <= index < _INDICES:
        raise ConfigError(f"seed {seed}, index {index}: give a seed from 0 up and an index from 0 to {_INDICES - 1}")
    if family is None:
        family = Draw(Seed(("alfworld", seed, index))).pick(FAMILIES)
    elif family not in FAMILIES:
        raise ConfigError(f"unknown family {family!r}; choose one of {', '.join(FAMILIES)}")
    number = seed * _INDICES + index
    if difficulty is None:
        draw, name, tries = Draw(Seed(("alfworld", seed, family, index))), f"trial_gen_{number}", TRIES
    else:
        (least, most), (few, many) = difficulty
        if least > most or few > many:
            raise ConfigError(f"{difficulty}: no game lies within these bounds; give (least, most)")
        draw = Draw(Seed(("alfworld", seed, family, index, least, most, few, many)))
        name, tries = f"trial_gen_{number}_plan_{least}_{most}_distractors_{few}_{many}", TRIES_WITHIN_BOUNDS
    for _ in range(tries):
        record = _try(draw, family, number, name, split, difficulty)
        if record is not None and _playable(record, difficulty):
            return record
    raise DataError(f"no {family} game in {tries} tries for seed {seed}, index {index}; take another index or bounds")


def generate_split(seed: int, split: str, per_family: int, level: Level | None = None) -> list[Record]:
    """Draw a split of distinct games, equally many of each family, in ascending order of ids.

    Args:
        seed: any number from 0 up.
        split: a key of ``SPLITS``; splits of one seed share no id.
        per_family: games per family.
        level: difficulty of the games, relative to their family; None for games as they come.

    Raises:
        ConfigError: if the split is unknown or too large.
    """
    if split not in SPLITS or not 0 <= per_family <= _INDICES // 4:
        raise ConfigError(f"cannot draw {per_family} games per family of {split!r}; splits: {', '.join(SPLITS)}")
    first, _ = SPLITS[split]
    records: dict[str, Record] = {}
    for family in FAMILIES:
        index = first
        wanted = len(records) + per_family
        difficulty = None if level is None else difficulty_of(family, level)
        while len(records) < wanted:
            record = generate(seed, family, index, split, difficulty)
            records.setdefault(record.digest, record)
            index += 1
    return sorted(records.values(), key=lambda record: record.id)


def write_builtin(folder: Path) -> list[Path]:
    """Write the packs that come with the package, ``generated_train`` and ``generated_valid``; return their paths."""
    paths = []
    for split, (_, per_family) in SPLITS.items():
        paths.append(folder / f"{split}.jsonl.xz")
        write_pack(paths[-1], generate_split(0, split, per_family))
    return paths


def _playable(record: Record, difficulty: Difficulty | None) -> bool:
    """True if the game is not won at the start, and the oracle's plan wins it and has the right length."""
    engine = Engine(compile_game(record))
    engine.reset()
    if engine.won:
        return False
    commands = plan(engine)
    if commands is None or not (difficulty is None or difficulty.plan[0] <= len(commands) <= difficulty.plan[1]):
        return False
    for command in commands:
        engine.step(command)
    return engine.won


def _try(draw: Draw, family: str, number: int, trial: str, split: str, difficulty: Difficulty | None) -> Record | None:
    """One try: furnish a room, then choose a goal in it; None if it offers none, or has too many or few distractors."""
    rooms = {room.name: room for room in ROOMS}
    room = rooms[draw.weigh({room.name: room.games[family] for room in ROOMS if family in room.games})]
    receptacles, facts = _furnish(draw, room)
    objects = _scatter(draw, room, receptacles, facts)
    goals = _goals(family, objects, {rtype for _, rtype, _ in receptacles})
    if not goals:
        return None
    otype, place = draw.pick(goals)
    if difficulty is not None:
        distractors = sum(len(instances) for kind, instances in objects.items() if kind != otype)
        if not difficulty.distractors[0] <= distractors <= difficulty.distractors[1]:
            return None
    sentence = draw.pick(SENTENCES[family]).format(o=otype.lower(), r=place.lower())
    task_type = TYPE_OF_FAMILY[family]
    record = {
        "id": f"{task_type}-{otype}-None-{place}-9{number}/{trial}",
        "split": split,
        "type": task_type,
        "task": sentence,
        "params": {
            "mrecep_target": "",
            "object_sliced": False,
            "object_target": otype,
            "parent_target": "" if family == "look" else place,
            "toggle_target": place if family == "look" else "",
        },
        "scene": f"Generated{room.name}",
        "human": [],
        "goal": [GOAL_KIND_OF_FAMILY[family], _fact_type(otype), _fact_type(place)],
        "facts": {predicate: rows for predicate, rows in facts.items() if rows},
    }
    return Record.from_json(record, f"generated game {number}")


def _furnish(draw: Draw, room: Room) -> tuple[list[_Receptacle], _Facts]:
    """Draw receptacles as (id, type, location), and the facts about them and the agent."""
    receptacles: list[_Receptacle] = []
    facts: _Facts = {predicate: [] for predicate in PREDICATES}
    spots = 0
    for rtype, counts in room.receptacles.items():
        base = rtype.lower().removesuffix("basin")
        suffix = f"_bar_{rtype.lower()}" if rtype.endswith("Basin") else ""
        for position in range(1, draw.pick(counts) + 1):
            name = f"{base}_bar_{position:02d}{suffix}"
            if receptacles and draw.chance(room.shared):
                location = draw.pick(receptacles)[2]
            else:
                spots += 1
                location = f"loc_bar_{spots:02d}"
            receptacles.append((name, rtype, location))
            facts["receptacletype"].append([name, _fact_type(rtype)])
            facts["receptacleatlocation"].append([name, location])
            if draw.chance(OPENABLE.get(rtype, 0.0)):
                facts["openable"].append([name])
    facts["atlocation"].append(["agent1", "loc_bar_00"])
    return receptacles, facts


def _scatter(draw: Draw, room: Room, receptacles: list[_Receptacle], facts: _Facts) -> dict[str, list[set[str]]]:
    """Lay objects into receptacles and add the facts; return per object type, for each object, where it lies.

    Where an object lies is given as receptacle types; it is more than one for objects in two receptacles.
    """
    present = {rtype for _, rtype, _ in receptacles}
    objects: dict[str, list[set[str]]] = {}
    for stats in room.objects:
        places = {rtype: weight for rtype, weight in stats.places.items() if rtype in present}
        if not places or not draw.chance(stats.presence):
            continue
        for position in range(1, draw.weigh(dict(enumerate(stats.counts, 1))) + 1):
            if not draw.chance(stats.placed):
                continue
            name = f"{stats.otype.lower()}_bar_{position:02d}"
            first = _lay(draw, places, receptacles)
            second = _lay(draw, places, receptacles) if draw.chance(room.doubled) else first
            chosen = {first, second}
            objects.setdefault(stats.otype, []).append({rtype for _, rtype, _ in chosen})
            facts["objecttype"].append([name, _fact_type(stats.otype)])
            facts["objectatlocation"].append([name, first[2]])
            facts["inreceptacle"] += [[name, receptacle] for receptacle, _, _ in chosen]
            for predicate, types in ATTRIBUTES.items():
                if _fact_type(stats.otype) in types:
                    facts[predicate].append([name])
    return objects


def _lay(draw: Draw, places: Mapping[str, float], receptacles: Sequence[_Receptacle]) -> _Receptacle:
    rtype = draw.weigh(places)
    return draw.pick([receptacle for receptacle in receptacles if receptacle[1] == rtype])


def _goals(family: str, objects: Mapping[str, list[set[str]]], present: set[str]) -> list[tuple[str, str]]:
    """All (object type, receptacle type or lamp) that make a task which is not yet fulfilled and looks solvable."""
    if family in _APPLIANCE and _APPLIANCE[family] not in present:
        return []
    goals: list[tuple[str, str]] = []
    for otype, instances in sorted(objects.items()):
        name = _fact_type(otype)
        if name not in ATTRIBUTES["pickupable"] or (family == "two" and len(instances) < 2):
            continue
        if family in _ATTRIBUTE and name not in ATTRIBUTES[_ATTRIBUTE[family]]:
            continue
        if family == "look":
            goals += [(otype, LAMP)] if LAMP in objects else []
            continue
        for rtype in sorted(present):
            fulfilled = family in ("place", "two") and any(rtype in where for where in instances)
            if name in CAN_CONTAIN[_fact_type(rtype)] and not fulfilled:
                goals.append((otype, rtype))
    return goals


def _fact_type(name: str) -> str:
    return name.lower() + "type"
