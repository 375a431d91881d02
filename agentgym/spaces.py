"""The space of texts that environments show and take.

Gymnasium's `AsyncVectorEnv` with ``shared_memory=True`` reads texts out of that memory once and never again, so that
every observation would be the first one. The space refuses such memory: what would be silently wrong is an error that
names the setting.
"""

from __future__ import annotations

import string
from typing import NoReturn

from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Text
from gymnasium.vector.utils import create_shared_memory


class Printable(Text):
    """Texts of printable ASCII characters.

    Args:
        max_length: most characters.
        min_length: fewest characters.
    """

    def __init__(self, max_length: int, *, min_length: int = 0) -> None:
        super().__init__(max_length, min_length=min_length, charset=string.printable)


@create_shared_memory.register(Printable)
def _refuse(space: Printable, n: int = 1, ctx: object = None) -> NoReturn:
    raise CustomSpaceError("texts cannot be shared between processes in this way; pass shared_memory=False")
