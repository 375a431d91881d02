"""Demonstrations to learn from: the seeker, with a peer's experience, detours, or an order of search of its own.

A policy can only learn what its context shows, so a demonstrator that has read a peer's episode knows where that peer
found things and nothing else, and a detour is marked as not worth imitating.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agentgym.episode import Episode
from agentgym.seeding import Seed

from .seeker import Seeker


class Demonstrator(Seeker):
    """Plays one episode as a teacher.

    Args:
        seed: fixes detours and the order of search.
        peer: a successful episode of the same game that the demonstrator has read; None for none.
        wander: search in a random order instead of the likeliest first.
        stray: probability of a detour in each turn: going to some receptacle for no reason.

    Attributes:
        exemplary: whether the last action is worth imitating.
    """

    def __init__(self, seed: Seed, *, peer: Episode | None = None, wander: bool = False, stray: float = 0.0) -> None:
        super().__init__()
        self.exemplary = True
        self._random = seed.generator()
        self._peer = peer
        self._wander = wander
        self._stray = stray
        self._order: dict[str, float] = {}
        self._found: dict[str, str] = {}  # object -> the receptacle where the peer took or used it
        self._put: list[str] = []  # where the peer put things

    def act(self, observation: str, info: Mapping[str, object]) -> str:
        """The seeker's command, or a detour."""
        command = super().act(observation, info)
        places = [name for name, spot in self._spots.items() if spot != self._here]
        self.exemplary = not (places and self._random.random() < self._stray)
        if not self.exemplary:
            command = self._last = f"go to {places[int(self._random.integers(len(places)))]}"
        return command

    def _begin(self, intro: str) -> None:
        super()._begin(intro)
        if self._wander:
            self._order = {name: float(self._random.random()) for name in self._spots}
        place = ""
        for turn in self._peer.turns if self._peer is not None else ():
            verb, *words = turn.action.split()
            if turn.action_accepted is False:
                continue
            if verb == "go":
                place = " ".join(words[1:])
            elif verb == "take":
                self._found[" ".join(words[:2])] = " ".join(words[3:])
            elif verb == "use" and place:
                self._found[" ".join(words[:2])] = place
            elif verb == "move":
                self._put.append(" ".join(words[3:]))

    def _fetch(self) -> Iterator[str]:
        yield from super()._fetch()
        for place, thing in self._reported(self._target):
            if thing not in self._delivered:
                yield self._inside(place, f"take {thing} from {place}")

    def _search(self, base: str) -> Iterator[str]:
        for place, thing in self._reported(base):
            if base == self._goal:
                yield self._at(place, f"use {thing}")
        found = super()._search(base)
        if not self._order:
            yield from found
            return
        unseen = [place for place in self._spots if place not in self._contents]
        for place in sorted(unseen, key=self._order.__getitem__):
            yield self._inside(place, f"examine {place}")

    def _goals(self) -> list[str]:
        goals = super()._goals()
        if self._family == "two" and self._delivered:
            return goals
        return sorted(goals, key=lambda place: place not in self._put)

    def _reported(self, base: str) -> list[tuple[str, str]]:
        """What the peer found and this episode has not seen yet, as (receptacle, object)."""
        return [
            (place, thing)
            for thing, place in self._found.items()
            if thing.partition(" ")[0] == base and place in self._spots and place not in self._contents
        ]
