from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agentgym.envs.webshop.catalogue import Catalogue
from agentgym.envs.webshop.goals import GoalKind
from agentgym.envs.webshop.shop import Shop

ShopOf = Callable[..., Shop]
Golden = Callable[[str], list[Any]]


@pytest.mark.parametrize(
    ("kind", "name", "count"),
    [
        ("synthetic", "goals_small_synthetic_seed7.jsonl.xz", 6910),
        ("human", "goals_small_human_seed7.jsonl", 13),
    ],
)
def test_goals_are_the_original_ones_in_the_original_order(
    shop_of: ShopOf, golden: Golden, kind: GoalKind, name: str, count: int
) -> None:
    expected = golden(name)
    goals = shop_of(kind).goals
    assert len(goals) == len(expected) == count
    for goal, record in zip(goals, expected, strict=True):
        options = dict(goal.options) if isinstance(goal.options, Mapping) else list(goal.options)
        assert (goal.asin, goal.instruction, list(goal.attributes), options, goal.price_upper, goal.weight) == (
            record["asin"],
            record["instruction_text"],
            record["attributes"],
            record["goal_options"],
            record["price_upper"],
            record["weight"],
        )
        if isinstance(options, dict):
            assert list(options) == list(record["goal_options"])


@pytest.fixture
def seeds(shared_data: Path) -> Any:
    return json.loads((shared_data / "webshop" / "golden" / "seeds.json").read_text())


@pytest.mark.parametrize("seed", [7, 8])
def test_prices_follow_the_price_seed(shop_of: ShopOf, small: Catalogue, seeds: Any, seed: int) -> None:
    shop, expected = shop_of(price_seed=seed), seeds["seeds"][str(seed)]
    drawn = {p.asin: price for p, price in zip(small.products, shop.prices, strict=True) if len(p.pricing) == 2}
    assert drawn == expected["prices_of_range_priced_products"]
    lines = "\n".join(f"{goal.asin}\t{goal.instruction}\t{goal.price_upper!r}" for goal in shop.goals)
    assert hashlib.sha256(lines.encode()).hexdigest() in expected.values()


@pytest.mark.parametrize("kind", ["synthetic", "human"])
def test_sessionless_resets_repeat(shop_of: ShopOf, seeds: Any, kind: GoalKind) -> None:
    shop = shop_of(kind)
    random = Random()
    random.setstate(shop.stream)
    for name, index in seeds["fresh_env_sessions"][kind]:
        assert "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=10)) == name
        assert shop.draw_goal(random) == index


def test_the_order_of_goals_does_not_depend_on_the_price_seed(shop_of: ShopOf) -> None:
    one, other = shop_of(price_seed=7).goals, shop_of(price_seed=8).goals
    assert [(goal.asin, goal.options) for goal in one] == [(goal.asin, goal.options) for goal in other]
    assert sum(a.price_upper != b.price_upper for a, b in zip(one, other, strict=True)) > 4000


def test_some_of_the_goals(shop_of: ShopOf, seeds: Any) -> None:
    shop = shop_of()
    drawn = shop.narrowed(lambda index, goal: True, 25)
    assert [shop.goals.index(goal) for goal in drawn.goals] == seeds["limit_goals_25"]
    assert len(drawn.cumulated) == 26 and drawn.stream != shop.stream
    even = shop.narrowed(lambda index, goal: index % 2 == 0)
    assert even.goals == shop.goals[::2] and even.stream == shop.stream and len(shop.goals) == 6910
