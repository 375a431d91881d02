from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import agentgym
from agentgym.env import TextEnv


def shop(env: TextEnv, task: int, before: tuple[str, ...] = ()) -> float:
    """Follows the plan, made anew at every step; the score."""
    _, info = env.reset(options={"task": task})
    for action in before:
        *_, info = env.step(action)
    over = False
    while not over:
        plan = info.get("expert_plan")
        assert plan
        *_, terminated, truncated, info = env.step(plan[0])
        over = terminated or truncated
    return info["score"]


@pytest.mark.parametrize("split", ["generated_test", "generated_human"])
def test_it_buys_what_is_asked_for(split: str) -> None:
    env = agentgym.make("webshop", split=split, expert_plan=True)
    assert [shop(env, task) for task in range(0, len(env.panel), 5)] == [1.0] * len(range(0, len(env.panel), 5))


def test_it_finds_its_way_from_any_page() -> None:
    env = agentgym.make("webshop", split="generated_all", expert_plan=True)
    _, info = env.reset(options={"task": 0})
    plan: Any = info.get("expert_plan")
    wrong = env.step("search[lotion]")[4]["admissible_actions"]
    assert wrong is not None
    for before in (
        ("search[lotion]",),
        ("search[lotion]", wrong[3], "click[features]"),
        (*plan[:2], "click[description]"),
        (*plan[:3], "nonsense"),
        (plan[0], "click[next >]"),
    ):
        assert shop(env, 0, before) == 1.0, before
    *_, info = env.step("click[buy now]")
    assert info.get("expert_plan") is None


@pytest.mark.parametrize(("compat", "goals"), [("fixed", "synthetic"), ("upstream", "synthetic"), ("fixed", "human")])
def test_official_goals(shared_data: Path, golden: Any, compat: str, goals: str) -> None:
    env = agentgym.make("webshop", data=shared_data, compat=compat, goals=goals, expert_plan=True)
    tasks = range(0, len(env.panel), 97 if goals == "synthetic" else 1)
    best = [1.0] * len(env.panel)
    if compat == "upstream":
        best = [record["oracle_reward"] for record in golden("goals_small_synthetic_seed7.jsonl.xz")]
    assert [shop(env, task) for task in tasks] == [best[task] for task in tasks]
