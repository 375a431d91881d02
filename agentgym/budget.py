"""Money: what was spent, and a limit that is kept.

Invariant: what was spent and the most that all requests in flight can cost are never more than the limit together, so
that the limit holds whatever they come to.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable

from .errors import BudgetError


def known_sum(costs: Iterable[float | None]) -> float | None:
    """The sum of those costs that are known, whatever their order; None if none is."""
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if known else None


class Budget:
    """What an agent pays from.

    Args:
        limit: most that may be spent, in the currency of the prices; None for no limit.

    Attributes:
        limit: as given.
        spent: what was spent; a run that goes on counts what it spent before.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit
        self.spent = 0.0
        self._held: list[float] = []
        self._waiting: list[asyncio.Future[None]] = []

    async def hold(self, most: float) -> None:
        """Sets money aside for one request; waits while requests in flight may still leave enough of it.

        Args:
            most: the most that the request can cost.

        Raises:
            BudgetError: if it can no longer be paid for.
        """
        while self.limit is not None and self.spent + sum(self._held) + most > self.limit:
            if not self._held:
                raise BudgetError(
                    f"the budget of {self.limit:g} is spent ({self.spent:.6f}; the next request can cost {most:.6f}); "
                    "the same command with a larger budget goes on"
                )
            freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(freed)
            await freed
        self._held.append(most)

    def settle(self, most: float, cost: float) -> None:
        """Ends what `hold` began.

        Args:
            most: what was held.
            cost: what the request cost.
        """
        self._held.remove(most)
        self.spent += cost
        waiting, self._waiting = self._waiting, []
        for freed in waiting:
            if not freed.done():
                freed.set_result(None)
