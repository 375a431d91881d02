"""Golden digests: a fixed walk through a game, hashed, that any implementation of the game must reproduce.

The walk covers observation, admissible commands and goal test at the reset and after every step. The digests of the
official splits below belong to the wording 0.4.2; equal digests mean step-for-step equal play.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from .engine import Engine
from .game import Game

STEPS = 50

SPLIT_DIGESTS = {
    "train": "958d84d5b7ecfd39364310310a8cedca96e063823d0e5864683bde7e27b2d937",
    "valid_seen": "e71cca3a2fc580bdc72fcc53d88b51aa4b2a64217e5c6507bf94fa1244251bf0",
    "valid_unseen": "672057f5aae7a8e2fb8b4fa0bb6bff9991f74d782ec17c347090f0fdef0b27f0",
}
"""Official split -> `split_digest` of its games, ascending by id."""


def play_digest(game: Game) -> str:
    """SHA-256 (hex) of what `STEPS` fixed commands show in a game.

    Every fourth command is a `go to`; most others act on things; every tenth is any admissible command.
    """
    engine = Engine(game)
    admissible = engine.admissible
    shown = [f"{engine.reset()}\n{'|'.join(admissible)}\n"]
    for i in range(STEPS):
        if i % 4 == 0:
            choices = [command for command in admissible if command.startswith("go to ")]
        else:
            choices = [
                command
                for command in admissible
                if not command.startswith("go to ") and command not in ("help", "inventory", "look")
            ]
        if i % 10 == 9 or not choices:
            choices = list(admissible)
        command = choices[(31 * i + 17) % len(choices)]
        observation = engine.step(command)
        admissible = engine.admissible
        shown.append(f"{command}\n{observation}\n{int(engine.won)}\n{'|'.join(admissible)}\n")
    return hashlib.sha256("".join(shown).encode()).hexdigest()


def split_digest(digests: Iterable[str]) -> str:
    """SHA-256 (hex) over the digests of the games of a split, in order."""
    return hashlib.sha256("".join(f"{digest}\n" for digest in digests).encode()).hexdigest()
