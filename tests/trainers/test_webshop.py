"""The recipes for WebShop, from a fresh policy to a step of every method, at the smallest size that runs through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import agentgym
from agentgym.evaluate import evaluate
from agentgym.trainers.commands import policy_sft
from agentgym.trainers.credit import METHODS, list_credits

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
SMALL = ("model.width=32", "model.layers=1", "model.heads=1", "model.kv_heads=1", "model.hidden=32")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("webshop") / "policy"
    means = policy_sft(RECIPES / "webshop_sft_small.toml", out, (*SMALL, "train.tokens=30000", "data.peers=0.5"))
    assert means["plain"] > 0 and means["informed"] > 0
    return out


def test_a_policy_learns_to_shop_from_the_demonstrator(start: Path, tmp_path: Path) -> None:
    summary = evaluate(
        "webshop", "llm", model=f"hf/{start}", split="generated_dev", limit=6, max_steps=8, out=tmp_path / "run"
    )
    assert summary.broken == 0 and summary.overall.inadmissible_rate == 0 and summary.overall.task_score is not None
    for episode in agentgym.load_episodes(tmp_path / "run"):
        assert episode.sampling is not None and episode.sampling.restrict == "admissible"
        assert all(turn.action in (turn.admissible or ()) for turn in episode.turns)


@pytest.mark.parametrize("method", list_credits())
def test_each_recipe_takes_a_step(method: str, start: Path, trained: Any) -> None:
    known, needs = METHODS[method].options.model_fields, METHODS[method].needs
    overrides = [f"policy.model={start}", "env.max_steps=12", "rollout.tasks=2", "rollout.group=5", "run.iterations=1"]
    overrides += ["update.minibatches=1", "run.seed=4"]  # a purchase among the first members, for trees
    if "success_threshold" in known:
        overrides.append("credit.success_threshold=0.01")  # so that there are successes before anything is learnt
    if method == "prover":
        overrides += ["credit.most_success=1.0", "credit.continuations=2"]
    step, _ = trained(RECIPES / f"webshop_{method}_small.toml", *overrides)
    assert step["group/active"] > 0 and step["rollout/broken"] == 0 and step["rollout/refused"] == 0
    assert step["update/grad_norm"] > 0 and step["sampler/logprob_gap_max"] < 1e-3 and step["credit/unreached"] == 0
    assert (step["hints/asked"] > 0) == ("teacher pass" in needs)
    assert (step["credit/teacher_tokens"] > 0) == ("teacher pass" in needs or method == "cbpo")
    assert step["hints/dropped"] == 0 and step.get("peer/overflow", 0.0) == 0
    assert ("anchor/repeated" in step) == ("places" in needs) and step.get("anchor/repeated", 1.0) > 0
    assert step.get("judge/answered", 0.0) == (1.0 if method == "triage" else 0.0)
    assert (step["credit/extra_episodes"] > 0) == (method == "prover")
    assert (step["rollout/branched"] > 0) == (method == "cbpo")


@pytest.mark.parametrize("method", [name for name in list_credits() if "anchor" in METHODS[name].options.model_fields])
def test_places_can_be_true_states(method: str, start: Path, trained: Any) -> None:
    overrides = [f"policy.model={start}", "env.max_steps=12", "rollout.tasks=2", "rollout.group=5", "run.iterations=1"]
    step, _ = trained(RECIPES / f"webshop_{method}_small.toml", *overrides, "run.seed=4", "credit.anchor=state")
    assert 0 < step["anchor/repeated"] < 1 and step["update/grad_norm"] > 0
