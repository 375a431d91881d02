"""Do the chosen options meet those of the goal? Two rules: the original's, and one that looks at groups.

The original replaces a value by the first colour word in it. For a generated goal it does so on the *pair* (group,
value), where only a value that is a colour word changes, and compares the printed pair. So some goals cannot be met
even by the right product with the right options; `matches_fixed` has no such goal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from .catalogue import Options
from .fuzzy import similar

_COLOURS = (
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel "
    "camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry "
    "cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey "
    "heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight "
    "mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow "
    "red rose royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal "
    "tiger turquoise violet walnut wheat white wine yellow"
)
COLOURS = tuple(_COLOURS.split())
"""Colour words, in alphabetical order; the first that is found counts."""


@lru_cache(maxsize=1 << 14)
def colour_of(value: str) -> str:
    """The first colour word that is part of the value, be it inside another word; the value if there is none."""
    return next((colour for colour in COLOURS if colour in value), value)


@lru_cache(maxsize=1 << 14)
def _pair(group: str, value: str) -> str:
    """A goal's pair as the original compares it: a colour word if one of the two is one, else the pair as printed."""
    return next((colour for colour in COLOURS if colour in (group, value)), str((group, value)))


def matches_upstream(goal: Mapping[str, str] | tuple[str, ...], chosen: Mapping[str, str]) -> int:
    """How many options of the goal are met by some chosen value, by the original's rule."""
    wanted = [_pair(*pair) for pair in goal.items()] if isinstance(goal, Mapping) else [colour_of(one) for one in goal]
    values = [colour_of(value) for value in chosen.values()]
    return sum(any(similar(value, one) for value in values) for one in wanted)


def matches_fixed(goal: Mapping[str, str] | tuple[str, ...], chosen: Mapping[str, str], offered: Options) -> int:
    """How many options of the goal are met, by group.

    Args:
        goal: options of the goal.
        chosen: chosen value of each group.
        offered: option groups of the product that was bought; a group that it has counts alone.
    """
    values = tuple(chosen.values())
    if not isinstance(goal, Mapping):
        return sum(_any_meets(values, one) for one in goal)
    met = 0
    for group, value in goal.items():
        if group in offered:
            met += group in chosen and _meets(chosen[group], value)
        else:
            met += _any_meets(values, value)
    return met


def _any_meets(values: Iterable[str], wanted: str) -> bool:
    return any(_meets(value, wanted) for value in values)


def _meets(value: str, wanted: str) -> bool:
    return value.lower().strip() == wanted.lower().strip() or similar(colour_of(value), colour_of(wanted))
