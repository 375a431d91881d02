from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agentgym
from agentgym.envs.webshop.observe import MODES
from agentgym.envs.webshop.shop import Shop
from agentgym.envs.webshop.upstream import UpstreamEnv

from .pages import PageReader


@pytest.fixture(scope="module")
def walks(golden: Callable[[str], list[Any]]) -> list[Any]:
    return golden("walks.jsonl.xz")


def seen(html: str) -> tuple[object, ...]:
    page = PageReader(html)
    return page.texts, page.controls, page.ids


def test_every_step_of_the_recorded_episodes(walks: list[Any], shop_of: Callable[..., Shop]) -> None:
    steps = 0
    for walk in walks:
        kind = "human" if walk["human_goals"] else "synthetic"
        env = UpstreamEnv(shop_of(kind, walk["price_seed"]), **walk["env_kwargs"])
        env.reset(walk["session"])
        assert (env.session, env.goal_index) == (walk["session_id"], walk["goal_index"])
        for number, step in enumerate(walk["steps"]):
            where = f"{walk['id']} step {number}"
            steps += 1
            if step["action"] is not None:
                observation, reward, done, info = env.step(step["action"])
                if step.get("error"):
                    assert info == {"upstream_error": step["error"]}, where
                else:
                    assert (reward, done, info) == (step["reward"], step["done"], None), where
                    assert observation == step.get("returned", step["text"]), where
            assert env.observation == step["text"], where
            assert env.state["url"] == step["url"], where
            actions = {"has_search_bar": step["has_search_bar"], "clickables": step["clickables"]}
            assert env.get_available_actions() == actions, where
            if step.get("html"):
                assert seen(env.state["html"]) == seen(step["html"]), where
    assert steps == 387


@pytest.mark.parametrize("mode", MODES)
def test_walks_behind_the_contract(walks: list[Any], shared_data: Path, mode: str) -> None:
    for walk in [
        one for one in walks if one["kind"] in ("edge", "magic_random", "magic_attr", "history", "show_attrs")
    ]:
        options = {} if mode == "html" else walk["env_kwargs"]
        env = agentgym.make(
            "webshop",
            compat="upstream",
            goals="human" if walk["human_goals"] else "synthetic",
            price_seed=walk["price_seed"],
            observation=mode,
            max_steps=100,
            data=shared_data,
            **options,
        )
        observation, info = env.reset(options={"task": walk["goal_index"]})
        repeats = "num_prev_obs" in options
        for step in walk["steps"]:
            if step["action"] is not None:
                observation, reward, terminated, truncated, info = env.step(step["action"])
                assert (reward, terminated) == (step["reward"] or 0, bool(step["done"])) and not truncated
                assert info.get("upstream_error") == step.get("error")
            if mode == "html":
                assert not step.get("html") or walk["env_kwargs"] or seen(observation) == seen(step["html"])
            elif not repeats:
                assert observation == step[mode]
            elif mode == "text":
                assert observation == step["returned"]
            shown = {"clickables": info["clickables"], "has_search_bar": info["has_search_bar"]}  # type: ignore[typeddict-item]
            assert mode == "html" or shown == {key: step[key] for key in shown}


def test_sessions_without_a_name(walks: list[Any], shared_data: Path, shop_of: Callable[..., Shop]) -> None:
    walk = next(one for one in walks if one["kind"] == "random_session")
    env = agentgym.make("webshop", compat="upstream", observation="url", data=shared_data)
    url, info = env.reset()
    assert (url, info["task"]) == (walk["steps"][0]["url"], f"small-synthetic-{walk['goal_index']}")

    other = UpstreamEnv(shop_of())
    first = other.goal_index
    other.reset(5)
    assert (other.session, other.goal_index) == ("5", 5)
    other.reset("name")
    drawn = other.goal_index
    other.reset(-1)
    assert (other.session, other.goal_index) == ("-1", 6909)
    other.reset("name")
    assert other.goal_index == drawn and first == 5893
    with pytest.raises(IndexError, match="6910"):
        other.reset(6910)
    assert other.reset("name", "Buy tea")[0] and other.instruction_text == "Buy tea"
    other.close()


def test_errors_can_be_raised(shop_of: Callable[..., Shop]) -> None:
    env = UpstreamEnv(shop_of(), strict_errors=True)
    for action, error in [("search[<a> x]", TypeError), ("search[<c>]", IndexError)]:
        with pytest.raises(error):
            env.step(action)
    env = UpstreamEnv(shop_of())
    env.step("search[shorts]")
    env.step(f"click[{env.get_available_actions()['clickables'][2]}]")
    before = env.observation
    assert env.step("search[<a>]")[3] == {"upstream_error": "TypeError"}
    # The page stays, but the original has forgotten the product.
    assert env.observation == before
    assert env.step("click[buy now]")[1:] == (0.0, False, {"upstream_error": "KeyError"})
    assert env.step("click[back to search]")[3] is None
