"""The recipes that come with the package: one for each credit method, alike but for the method; each trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from agentgym.trainers.config import read_recipe, read_tree
from agentgym.trainers.credit import METHODS, list_credits

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
TINY = ("rollout.tasks=1", "rollout.group=4", "env.max_steps=10", "run.iterations=1", "run.seed=4")
METHOD = pytest.mark.parametrize("method", list_credits())


def path(method: str, env: str = "alfworld") -> Path:
    return RECIPES / f"{env}_{method}_small.toml"


@METHOD
@pytest.mark.parametrize("env", ["alfworld", "webshop"])
def test_recipes_differ_in_the_method_alone(env: str, method: str) -> None:
    trees = [read_tree(path(name, env), ()) for name in (method, "grpo")]
    credit, plain = (tree.pop("credit") for tree in trees)
    assert credit.pop("method") == method and plain.pop("method") == "grpo"
    assert trees[0] == trees[1] and credit == plain | credit
    assert plain == ({"reward": "score"} if env == "webshop" else {})
    assert read_recipe(path(method, env)).method == method


@METHOD
def test_an_environment_is_no_reason_for_another_method(method: str) -> None:
    first, second = (read_tree(path(method, env), ())["credit"] for env in ("alfworld", "webshop"))
    other = {key for key in first | second if first.get(key) != second.get(key)}
    assert other == {"reward"} | ({"gamma"} if method == "graphgpo" else set())


@pytest.fixture(scope="module")
def shared(trained: Any) -> Any:
    return lambda method, *options: trained(path(method), *TINY, *options)


@METHOD
def test_each_recipe_starts_learns_and_finishes(method: str, shared: Any) -> None:
    line, weights = shared(method)
    assert 0 < line["rollout/success"] < 1, "without both outcomes this test would prove little"
    assert line["update/grad_norm"] > 0 and line["update/skipped_steps"] < 4
    assert (line["credit/teacher_tokens"] > 0) == ("teacher pass" in METHODS[method].needs or method == "cbpo")
    assert (line["hints/asked"] > 0) == ("teacher pass" in METHODS[method].needs) and line["hints/dropped"] == 0
    _, plain = shared("grpo")
    assert all(torch.equal(weights[key], plain[key]) for key in plain) == (method == "grpo")


VARIANTS = [
    ("gigpo", "credit.anchor=state"),
    ("graphgpo", "credit.anchor=state"),
    ("opsd", "credit.signal=reverse_kl", "credit.base_weight=0", "credit.teacher=current"),
    ("sdar", "credit.coef=0.1", "credit.beta=10"),
    ("step_opsd", "credit.lam=0.05", "credit.lam_decay_steps=none", "credit.step_norm=mean_abs"),
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(variant))
def test_variants_that_are_documented_train(variant: tuple[str, ...], shared: Any) -> None:
    line, weights = shared(*variant)
    assert line["update/grad_norm"] > 0
    _, plain = shared(variant[0])
    assert any(not torch.equal(weights[key], plain[key]) for key in plain)


def test_coefficient_zero_is_grpo_with_the_same_weights(shared: Any) -> None:
    _, plain = shared("grpo")
    for method, option in (("sdar", "coef"), ("opsd", "coef"), ("hcapo", "omega"), ("gigpo", "step_weight")):
        _, weights = shared(method, f"credit.{option}=0")
        assert all(torch.equal(weights[key], plain[key]) for key in plain), method
