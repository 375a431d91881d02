"""How ids become the names that a player reads: `cabinet_bar_1` -> `cabinet 2`.

Every id of the game takes part, also those that no text ever shows: invisible things use up numbers. Numbers are
handed out downwards along the list of ids.
"""

from __future__ import annotations

import random
from collections import Counter

from .record import Facts


def name_ids(facts: Facts, shuffle_seed: int | None = None) -> dict[str, str]:
    """Name every id that occurs in the facts.

    Args:
        facts: facts of a record.
        shuffle_seed: None numbers the ids in code-point order; a seed shuffles them first, which is the domain
            randomisation of ALFWorld (it gives what ALFWorld gives after `random.seed(shuffle_seed)`).

    Returns:
        id -> name, for instance `sink_bar_1_bar_sinkbasin` -> `sinkbasin 1`.
    """
    ids = sorted({term for rows in facts.values() for row in rows for term in row})
    if shuffle_seed is not None:
        random.Random(shuffle_seed).shuffle(ids)
    bases = [_base(identifier) for identifier in ids]
    remaining = Counter(bases)
    names: dict[str, str] = {}
    for identifier, base in zip(ids, bases, strict=True):
        names[identifier] = f"{base} {remaining[base]}"
        remaining[base] -= 1
    return names


def _base(identifier: str) -> str:
    head = identifier.split("_bar_", 1)[0]
    return head + "basin" if "basin" in identifier else head
