"""Where to look first: receptacle types in order of how likely one of them holds an object of a given type.

Derived from the room statistics alone, pooled over the kinds of room in which the object occurs. The score of a
receptacle type is the expected number of such objects in *one* receptacle of the type, divided by the commands that
looking there takes (two where the receptacle usually has a door). The order is a fixed table per object type: it
depends neither on the room nor on what has happened, so that a policy can learn it by heart.
"""

from __future__ import annotations

from functools import cache

from .rooms import OPENABLE, ROOMS, SCENES


@cache
def search_order(base: str) -> tuple[str, ...]:
    """Receptacle types (lower case, as names show them) from the most to the least likely place of an object.

    Args:
        base: object name without its number, e.g. ``"apple"``; a type outside the room tables gets the order of an
            average object.
    """
    average = _scores(None)
    scores = _scores(base) or average
    return tuple(sorted(average, key=lambda rtype: (-scores.get(rtype, 0.0), -average[rtype], rtype)))


@cache
def _scores(base: str | None) -> dict[str, float]:
    """Receptacle type to expected finds per command, for one object type or (None) for all objects together."""
    found: dict[str, float] = {}
    receptacles: dict[str, int] = {}
    for room in ROOMS:
        chosen = [stats for stats in room.objects if base is None or stats.otype.lower() == base]
        if not chosen:
            continue
        for rtype, counts in room.receptacles.items():
            receptacles[rtype] = receptacles.get(rtype, 0) + sum(counts)
        for stats in chosen:
            for rtype, weight in stats.places.items():
                found[rtype] = found.get(rtype, 0.0) + SCENES * stats.mean_placed * weight / 100
    return {
        rtype.lower(): found.get(rtype, 0.0) / number / (2 if OPENABLE.get(rtype, 0.0) > 0 else 1)
        for rtype, number in receptacles.items()
    }
