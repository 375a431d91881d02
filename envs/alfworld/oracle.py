"""The oracle: the shortest plan of a few fixed shapes from any state of a game.

A plan fetches the object, treats it if the goal asks for that, and puts it where it belongs (or carries it to a
lamp). Invariant: played from the same state, no command of a plan is refused, and the last command, no earlier one,
wins. Plans are shortest among these shapes; that no other plan is shorter is not claimed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

from . import tables
from .engine import Engine
from .game import Game
from .state import NOTHING, State

# Goal kind -> verb, and type of the receptacle where it works.
_TREATMENTS = {
    "isclean": ("clean", tables.SINK_TYPE),
    "ishot": ("heat", tables.MICROWAVE_TYPE),
    "iscool": ("cool", tables.FRIDGE_TYPE),
}


def plan(engine: Engine) -> tuple[str, ...] | None:
    """Plan from the current state of an engine, which is not changed.

    A wrong object in the hand is first put down wherever that makes the plan shortest. Among plans of equal length
    the first in the order of their command lists is taken.

    Returns:
        The commands; empty when the game is won already; None when no plan of the known shapes exists.
    """
    if engine.won:
        return ()
    game, state = engine.game, engine.state
    here = _Walk(game, (), state.location, state.opened)
    kind = game.record.goal[0]
    if kind == "two":
        candidates = _two(game, state, here)
    elif kind == "light":
        candidates = _light(game, state, here)
    else:
        candidates = _one(game, state, here)
    best = min(candidates, key=lambda walk: (len(walk.commands), walk.commands), default=None)
    return None if best is None else best.commands


class _Walk(NamedTuple):
    """Commands so far, and what they do to location and open receptacles."""

    game: Game
    commands: tuple[str, ...]
    location: int
    opened: int

    def then(self, command: str) -> _Walk:
        return self._replace(commands=(*self.commands, command))

    def to(self, r: int) -> _Walk:
        """Go to a receptacle, unless it is here."""
        location = self.game.receptacle_locations[r]
        if location == self.location:
            return self
        name = self.game.receptacle_names[r]
        return self._replace(commands=(*self.commands, f"go to {name}"), location=location)

    def into(self, r: int) -> _Walk:
        """Go to a receptacle and make sure that it is open."""
        walk = self.to(r)
        if r not in self.game.openable or walk.opened >> r & 1:
            return walk
        command = f"open {self.game.receptacle_names[r]}"
        return walk._replace(commands=(*walk.commands, command), opened=walk.opened | 1 << r)

    def fetch(self, o: int, r: int) -> _Walk:
        return self.into(r).then(f"take {self.game.object_names[o]} from {self.game.receptacle_names[r]}")

    def put(self, o: int, r: int) -> _Walk:
        return self.into(r).then(self.game.put_command(o, r))


def _empty_handed(game: Game, state: State, walk: _Walk) -> list[_Walk]:
    """All ways to empty the hand."""
    if state.held == NOTHING:
        return [walk]
    return [walk.put(state.held, r) for r in range(len(game.accepts)) if state.held in game.accepts[r]]


def _sources(game: Game, state: State) -> list[tuple[int, int]]:
    """Goal objects that can be carried, with each receptacle where they are."""
    wanted = game.goal_objects & game.pickupable
    return [(o, r) for r, contents in enumerate(state.contents) for o in contents if o in wanted]


def _in_hand(game: Game, state: State, walk: _Walk) -> Iterator[tuple[_Walk, int, int]]:
    """All ways to get hold of a goal object: walk, object, and the receptacle it was taken from (or `NOTHING`)."""
    if state.held in game.goal_objects:
        yield walk, state.held, NOTHING
        return
    sources = _sources(game, state)
    for free in _empty_handed(game, state, walk):
        for o, r in sources:
            yield free.fetch(o, r), o, r


def _one(game: Game, state: State, walk: _Walk) -> Iterator[_Walk]:
    """One object, perhaps treated, into a goal receptacle."""
    kind = game.record.goal[0]
    treated = {"isclean": state.clean, "ishot": state.hot, "iscool": state.cool}.get(kind, -1)
    for carrying, o, source in _in_hand(game, state, walk):
        ready = [carrying]
        if not treated >> o & 1:
            verb, tool_type = _TREATMENTS[kind]
            ready = [
                carrying.to(r).then(f"{verb} {game.object_names[o]} with {game.receptacle_names[r]}")
                for r, receptacle_type in enumerate(game.receptacle_types)
                if receptacle_type == tool_type
            ]
            # An object that was in several receptacles left only one of them: the goal may hold while it is held.
            if any(o in state.contents[r] for r in game.goal_receptacles if r != source):
                yield from ready
                continue
        for prepared in ready:
            for r in game.goal_receptacles:
                if o in game.accepts[r]:
                    yield prepared.put(o, r)


def _two(game: Game, state: State, walk: _Walk) -> Iterator[_Walk]:
    """Two objects into the same goal receptacle; those that are there already count."""
    sources = _sources(game, state)
    for target in game.goal_receptacles:
        there = game.goal_objects.intersection(state.contents[target])
        missing = 2 - len(there)
        if state.held in game.goal_objects and state.held not in there:
            if state.held not in game.accepts[target]:
                continue
            starts = [walk.put(state.held, target)]
            there |= {state.held}
            missing -= 1
        else:
            starts = _empty_handed(game, state, walk)
        usable = [(o, r) for o, r in sources if o not in there and o in game.accepts[target]]
        for picks in permutations(usable, missing):
            if len({o for o, _ in picks}) < missing:
                continue
            for current in starts:
                for o, r in picks:
                    current = current.fetch(o, r).put(o, target)
                yield current


def _light(game: Game, state: State, walk: _Walk) -> Iterator[_Walk]:
    """An object in the hand next to a lamp that is on."""
    lamps = [(lamp, r) for r, contents in enumerate(state.contents) for lamp in contents if lamp in game.goal_lamps]
    for carrying, _, _ in _in_hand(game, state, walk):
        for lamp, r in lamps:
            lit = state.toggled >> lamp & 1
            yield carrying.to(r) if lit else carrying.to(r).then(f"use {game.object_names[lamp]}")
