"""Training runs whose credit plays on from the middle of episodes: trials are never trained on, trees once a turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_policy
import torch
from safetensors.torch import load_file
from tiny_runs import RECIPE

from agentgym.episode import Episode, Group, read_episodes
from agentgym.replay import replay
from agentgym.trainers import commands
from agentgym.trainers import trainer as trainer_module
from agentgym.trainers.scorer import PolicyScorer
from agentgym.trainers.update import TrainRow, update

SIZE = ("rollout.tasks=4", "rollout.group=8", "eval.every=9", "eval.limit=1", "run.iterations=1")


class Run:
    """A finished run of one iteration, and the rows that it trained on."""

    def __init__(self, out: Path, rows: list[TrainRow]) -> None:
        self.out = out
        self.rows = rows
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        (self.line,) = [line for line in lines if line["kind"] == "train"]
        self.weights: dict[str, torch.Tensor] = load_file(out / "checkpoints/iteration-000001/model.safetensors")

    @property
    def rollouts(self) -> list[Episode]:
        return list(read_episodes(self.out / "rollouts/000000.jsonl"))

    @property
    def trials(self) -> list[Episode]:
        file = self.out / "trials/000000.jsonl"
        return list(read_episodes(file)) if file.is_file() else []

    def same_weights(self, other: Run) -> bool:
        return all(torch.equal(value, other.weights[key]) for key, value in self.weights.items())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy")
    tiny_policy.policy(sharpness=6.0).save(path / "tiny")
    return path


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    done: dict[tuple[str, ...], Run] = {}

    def train(*overrides: str, style: str = "append") -> Run:
        if (key := (style, *overrides)) not in done:
            recipe = folder / "recipe.toml"
            recipe.write_text(RECIPE.format(model=folder / "tiny"))
            trained: list[TrainRow] = []

            def note(policy: Any, optimiser: Any, rows: list[TrainRow], *rest: Any) -> dict[str, float]:
                trained.extend(rows)
                return update(policy, optimiser, rows, *rest)

            out = tmp_path_factory.mktemp("run") / "out"
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(trainer_module, "update", note)
                patch.setattr(trainer_module, "draw_curves", lambda *_, **__: None)
                commands.train(recipe, out, [*SIZE, f"policy.settings.style={style}", *overrides])
            done[key] = Run(out, trained)
        return done[key]

    return train


SEED = "run.seed=5"
PROVER = ("credit.method=prover", "credit.most_success=0.9", "credit.judge=random", "credit.continuations=4", SEED)


def test_trials_are_played_counted_and_recorded_but_never_trained_on(run: Callable[..., Run]) -> None:
    found = run(*PROVER)
    assert found.line["trial/looked_at"] > 0 and found.line["credit/unreached"] == 0
    assert len(found.trials) == found.line["credit/extra_episodes"] > 0 and len(found.trials) % 8 == 0
    new = [turn for trial in found.trials for turn in trial.turns[trial.shared :]]
    assert found.line["credit/extra_tokens"] == sum(len(turn.output_ids or ()) for turn in new) > 0
    assert {trial.member for trial in found.trials}.isdisjoint(range(8))
    assert len(found.rollouts) == 32 == len(found.rows)
    sampled = [[i for turn in episode.turns for i in turn.output_ids or ()] for episode in found.rollouts]
    assert [row.row.sampled.tolist() for row in found.rows] == sampled
    assert found.line["rollout/branched"] == 0
    plain = run("credit.method=grpo", "credit.scale=none", SEED)
    assert found.line["trial/accepted"] > 0 and not found.same_weights(plain)


def test_what_was_played_on_is_replayed_without_a_difference(run: Callable[..., Run]) -> None:
    for overrides in (PROVER, ("credit.method=cbpo",)):
        found = run(*overrides)
        replayed = replay(found.out, on_difference=print)
        assert replayed.different == 0
        assert replayed.episodes == len(found.rollouts) + len(found.trials) + 2


def test_coefficient_zero_trains_as_grpo_does(run: Callable[..., Run]) -> None:
    plain, unscaled = run("credit.method=grpo"), run("credit.method=grpo", "credit.scale=none")
    zero = run("credit.method=prover", "credit.lam=0")
    assert zero.same_weights(unscaled) and not zero.trials
    assert run("credit.method=cbpo", "credit.eta=0").same_weights(plain)
    assert run("credit.method=triage", "credit.lam=0").same_weights(plain)
    assert run("credit.method=triage", "credit.judge=constant").same_weights(plain)
    assert not run("credit.method=triage").same_weights(plain)


def test_a_model_that_answers_nonsense_trains_as_grpo_does(run: Callable[..., Run], folder: Path) -> None:
    small = ("rollout.tasks=1", "rollout.group=4")
    judge = (f"credit.judge=hf/{folder / 'tiny'}", "credit.judge_tokens=4")
    found = run("credit.method=triage", *judge, *small)
    assert found.line["judge/answered"] == 0.0 and found.line["group/active"] == 1.0
    assert found.same_weights(run("credit.method=grpo", *small))


@pytest.mark.parametrize("style", ["append", "windowed"])
def test_trees_are_played_from_where_the_policy_was_uncertain_and_trained_on_once(
    style: str, run: Callable[..., Run]
) -> None:
    found = run("credit.method=cbpo", style=style)
    episodes = found.rollouts
    groups = [episodes[start : start + 8] for start in range(0, 32, 8)]
    branched = [episode for episode in episodes if episode.branch is not None]
    assert found.line["rollout/branched"] == len(branched) > 4 and found.line["rollout/broken"] == 0
    trained: dict[int, list[tuple[int, bool]]] = {number: [] for number in range(32)}
    for row in found.rows:
        trained[row.episode] += list(zip(row.row.turns.tolist(), row.mask.tolist(), strict=True))
    for number, group in enumerate(groups):
        assert [episode.member for episode in group] == list(range(8))
        assert all(episode.branch is None for episode in group[:4])
        for member, episode in enumerate(group):
            if episode.branch is not None:
                trunk, shared = group[episode.branch[0]], episode.shared
                assert trunk.branch is None and 0 < shared < len(trunk.turns)
                assert episode.turns[:shared] == trunk.turns[:shared]
            assert all(mask == (turn >= episode.shared) for turn, mask in trained[8 * number + member])
    with_weight = sum(float(row.advantages[~row.mask].abs().sum()) for row in found.rows)
    assert with_weight == 0, "what is another member's carries no advantage"
    firsts = [episode for episode in episodes if episode.member < 4]
    prompts = sum(len(turn.prompt_ids or ()) + len(turn.output_ids or ()) for e in firsts for turn in e.turns)
    assert found.line["credit/teacher_tokens"] == prompts, "the uncertainty of the first members was read"


def test_trees_begin_as_the_groups_of_other_methods(run: Callable[..., Run]) -> None:
    def first(episodes: list[Episode]) -> list[list[str]]:
        return [[turn.action for turn in episode.turns] for episode in episodes if episode.member < 4]

    assert first(run("credit.method=cbpo").rollouts) == first(run("credit.method=grpo").rollouts)


def test_entropies_are_those_of_the_policy(play_guess: Any) -> None:
    policy = tiny_policy.policy()
    group = Group(episodes=tuple(play_guess.episodes(policy, 2)))
    scorer = PolicyScorer(policy, most_tokens=512)
    whole, cut = (scorer.entropies(group, top) for top in (10_000, 2))
    for episode, every, some in zip(group.episodes, whole, cut, strict=True):
        assert every is not None and some is not None
        for turn, a, b in zip(episode.turns, every, some, strict=True):
            assert len(a) == len(b) == len(turn.output_ids or ())
            assert (b <= a + 1e-6).all() and (a >= 0).all() and (b <= np.log(2) + 2 / np.e).all()
            forced = np.array(turn.output_logprobs) == 0
            assert a[forced] == pytest.approx(0, abs=1e-6)
    assert max(float(np.max(turn)) for turns in whole for turn in turns or []) > 0.1
    broken = group.episodes[0].model_copy(update={"status": "env_error", "success": None})
    assert scorer.entropies(Group(episodes=(broken,)), 5) == [None]
