"""An agent that plays from text alone: it knows what it has read and what it has done, never the engine's state.

It reads the room list and the task from the first observation, looks for the object receptacle by receptacle in a
fixed order (types by :func:`~.prior.search_order`, within a type as the room lists them, skipping what was seen) and
does what the family of the task asks for. Only observations change its beliefs, and one list of wishes
(:meth:`Seeker._wishes`) turns beliefs into a command: the first wish that was not refused in this place. When there is
none, it forgets what it saw and starts over. So it is deterministic, cannot get stuck on one command, answers any
text with some command, and is a teacher that a small policy can imitate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .prior import search_order

_ROOM = re.compile(r"Looking quickly around you, you see ([^.\n]*)")
_ITEM = re.compile(r"\ba ([a-z]+ \d+)")
_LISTED = re.compile(r"(?:On the ([a-z]+ \d+)|The ([a-z]+ \d+) is open\. In it), you see ([^.\n]*)")
_CLOSED = re.compile(r"The ([a-z]+ \d+) is closed\.")

# Family and sentence, the more specific first. Groups: object, then goal receptacle or lamp.
_SENTENCES = tuple(
    (family, re.compile(pattern))
    for family, pattern in (
        ("look", r"(?:look at|examine the) ([a-z]+) (?:under|with) the ([a-z]+)"),
        ("two", r"(?:put|find) two ([a-z]+)(?: and put them)? in ([a-z]+)"),
        ("clean", r"(?:put a clean|clean some) ([a-z]+)(?: and put it)? in ([a-z]+)"),
        ("heat", r"(?:put a hot|heat some) ([a-z]+)(?: and put it)? in ([a-z]+)"),
        ("cool", r"(?:put a cool|cool some) ([a-z]+)(?: and put it)? in ([a-z]+)"),
        ("place", r"put (?:a|some) ([a-z]+) (?:in|on) ([a-z]+)"),
    )
)
_APPLIANCES = {"clean": ("sinkbasin", "bathtubbasin"), "heat": ("microwave",), "cool": ("fridge",)}
_SUCCESS = {
    "go": "You arrive at",
    "open": "You open the",
    "examine": "",
    "take": "You pick up the",
    "move": "You move the",
    "clean": "You clean the",
    "heat": "You heat the",
    "cool": "You cool the",
}


def read_task(text: str) -> tuple[str, str, str] | None:
    """Family, object and goal receptacle (for ``look``: lamp) of a template sentence; None for any other text."""
    for family, pattern in _SENTENCES:
        found = pattern.search(text)
        if found:
            return family, found[1], found[2]
    return None


def _base(name: str) -> str:
    return name.partition(" ")[0]


class Seeker:
    """Plays one episode; make a new one for each.

    Its beliefs are: what lies in each receptacle seen inside, which receptacles were last seen closed, which
    receptacles are reached from the same spot (a refused ``go to`` tells), the spot where it stands, what it holds,
    and what it has already treated and delivered.
    """

    def __init__(self) -> None:
        self._family, self._target, self._goal = "", "", ""
        self._spots: dict[str, int] = {}  # receptacle, in the order of the room list -> number of its spot
        self._contents: dict[str, list[str]] = {}
        self._closed: set[str] = set()
        self._here = -1
        self._held = ""
        self._treated: set[str] = set()
        self._delivered: set[str] = set()
        self._refused: set[tuple[int, str]] = set()  # (spot, command)
        self._last = ""

    def act(self, observation: str, info: Mapping[str, object]) -> str:
        """Return the command that answers an observation.

        Args:
            observation: what the environment said; at the first call what ``reset`` returned.
            info: what the environment returned beside it; not used.
        """
        if self._last:
            self._learn(observation)
        else:
            self._begin(observation)
        self._last = self._choose()
        return self._last

    # Beliefs.

    def _begin(self, intro: str) -> None:
        room = _ROOM.search(intro)
        names = _ITEM.findall(room[1]) if room else []
        self._spots = {name: spot for spot, name in enumerate(dict.fromkeys(names))}
        self._family, self._target, self._goal = read_task(intro.rpartition("Your task is to:")[2]) or ("", "", "")

    def _learn(self, observation: str) -> None:
        """Change the beliefs by the last command and the answer to it."""
        verb, *words = self._last.split()
        first, second = " ".join(words[:2]), " ".join(words[3:])
        for on, inside, items in _LISTED.findall(observation):
            self._contents[on or inside] = _ITEM.findall(items)
        self._closed.update(_CLOSED.findall(observation))
        done = verb in _SUCCESS and _SUCCESS[verb] in observation
        if verb == "go":
            place = " ".join(words[1:])
            if done:
                self._here = self._spots[place]
            else:  # it is here already: it shares the spot of the last one
                self._spots[place] = self._here
        elif verb == "open":
            self._closed.discard(first)
            self._contents.setdefault(first, [])
        elif verb == "examine":
            if first not in self._closed:
                self._contents.setdefault(first, [])
        elif verb == "take":
            self._contents[second] = [name for name in self._contents[second] if name != first]
            self._held = first if done else ""
        elif verb == "move" and done:
            self._held = ""
            self._delivered.add(first)
            self._contents.setdefault(second, []).append(first)
        elif verb in _APPLIANCES and done:
            self._treated.add(first)
        if not done:
            self._refused.add((self._here, self._last))

    # Decisions.

    def _choose(self) -> str:
        for command in self._wishes():
            if (self._here, command) not in self._refused:
                return command
        self._refused.clear()
        self._contents.clear()
        self._treated.clear()
        self._delivered.clear()
        return next(self._wishes(), "look")

    def _wishes(self) -> Iterator[str]:
        """Commands in order of preference."""
        if not self._held:
            yield from self._fetch()
            yield from self._search(self._target)
        elif self._family == "look":
            for place, lamp in self._known(self._goal):
                yield self._at(place, f"use {lamp}")
            yield from self._search(self._goal)
        else:
            if self._held not in self._treated:
                for appliance in _APPLIANCES.get(self._family, ()):
                    for place in self._named(appliance):
                        yield self._at(place, f"{self._family} {self._held} with {place}")
            for place in self._goals():
                yield self._inside(place, f"move {self._held} to {place}")

    def _fetch(self) -> Iterator[str]:
        keep = self._goals()[:1] if self._family == "two" else []
        for place, thing in self._known(self._target):
            if place not in keep and thing not in self._delivered:
                yield self._at(place, f"take {thing} from {place}")

    def _search(self, base: str) -> Iterator[str]:
        """Look into what was not seen yet, the likeliest type first."""
        rank = {rtype: number for number, rtype in enumerate(search_order(base))}
        unseen = [place for place in self._spots if place not in self._contents]
        for place in sorted(unseen, key=lambda place: rank.get(_base(place), len(rank))):
            yield self._inside(place, f"examine {place}")

    def _at(self, place: str, command: str) -> str:
        """The next step of doing something at a receptacle."""
        return command if self._spots[place] == self._here else f"go to {place}"

    def _inside(self, place: str, command: str) -> str:
        """The next step of doing something in a receptacle that may be closed."""
        if place in self._closed:
            return self._at(place, f"open {place}")
        return self._at(place, command if place in self._contents else f"examine {place}")

    def _named(self, base: str) -> list[str]:
        return [place for place in self._spots if _base(place) == base]

    def _known(self, base: str) -> list[tuple[str, str]]:
        """Where objects of a type were seen, as (receptacle, object), what is here first."""
        seen = [
            (place, thing)
            for place, things in self._contents.items()
            for thing in things
            if _base(thing) == base and place in self._spots
        ]
        return sorted(seen, key=lambda pair: self._spots[pair[0]] != self._here)

    def _goals(self) -> list[str]:
        """Receptacles of the goal type, the one that holds the most objects of the target type first."""
        counts = {
            place: sum(_base(thing) == self._target for thing in self._contents.get(place, ()))
            for place in self._named(self._goal)
        }
        return sorted(counts, key=lambda place: -counts[place] if self._family == "two" else 0)
