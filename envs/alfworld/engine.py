"""The rules: one `Engine` is one playing state of a compiled game.

It answers every string, admissible or not, and keeps no state outside itself, so that any number of engines may play
the same game in any number of threads. What is admissible is decided in one place: `_offer` lists the commands
that depend on the state together with their effects, and a step looks the command up there.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable

from agentgym.errors import DataError

from . import tables, texts
from .game import Game
from .state import NOTHING, State, with_index, without_index

_SNAPSHOT_MAGIC = b"AFW1"
_CHECKSUM_SIZE = 8

Action = tuple[Callable[["Engine", int, int], str], int, int]
"""An effect and its two indices; unused ones are `NOTHING`."""


class Engine:
    """One episode of a game, without a step limit: play may go on after a win.

    Attributes:
        game: the compiled game, shared and immutable.
        state: the playing state; read it, and change it only through `step`, `reset` and `restore`.
        accepted: whether the last command was admissible; True after `reset` and `restore`.
    """

    __slots__ = ("_actions", "_admissible", "_observation_key", "_places", "_won", "accepted", "game", "state")

    game: Game
    state: State
    accepted: bool
    # What the state implies, worked out when first asked for; None is not worked out yet.
    _actions: dict[str, Action] | None
    _admissible: tuple[str, ...] | None
    _won: bool | None
    _observation_key: str | None
    _places: bytes | None  # of the encoded state, what only a take or a move changes

    def __init__(self, game: Game) -> None:
        """Start at the initial state of the game."""
        self.game = game
        self.reset()

    def reset(self) -> str:
        """Go back to the initial state and return the introduction."""
        self._enter(self.game.start.copy())
        return self.game.intro

    def step(self, command: str) -> str:
        """Carry out a command and return the feedback.

        Surrounding white space is ignored; the rest must equal an admissible command exactly. Anything else gets
        `Nothing happens.` and changes nothing.
        """
        command = command.strip()
        action = self._offered().get(command)
        self.accepted = True
        if action is not None:
            effect, first, second = action
            return effect(self, first, second)
        game = self.game
        target = game.go_to.get(command)
        if target is not None and game.receptacle_locations[target] != self.state.location:
            return self._go_to(target)
        if command in game.always:
            if command == "look":
                return self._look()
            return texts.HELP if command == "help" else self._inventory()
        self.accepted = False
        return texts.NOTHING_HAPPENS

    @property
    def admissible(self) -> tuple[str, ...]:
        """The admissible commands, sorted, without duplicates."""
        if self._admissible is None:
            offered = sorted(self._offered())
            before, between = bisect_left(offered, "go to "), bisect_left(offered, "help")
            self._admissible = (
                *offered[:before],
                *self.game.go_to_from[self.state.location],
                *offered[before:between],
                *self.game.always,
                *offered[between:],
            )
        return self._admissible

    @property
    def won(self) -> bool:
        """Whether the goal holds now; a later step may undo it."""
        if self._won is None:
            self._won = self._goal_holds()
        return self._won

    def snapshot(self) -> bytes:
        """Return the state as bytes that `restore` takes, in this process or another."""
        body = _SNAPSHOT_MAGIC + self.game.fingerprint + self._encoded()
        return body + _checksum(body)

    def restore(self, snapshot: bytes) -> None:
        """Go to the state of a snapshot of the same game.

        Raises:
            DataError: not a snapshot, a damaged one, or one of another game; the engine keeps its state.
        """
        game = self.game
        body, checksum = snapshot[:-_CHECKSUM_SIZE], snapshot[-_CHECKSUM_SIZE:]
        header = len(_SNAPSHOT_MAGIC) + len(game.fingerprint)
        if not body.startswith(_SNAPSHOT_MAGIC) or _checksum(body) != checksum:
            raise DataError("this is not an undamaged ALFWorld snapshot; pass the bytes that snapshot() returned")
        if body[len(_SNAPSHOT_MAGIC) : header] != game.fingerprint:
            raise DataError(
                f"the snapshot belongs to another game than {game.record.id} (or to another numbering or wording); "
                "restore it in an engine of its own game"
            )
        sizes = len(game.object_names), len(game.receptacle_names), len(game.location_names)
        try:
            state = State.decode(body[header:], *sizes)
        except ValueError as error:
            raise DataError(f"the snapshot of {game.record.id} is malformed ({error}); take a new one") from error
        self._enter(state)

    def clone(self) -> Engine:
        """Return an independent engine in the same state."""
        twin = Engine.__new__(Engine)
        twin.game = self.game
        twin.state = self.state.copy()
        twin.accepted = self.accepted
        twin._won = self._won
        # Both caches are replaced when outdated, never changed in place.
        twin._actions = self._actions
        twin._admissible = self._admissible
        twin._observation_key = self._observation_key
        twin._places = self._places
        return twin

    @property
    def dynamics_key(self) -> str:
        """Hash of all that decides admissible commands, wins and every text except that of `look`."""
        return self._key(self.state.encode(len(self.game.object_names), with_left=False))

    @property
    def observation_key(self) -> str:
        """Hash of the complete state: equal keys, equal futures, in any process."""
        if self._observation_key is None:
            self._observation_key = self._key(self._encoded())
        return self._observation_key

    def _encoded(self) -> bytes:
        if self._places is None:
            self._places = self.state.encode_places(with_left=True)
        return self.state.encode_rest(len(self.game.object_names)) + self._places

    def _key(self, state: bytes) -> str:
        return hashlib.blake2b(self.game.fingerprint + state, digest_size=16).hexdigest()

    def _enter(self, state: State) -> None:
        self.state = state
        self.accepted = True
        self._moved()

    def _moved(self) -> None:
        """Forget what the state implies; for effects that change contents and the hand."""
        self._places = None
        self._outdate()

    def _outdate(self) -> None:
        """Forget what follows from location and openings; for effects that change them."""
        self._actions = None
        self._admissible = None
        self._treated()

    def _treated(self) -> None:
        """Forget what follows from the condition of the objects; for effects that change it."""
        self._won = None
        self._observation_key = None

    def _offered(self) -> dict[str, Action]:
        if self._actions is None:
            self._actions = self._offer()
        return self._actions

    def _offer(self) -> dict[str, Action]:
        """List the admissible commands except `go to` and those that are always admissible."""
        game, state = self.game, self.state
        names, held = game.object_names, state.held
        held_name = names[held] if held != NOTHING else ""
        actions: dict[str, Action] = {}
        for r in game.receptacles_at[state.location]:
            place = game.receptacle_names[r]
            actions["examine " + place] = (Engine._examine_receptacle, r, NOTHING)
            accessible = True
            if r in game.openable:
                accessible = bool(state.opened >> r & 1)
                if accessible:
                    actions["close " + place] = (Engine._close, r, NOTHING)
                else:
                    actions["open " + place] = (Engine._open, r, NOTHING)
            if held == NOTHING:
                if accessible:
                    for o in state.contents[r]:
                        if o in game.pickupable:
                            actions[f"take {names[o]} from {place}"] = (Engine._take, o, r)
            else:
                if accessible and held in game.accepts[r]:
                    actions[game.put_command(held, r)] = (Engine._move, held, r)
                kind = game.receptacle_types[r]
                if kind == tables.SINK_TYPE and held in game.cleanable:
                    actions[f"clean {held_name} with {place}"] = (Engine._clean, held, r)
                elif kind == tables.MICROWAVE_TYPE and held in game.heatable:
                    actions[f"heat {held_name} with {place}"] = (Engine._heat, held, r)
                elif kind == tables.FRIDGE_TYPE and held in game.coolable:
                    actions[f"cool {held_name} with {place}"] = (Engine._cool, held, r)
            for o in game.toggleable:
                if o in state.contents[r]:
                    actions["use " + names[o]] = (Engine._use, o, NOTHING)
        if held != NOTHING:
            actions["examine " + held_name] = (Engine._examine_object, held, NOTHING)
            if held in game.knives:
                for o in state.present[state.location]:
                    if o in game.sliceable:
                        actions[f"slice {names[o]} with {held_name}"] = (Engine._slice, o, held)
        return actions

    def _goal_holds(self) -> bool:
        game, state = self.game, self.state
        kind = game.record.goal[0]
        if kind == "light":
            return state.held in game.goal_objects and any(
                o in game.goal_lamps and state.toggled >> o & 1
                for r in game.receptacles_at[state.location]
                for o in state.contents[r]
            )
        needed = 2 if kind == "two" else 1
        for r in game.goal_receptacles:
            found = [o for o in state.contents[r] if o in game.goal_objects]
            if kind == "isclean":
                found = [o for o in found if state.clean >> o & 1]
            elif kind == "ishot":
                found = [o for o in found if state.hot >> o & 1]
            elif kind == "iscool":
                found = [o for o in found if state.cool >> o & 1]
            if len(found) >= needed:
                return True
        return False

    # Effects. Each assumes that its command is admissible and returns the feedback.

    def _go_to(self, r: int) -> str:
        game = self.game
        self.state.location = game.receptacle_locations[r]
        self._outdate()
        if game.logic_version == "0.4.2":
            return f"You arrive at {game.receptacle_names[r]}. {self._describe(r)}"
        return f"You arrive at {game.location_names[self.state.location]}. {self._describe(r)}"

    def _open(self, r: int, _: int) -> str:
        self.state.opened |= 1 << r
        self._outdate()
        return f"You open the {self.game.receptacle_names[r]}. {self._describe(r)}"

    def _close(self, r: int, _: int) -> str:
        self.state.opened &= ~(1 << r)
        self._outdate()
        return f"You close the {self.game.receptacle_names[r]}."

    def _take(self, o: int, r: int) -> str:
        state = self.state
        state.contents[r] = without_index(state.contents[r], o)
        state.present[state.location] = without_index(state.present[state.location], o)
        state.left[r] = with_index(state.left[r], o)
        state.held = o
        self._moved()
        return f"You pick up the {self.game.object_names[o]} from the {self.game.receptacle_names[r]}."

    def _move(self, o: int, r: int) -> str:
        state = self.state
        state.contents[r] = with_index(state.contents[r], o)
        state.present[state.location] = with_index(state.present[state.location], o)
        state.left[r] = without_index(state.left[r], o)
        state.held = NOTHING
        self._moved()
        thing, place = self.game.object_names[o], self.game.receptacle_names[r]
        if self.game.logic_version == "0.4.2":
            return f"You move the {thing} to the {place}."
        return f"You put the {thing} in/on the {place}."

    def _clean(self, o: int, r: int) -> str:
        self.state.clean |= 1 << o
        self._treated()
        return f"You clean the {self.game.object_names[o]} using the {self.game.receptacle_names[r]}."

    def _heat(self, o: int, r: int) -> str:
        self.state.hot |= 1 << o
        self.state.cool &= ~(1 << o)
        self._treated()
        return f"You heat the {self.game.object_names[o]} using the {self.game.receptacle_names[r]}."

    def _cool(self, o: int, r: int) -> str:
        self.state.cool |= 1 << o
        self.state.hot &= ~(1 << o)
        self._treated()
        return f"You cool the {self.game.object_names[o]} using the {self.game.receptacle_names[r]}."

    def _use(self, o: int, _: int) -> str:
        self.state.toggled |= 1 << o
        self._treated()
        return f"You turn on the {self.game.object_names[o]}."

    def _slice(self, o: int, knife: int) -> str:
        self.state.sliced |= 1 << o
        self._treated()
        return f"You sliced the {self.game.object_names[o]} with the {self.game.object_names[knife]}."

    def _examine_receptacle(self, r: int, _: int) -> str:
        return self._describe(r)

    def _examine_object(self, o: int, _: int) -> str:
        game, state = self.game, self.state
        name = game.object_names[o]
        if o in game.containers:
            return f"This is a normal {name}. In it, you see {self._listing(game.inner[o])}."
        return texts.condition(
            name,
            clean=bool(state.clean >> o & 1),
            hot=bool(state.hot >> o & 1),
            cool=bool(state.cool >> o & 1),
            sliced=bool(state.sliced >> o & 1),
            lit=o in game.toggleable and bool(state.toggled >> o & 1),
            sliceable=o in game.sliceable,
        )

    def _inventory(self) -> str:
        if self.state.held == NOTHING:
            return texts.EMPTY_HANDED
        return f"You are carrying: a {self.game.object_names[self.state.held]}."

    def _look(self) -> str:
        game, state = self.game, self.state
        here = game.receptacles_at[state.location]
        if not here:
            return texts.ROOM.format("nothing")
        facing = texts.listing([game.receptacle_names[r] for r in here])
        moved = tuple(o for o in state.present[state.location] for r in here if o in state.left[r])
        return texts.FACING.format(facing, self._listing(moved))

    def _describe(self, r: int) -> str:
        name = self.game.receptacle_names[r]
        if r not in self.game.openable:
            return f"On the {name}, you see {self._listing(self.state.contents[r])}."
        if self.state.opened >> r & 1:
            return f"The {name} is open. In it, you see {self._listing(self.state.contents[r])}."
        return f"The {name} is closed."

    def _listing(self, objects: tuple[int, ...]) -> str:
        names = self.game.object_names
        return texts.listing([f"a {names[o]}" for o in objects])


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_CHECKSUM_SIZE).digest()
