"""One tree of seeds: run > task > member > turn > request. There is no global random state anywhere in the library.

Invariant: a seed depends on its path alone, never on the order in which seeds are asked for, so that results do not
change with concurrency, batch size or an interruption.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Seed:
    """A node of the seed tree.

    Attributes:
        path: the names and numbers from the root to this node, for example ``(0, "task-17", 3)``.
    """

    path: tuple[int | str, ...]

    def child(self, *parts: int | str) -> Seed:
        """The node reached from this one by ``parts``."""
        return Seed((*self.path, *parts))

    @property
    def value(self) -> int:
        """A number in [0, 2**63) that is fixed by the path on every machine."""
        text = json.dumps(self.path, ensure_ascii=True, separators=(",", ":"))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1

    def generator(self) -> np.random.Generator:
        """A fresh random generator for this node; two calls give the same stream."""
        return np.random.Generator(np.random.Philox(key=self.value))
