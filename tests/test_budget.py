from __future__ import annotations

import asyncio

import pytest

from agentgym.budget import Budget, known_sum
from agentgym.errors import BudgetError


def test_only_what_is_known_is_summed() -> None:
    assert known_sum([]) is None and known_sum([None, None]) is None
    assert known_sum([None, 0.25, 0.5]) == 0.75
    assert known_sum([0.1] * 10) == 1.0


def test_the_limit_holds_whatever_requests_come_to() -> None:
    budget, highest, refused = Budget(1.0), 0.0, 0

    async def request(number: int) -> None:
        nonlocal highest, refused
        most = 0.09 + 0.01 * (number % 3)
        try:
            await budget.hold(most)
        except BudgetError:
            refused += 1
            return
        await asyncio.sleep(0.0001 * (number % 5))
        budget.settle(most, most / (1 + number % 2))
        highest = max(highest, budget.spent)

    async def all_at_once() -> None:
        await asyncio.gather(*(request(number) for number in range(40)))

    asyncio.run(all_at_once())
    # What requests leave of what was held for them serves others, until not even the smallest can be paid for.
    assert 0.89 < highest <= 1.0 and highest == budget.spent and 0 < refused < 30


def test_a_request_waits_for_what_others_may_leave() -> None:
    async def two() -> list[str]:
        budget, order = Budget(1.0), []
        await budget.hold(0.8)

        async def second() -> None:
            await budget.hold(0.8)
            order.append("second")

        waiting = asyncio.create_task(second())
        await asyncio.sleep(0)
        order.append("first")
        budget.settle(0.8, 0.1)
        await waiting
        return order

    assert asyncio.run(two()) == ["first", "second"]


def test_the_message_says_how_to_go_on() -> None:
    budget = Budget(0.5)
    budget.spent = 0.4
    with pytest.raises(BudgetError, match=r"budget of 0\.5 is spent \(0\.400000.*larger budget goes on"):
        asyncio.run(budget.hold(0.2))
    asyncio.run(Budget().hold(1e9))
