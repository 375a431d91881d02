"""Compiling a record into a `Game`: everything about a game that never changes while it is played.

A game is computed once and shared by any number of engines, threads and forked processes; nothing writes to it.
Objects, receptacles and locations are indices into tuples in id order, the order in which texts list them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from agentgym.errors import ConfigError, DataError

from . import tables, texts
from .naming import name_ids
from .record import PREDICATES, Facts, Record
from .state import NOTHING, Indices, State

LOGIC_VERSIONS = ("0.4.2", "2.1.1")
"""Wordings of the game: `0.4.2` is that of alfworld 0.4 and later, `2.1.1` that of alfworld 0.3 and earlier."""

_MAX_INDEX = 0xFFFE  # snapshots store indices in 16 bits
_OBJECT_COLUMNS = {
    predicate: tuple(column for column, kind in enumerate(kinds) if kind == "object")
    for predicate, kinds in PREDICATES.items()
}


@dataclass(frozen=True)
class Game:
    """An immutable compiled game.

    Attributes:
        record: what it was compiled from.
        logic_version: one of `LOGIC_VERSIONS`.
        shuffle_seed: seed of the domain randomisation of numbers, or None.
        object_names, object_types: per object; the type is empty when the record gives none.
        receptacle_names, receptacle_types, receptacle_locations: per receptacle.
        location_names: per location where the agent can be.
        receptacles_at: per location, the receptacles there.
        accepts: per receptacle, the objects that its type can contain.
        pickupable, cleanable, heatable, coolable, sliceable, toggleable, containers, knives: sets of objects.
        openable: receptacles that open and close.
        inner: per container object, what it shows inside; never changes.
        go_to: command -> receptacle.
        go_to_from: per location, the sorted admissible `go to` commands.
        always: commands that are admissible everywhere, sorted.
        goal_objects: objects of the goal type (with the attribute that the goal asks for).
        goal_receptacles: receptacles of the goal type; empty for `light`.
        goal_lamps: lamps of the goal type; empty except for `light`.
        start: initial state; engines copy it.
        intro: text of a reset.
        fingerprint: sixteen bytes that identify content, numbering and wording of the game, in any process.
    """

    record: Record
    logic_version: str
    shuffle_seed: int | None
    object_names: tuple[str, ...]
    object_types: tuple[str, ...]
    receptacle_names: tuple[str, ...]
    receptacle_types: tuple[str, ...]
    receptacle_locations: tuple[int, ...]
    location_names: tuple[str, ...]
    receptacles_at: tuple[Indices, ...]
    accepts: tuple[frozenset[int], ...]
    pickupable: frozenset[int]
    cleanable: frozenset[int]
    heatable: frozenset[int]
    coolable: frozenset[int]
    sliceable: frozenset[int]
    toggleable: frozenset[int]
    containers: frozenset[int]
    knives: frozenset[int]
    openable: frozenset[int]
    inner: dict[int, Indices]
    go_to: dict[str, int]
    go_to_from: tuple[tuple[str, ...], ...]
    always: tuple[str, ...]
    goal_objects: frozenset[int]
    goal_receptacles: Indices
    goal_lamps: frozenset[int]
    start: State
    intro: str
    fingerprint: bytes

    def put_command(self, o: int, r: int) -> str:
        """Return the command that puts a held object into or onto a receptacle, in the wording of the game."""
        if self.logic_version == "0.4.2":
            return f"move {self.object_names[o]} to {self.receptacle_names[r]}"
        return f"put {self.object_names[o]} in/on {self.receptacle_names[r]}"

    def introduce(self, sentence: str) -> str:
        """Return the text of a reset, with another sentence for the same task."""
        return f"{self.intro[: -len(self.record.task) - 1]}{sentence}."


def compile_game(record: Record, *, shuffle_seed: int | None = None, logic_version: str = "0.4.2") -> Game:
    """Compile a record.

    Args:
        record: a valid record.
        shuffle_seed: seed of the domain randomisation (see `naming.name_ids`); None for the usual numbers.
        logic_version: wording, one of `LOGIC_VERSIONS`.

    Raises:
        ConfigError: unknown logic version.
        DataError: the game is too large to be encoded.
    """
    if logic_version not in LOGIC_VERSIONS:
        raise ConfigError(f"unknown logic_version {logic_version!r}; use one of {', '.join(LOGIC_VERSIONS)}")
    facts = record.facts
    names = name_ids(facts, shuffle_seed)
    objects = _object_ids(facts)
    receptacles = sorted(row[0] for row in facts["receptacletype"])
    placed_at = {r: location for r, location in facts["receptacleatlocation"]}
    start_location = facts["atlocation"][0][1]
    # Only where a receptacle is, or the agent starts, can the agent ever be; other locations never matter.
    locations = sorted({*placed_at.values(), start_location})
    if max(len(objects), len(receptacles), len(locations)) > _MAX_INDEX:
        raise DataError(f"{record.id}: a game may have at most {_MAX_INDEX} objects, receptacles or locations")
    object_index = {identifier: i for i, identifier in enumerate(objects)}
    receptacle_index = {identifier: i for i, identifier in enumerate(receptacles)}
    location_index = {identifier: i for i, identifier in enumerate(locations)}

    def having(predicate: str) -> frozenset[int]:
        return frozenset(object_index[row[0]] for row in facts.get(predicate, ()))

    object_type_of = {o: kind for o, kind in facts.get("objecttype", ())}
    receptacle_type_of = {r: kind for r, kind in facts["receptacletype"]}
    object_types = tuple(object_type_of.get(identifier, "") for identifier in objects)
    receptacle_types = tuple(receptacle_type_of[identifier] for identifier in receptacles)
    accepts_by_type = {
        kind: frozenset(o for o, t in enumerate(object_types) if t in tables.CAN_CONTAIN.get(kind, frozenset()))
        for kind in set(receptacle_types)
    }
    receptacle_locations = tuple(location_index[placed_at[identifier]] for identifier in receptacles)
    receptacle_names = tuple(names[identifier] for identifier in receptacles)
    commands = sorted((f"go to {name}", r) for r, name in enumerate(receptacle_names))
    start = State(
        location=location_index[start_location],
        held=NOTHING,
        contents=_group(len(receptacles), facts, "inreceptacle", receptacle_index, object_index),
        present=_group(len(locations), facts, "objectatlocation", location_index, object_index),
        left=[()] * len(receptacles),
        opened=_mask(receptacle_index[row[0]] for row in facts.get("opened", ())),
        clean=_mask(having("isclean")),
        hot=_mask(having("ishot")),
        cool=_mask(having("iscool")),
        sliced=_mask(having("issliced")),
        toggled=_mask(having("istoggled")),
    )
    goal_kind, goal_object, goal_target = record.goal
    attribute = {"isclean": "cleanable", "ishot": "heatable", "iscool": "coolable"}.get(goal_kind)
    goal_objects = frozenset(o for o, t in enumerate(object_types) if t == goal_object)
    containers = having("isreceptacleobject")
    toggleable = having("toggleable")
    inner: dict[int, list[int]] = {o: [] for o in sorted(containers)}
    for inside, outside in facts.get("inreceptacleobject", ()):
        if object_index[outside] in inner:
            inner[object_index[outside]].append(object_index[inside])
    receptacles_at = tuple(
        tuple(r for r, at in enumerate(receptacle_locations) if at == location) for location in range(len(locations))
    )
    here = receptacles_at[start.location]
    if here:
        # LOOK at a receptacle that nothing has been taken from.
        around = texts.FACING.format(texts.listing([receptacle_names[r] for r in here]), "nothing")
    else:
        around = texts.ROOM.format(texts.listing([f"a {name}" for name in receptacle_names]))
    return Game(
        record=record,
        logic_version=logic_version,
        shuffle_seed=shuffle_seed,
        object_names=tuple(names[identifier] for identifier in objects),
        object_types=object_types,
        receptacle_names=receptacle_names,
        receptacle_types=receptacle_types,
        receptacle_locations=receptacle_locations,
        location_names=tuple(names[identifier] for identifier in locations),
        receptacles_at=receptacles_at,
        accepts=tuple(accepts_by_type[kind] for kind in receptacle_types),
        pickupable=having("pickupable"),
        cleanable=having("cleanable"),
        heatable=having("heatable"),
        coolable=having("coolable"),
        sliceable=having("sliceable"),
        toggleable=toggleable,
        containers=containers,
        knives=frozenset(o for o, t in enumerate(object_types) if t in tables.KNIFE_TYPES),
        openable=frozenset(receptacle_index[row[0]] for row in facts.get("openable", ())),
        inner={o: tuple(indices) for o, indices in inner.items()},
        go_to=dict(commands),
        go_to_from=tuple(
            tuple(command for command, r in commands if receptacle_locations[r] != location)
            for location in range(len(locations))
        ),
        always=("help", "inventory", "look") if logic_version == "0.4.2" else ("inventory", "look"),
        goal_objects=goal_objects & having(attribute) if attribute else goal_objects,
        goal_receptacles=()
        if goal_kind == "light"
        else tuple(r for r, t in enumerate(receptacle_types) if t == goal_target),
        goal_lamps=frozenset(o for o, t in enumerate(object_types) if t == goal_target and o in toggleable)
        if goal_kind == "light"
        else frozenset(),
        start=start,
        fingerprint=hashlib.blake2b(
            f"{record.digest} {logic_version} {shuffle_seed}".encode(), digest_size=16
        ).digest(),
        intro=f"-= Welcome to TextWorld, ALFRED! =-\n\n{around}\n\nYour task is to: {record.task}.",
    )


def _object_ids(facts: Facts) -> list[str]:
    rows = ((row, columns) for predicate, columns in _OBJECT_COLUMNS.items() for row in facts.get(predicate, ()))
    return sorted({row[column] for row, columns in rows for column in columns})


def _group(
    size: int, facts: Facts, predicate: str, place_index: dict[str, int], object_index: dict[str, int]
) -> list[Indices]:
    """Collect the objects of each place, ascending; places outside the index are dropped."""
    groups: list[list[int]] = [[] for _ in range(size)]
    for identifier, place in facts.get(predicate, ()):
        if place in place_index:
            groups[place_index[place]].append(object_index[identifier])
    return [tuple(sorted(group)) for group in groups]


def _mask(indices: Iterable[int]) -> int:
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask
