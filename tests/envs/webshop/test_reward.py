from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agentgym.envs.webshop.catalogue import Catalogue
from agentgym.envs.webshop.fuzzy import similarity
from agentgym.envs.webshop.goals import Goal
from agentgym.envs.webshop.options import matches_fixed, matches_upstream
from agentgym.envs.webshop.reward import Judge
from agentgym.envs.webshop.shop import Shop

Golden = Callable[[str], list[Any]]


def as_goal(record: dict[str, Any]) -> Goal:
    options = record["goal_options"]
    return Goal(
        asin=record["asin"],
        instruction="",
        attributes=tuple(record["attributes"]),
        options=options if isinstance(options, dict) else tuple(options),
        price_upper=record["price_upper"],
        weight=1.0,
        name=record["name"],
        query=record["query"],
        category="",
        product_category=record["product_category"],
    )


def test_rewards_and_their_parts_are_the_original_ones(small: Catalogue, golden: Golden) -> None:
    judge = Judge(small)
    records = golden("rewards.jsonl.xz")
    for record in records:
        product = small.get(record["asin"])
        assert product is not None
        value, parts = judge.reward(product, as_goal(record["goal"]), record["price"], record["options"], upstream=True)
        assert value == record["reward"], record["id"]
        assert (parts["n_attr"], parts["n_opt"]) == (record["n_attr"], record["n_opt"]), record["id"]
        assert {key: part for key, part in parts.items() if key in record["info"]} == record["info"], record["id"]
    assert len(records) == 500


def ceiling(shop: Shop, upstream: bool) -> list[float]:
    """Rewards for buying each target with the goal's options."""
    rewards = []
    for goal in shop.goals:
        product = shop.catalogue.get(goal.asin)
        assert product is not None
        if isinstance(goal.options, Mapping):
            chosen = dict(goal.options)
        else:
            chosen = {str(number): value for number, value in enumerate(goal.options)}
        rewards.append(shop.reward(product, goal, chosen, upstream=upstream).value)
    return rewards


def test_what_the_best_shopper_can_reach(shop_of: Callable[..., Shop], golden: Golden) -> None:
    upstream = ceiling(shop_of("synthetic"), upstream=True)
    assert upstream == [record["oracle_reward"] for record in golden("goals_small_synthetic_seed7.jsonl.xz")]
    assert sum(value == 1.0 for value in upstream) == 6452
    assert round(sum(upstream) / len(upstream), 5) == 0.98961 and round(min(upstream), 3) == 0.667
    assert ceiling(shop_of("human"), upstream=True) == [1.0] * 13
    assert set(ceiling(shop_of("synthetic"), upstream=False)) == {1.0}


@pytest.mark.parametrize(
    ("chosen", "goal", "in_list", "in_dict"),
    [
        ("large", "x-large", 1, 1),
        ("x-large", "large", 1, 0),
        ("dark blue", "light blue", 1, 1),
        ("navy", "navy blue", 0, 1),
        ("8 wide", "8", 1, 0),
        ("7.5", "7", 1, 0),
        ("black2626", "black2626", 1, 0),
        ("rectangular", "rectangular", 1, 0),
        ("stonewash", "stone", 0, 0),
        ("café", "cafe", 1, 0),
    ],
)
def test_options_match_as_in_the_original(chosen: str, goal: str, in_list: int, in_dict: int) -> None:
    group = "item shape" if chosen == "rectangular" else "size" if chosen[0].isdigit() else "color"
    assert matches_upstream((goal,), {group: chosen}) == in_list
    assert matches_upstream({group: goal}, {group: chosen}) == in_dict


def test_fixed_options_match_within_their_group() -> None:
    offered = {"color": ("red", "black2626"), "size": ("red", "8")}
    assert matches_fixed({"color": "black2626", "size": "8"}, {"color": "black2626", "size": "8"}, offered) == 2
    assert matches_fixed({"color": "red"}, {"size": "red"}, offered) == 0
    assert matches_fixed({"scent": "red"}, {"size": "red"}, offered) == 1
    assert matches_fixed(("red",), {"size": "red"}, offered) == 1


@pytest.mark.parametrize(
    ("one", "other", "value"),
    [
        ("", "a", 0),
        ("--", "a", 0),
        ("a b", "b", 100),
        ("new york mets", "york mets new", 100),
        ("abc", "abd", 67),
        ("İS", "is", 100),
    ],
)
def test_similarity(one: str, other: str, value: int) -> None:
    assert similarity(one, other) == similarity(other, one) == value
