"""The fixed wording of the game. These strings are the interface of ALFWorld and match it to the letter."""

from __future__ import annotations

from collections.abc import Sequence

NOTHING_HAPPENS = "Nothing happens."
EMPTY_HANDED = "You are not carrying anything."
ROOM = "You are in the middle of a room. Looking quickly around you, you see {}."
FACING = "You are facing the {}. Next to it, you see {}."
HELP = """Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""


def listing(items: Sequence[str]) -> str:
    """Join items as the game does: `nothing`, `a`, `a, and b`, `a, b, and c`."""
    if not items:
        return "nothing"
    if len(items) == 1:
        return items[0]
    return f"{', '.join(items[:-1])}, and {items[-1]}"


def condition(name: str, *, clean: bool, hot: bool, cool: bool, sliced: bool, lit: bool, sliceable: bool) -> str:
    """Describe a held object that is not a container.

    Heat and cleanliness hide whether a lamp is on; merely sliced is told last, and only of sliceable objects.
    """
    words = [word for word, true in (("hot", hot), ("cool", cool and not hot), ("clean", clean)) if true]
    if words == ["cool"] and not sliced:
        return f"This is a cold {name}."
    if words:
        return f"This is a {' and '.join(words)} {'sliced ' if sliced else ''}{name}."
    if lit:
        return f"This {name} is on."
    if sliceable and sliced:
        return f"This is a sliced {name}."
    return f"There's nothing special about {name}."
