"""For those who study a policy: why a command did nothing, and how far the task has come.

Both are functions of the true state, so they tell what a player could not know. They belong into
``info["diagnostics"]`` and never into an observation. Invariants: a command has a reason exactly if it is not
admissible; the progress is 1 exactly if the game is won.
"""

from __future__ import annotations

from typing import Literal

from . import tables
from .engine import Engine
from .game import Game
from .state import NOTHING, State

Reason = Literal[
    "unknown_command",
    "unknown_name",
    "spelling",
    "already_here",
    "already_done",
    "not_here",
    "hand_full",
    "not_held",
    "closed",
    "cannot_contain",
    "wrong_tool",
    "impossible",
]
"""Why a command did nothing:

* ``unknown_command``: no form of command; ``unknown_name``: the game has no thing or place of that name;
* ``spelling``: admissible but for upper case or spaces;
* ``already_here``: `go to` a place at the present location;
* ``already_done``: `open` what is open, `close` what is closed;
* ``not_here``: the place or the thing is elsewhere;
* ``hand_full``, ``not_held``: something is in the hand, or the thing needed is not;
* ``closed``: the place is closed; ``cannot_contain``: such things cannot be put there;
* ``wrong_tool``: the place or the tool is not one for this; ``impossible``: this thing never allows it.
"""

_TOOLS = {"clean": tables.SINK_TYPE, "heat": tables.MICROWAVE_TYPE, "cool": tables.FRIDGE_TYPE}
_STEPS = 3  # of a treated object: in the hand, treated, in its place


def refusal(engine: Engine, command: str) -> Reason | None:
    """Say why a command does nothing in the present state of an engine; None if it is admissible.

    Where several reasons apply, the first of these is given: names, places, hand, doors, kinds of things.
    """
    if command.strip() in engine.admissible:
        return None
    words = " ".join(command.lower().split())
    if words in engine.admissible:
        return "spelling"
    game, state = engine.game, engine.state
    verb, first, second = _parse(game, words)
    if not verb:
        return "unknown_command"
    if verb in ("go to", "open", "close"):
        return _place(game, state, verb, _index(game.receptacle_names, first))
    if verb == "examine" and (r := _index(game.receptacle_names, first)) != NOTHING:
        return _place(game, state, verb, r)
    o = _index(game.object_names, first)
    if verb == "slice":
        return _slice(game, state, o, _index(game.object_names, second))
    if verb in ("examine", "use"):
        return _thing(game, state, verb, o)
    return _thing_and_place(game, state, verb, o, _index(game.receptacle_names, second))


def progress(engine: Engine) -> float:
    """How much of the task is done, in [0, 1].

    * place: 1/2 with a fitting object in the hand;
    * clean, heat, cool: 1/3 for a fitting object in the hand, 1/3 for one that is treated, both of the same object;
    * two: 1/4 for each fitting object in the hand, 1/2 for each that lies in the place where most do;
    * look: 1/3 each for a fitting object in the hand, for being at a fitting lamp, and for its being on.

    Going back is less progress: it is a property of the state, not of the best state so far.
    """
    if engine.won:
        return 1.0
    game, state = engine.game, engine.state
    kind = game.record.goal[0]
    carried = state.held in game.goal_objects
    if kind == "light":
        lamps = [o for r in game.receptacles_at[state.location] for o in state.contents[r] if o in game.goal_lamps]
        lit = any(state.toggled >> lamp & 1 for lamp in lamps)
        return (carried + bool(lamps) + lit) / 3
    if kind == "two":
        placed = [game.goal_objects.intersection(state.contents[r]) for r in game.goal_receptacles]
        return max((2 * len(there) + (carried and state.held not in there)) / 4 for there in (*placed, frozenset()))
    if kind == "place":
        return carried / 2
    treated = {"isclean": state.clean, "ishot": state.hot, "iscool": state.cool}[kind]
    return max((((o == state.held) + (treated >> o & 1)) / _STEPS for o in game.goal_objects), default=0.0)


def _parse(game: Game, command: str) -> tuple[str, str, str]:
    """Verb and its one or two names; three empty strings for no form of command."""
    put, into = ("move ", " to ") if game.logic_version == "0.4.2" else ("put ", " in/on ")
    pairs = {"take ": " from ", put: into, "clean ": " with ", "heat ": " with ", "cool ": " with ", "slice ": " with "}
    for start, between in pairs.items():
        first, found, second = command.removeprefix(start).partition(between)
        if command.startswith(start) and found:
            return "move" if start == put else start.strip(), first, second
    for start in ("go to ", "open ", "close ", "examine ", "use "):
        if command.startswith(start):
            return start.strip(), command.removeprefix(start), ""
    return "", "", ""


def _index(names: tuple[str, ...], name: str) -> int:
    return names.index(name) if name in names else NOTHING


def _place(game: Game, state: State, verb: str, r: int) -> Reason | None:
    if r == NOTHING:
        return "unknown_name"
    here = game.receptacle_locations[r] == state.location
    if verb == "go to":
        return "already_here" if here else None
    if not here:
        return "not_here"
    if verb == "examine":
        return None
    if r not in game.openable:
        return "impossible"
    return "already_done" if bool(state.opened >> r & 1) == (verb == "open") else None


def _thing(game: Game, state: State, verb: str, o: int) -> Reason | None:
    if o == NOTHING:
        return "unknown_name"
    if verb == "examine":
        return None if o == state.held else "not_held"
    if not any(o in state.contents[r] for r in game.receptacles_at[state.location]):
        return "not_here"
    return None if o in game.toggleable else "impossible"


def _slice(game: Game, state: State, o: int, knife: int) -> Reason | None:
    if NOTHING in (o, knife):
        return "unknown_name"
    if o not in state.present[state.location]:
        return "not_here"
    if knife != state.held:
        return "not_held"
    if knife not in game.knives:
        return "wrong_tool"
    return None if o in game.sliceable else "impossible"


def _thing_and_place(game: Game, state: State, verb: str, o: int, r: int) -> Reason | None:
    if NOTHING in (o, r):
        return "unknown_name"
    if game.receptacle_locations[r] != state.location or (verb == "take" and o not in state.contents[r]):
        return "not_here"
    if verb == "take" and state.held != NOTHING:
        return "hand_full"
    if verb != "take" and o != state.held:
        return "not_held"
    if verb in _TOOLS:
        if game.receptacle_types[r] != _TOOLS[verb]:
            return "wrong_tool"
        fit = {"clean": game.cleanable, "heat": game.heatable, "cool": game.coolable}[verb]
        return None if o in fit else "impossible"
    if r in game.openable and not state.opened >> r & 1:
        return "closed"
    if verb == "move":
        return None if o in game.accepts[r] else "cannot_contain"
    return None if o in game.pickupable else "impossible"
