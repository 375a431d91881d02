"""Whole training runs of a tiny policy on a guessing game: what must be equal, and what must part."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from agentgym_guess import GuessEnv
from safetensors.torch import load_file
from tiny_runs import SHARPO, Run

from agentgym.agents.engines.transformers import TransformersEngine
from agentgym.compare import compare
from agentgym.env import Outcome
from agentgym.episode import Episode
from agentgym.errors import ConfigError
from agentgym.trainers import checkpoint, commands
from agentgym.trainers import trainer as trainer_module
from agentgym.trainers.config import read_recipe
from agentgym.trainers.curves import draw_curves
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.update import update


def without_time(episodes: list[Episode]) -> list[Episode]:
    return [
        episode.model_copy(update={"turns": tuple(turn.model_copy(update={"seconds": None}) for turn in episode.turns)})
        for episode in episodes
    ]


# ---- two methods -----------------------------------------------------------------------------------------------------


def test_two_methods_play_the_same_until_their_first_update_parts_them(run: Callable[..., Run]) -> None:
    grpo, sharpo = run(), run(*SHARPO)
    first = grpo.rollouts(0)
    assert len(first) == 8 and without_time(first) == without_time(sharpo.rollouts(0))
    assert without_time(grpo.evaluation(0)) == without_time(sharpo.evaluation(0))
    for task in {episode.task for episode in first}:
        group = [episode for episode in first if episode.task == task]
        assert [episode.member for episode in group] == [0, 1, 2, 3]
        assert len({episode.turns[0].observation for episode in group}) == 1, "one initial state for a group"
    outcomes = {episode.task: set() for episode in first}  # type: ignore[var-annotated]
    for episode in first:
        outcomes[episode.task].add(episode.success)
    assert {True, False} in outcomes.values(), "without a mixed group this test would prove nothing"
    assert sharpo.train[0]["peer/coverage"] > 0 and grpo.train[0]["update/grad_norm"] > 0
    assert not grpo.same_weights(sharpo)


def test_sharpo_without_its_share_is_grpo_bit_for_bit(run: Callable[..., Run]) -> None:
    assert run().same_weights(run("credit.method=sharpo", "credit.lam=0.0"))


def test_another_seed_is_another_run(run: Callable[..., Run]) -> None:
    other = run("run.seed=4")
    assert without_time(other.rollouts(0)) != without_time(run().rollouts(0))


@pytest.mark.parametrize(("group", "asked"), [(4, 1), (1, 0)])
def test_the_reference_reads_nothing_where_nothing_is_learnt(
    group: int, asked: int, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    original = Trainer._reference_scores

    def score(self: Trainer, requests: Any) -> Any:
        read.append(len(requests))
        return original(self, requests)

    monkeypatch.setattr(Trainer, "_reference_scores", score)
    commands.train(recipe, tmp_path / "out", [f"rollout.group={group}", "run.iterations=1"])
    (line,) = Run(tmp_path / "out").train
    assert read == [2 * group] * asked
    assert (line["update/grad_norm"] > 0) == bool(asked) == (line["update/skipped_steps"] == 0)


# ---- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overrides", [(), SHARPO], ids=["grpo", "sharpo"])
def test_the_log_proves_that_what_was_sampled_was_trained(run: Callable[..., Run], overrides: tuple[str, ...]) -> None:
    done = run(*overrides)
    assert [line["iteration"] for line in done.train] == [0, 1, 2]
    for number, line in enumerate(done.train):
        episodes = done.rollouts(number)
        sampled = sum(len(turn.output_ids or ()) for episode in episodes for turn in episode.turns)
        assert line["audit/sampled_ids"] == sampled > 0
        assert line["sampler/logprob_gap_max"] < 1e-4
        assert line["update/first_ratio_error"] <= 1e-4
        assert line["rollout/success"] == sum(bool(episode.success) for episode in episodes) / 8
        assert line["rollout/score"] == pytest.approx(sum(episode.score or 0 for episode in episodes) / 8)
        assert line["rollout/broken"] == 0 and line["time/sampled_tokens_per_second"] > 0
    assert done.train[0]["update/ref_kl"] == pytest.approx(0, abs=1e-6) and done.train[2]["update/ref_kl"] > 1e-6
    assert (done.out / "curves.png").read_bytes().startswith(b"\x89PNG")
    kept = sorted(path.name for path in (done.out / "checkpoints").iterdir())
    assert kept == ["iteration-000002", "iteration-000003"]


def test_the_panel_of_evaluations_is_fixed(run: Callable[..., Run]) -> None:
    done = run()
    evaluations = [line for line in done.lines if line["kind"] == "eval"]
    assert [line["iteration"] for line in evaluations] == [0, 2, 3]
    tasks = [[episode.task for episode in done.evaluation(number)] for number in (0, 2, 3)]
    assert tasks == [["easy/000", "easy/004", "easy/008"]] * 3
    for line in evaluations:
        episodes = done.evaluation(line["iteration"])
        assert line["eval/success"] == sum(bool(episode.success) for episode in episodes) / 3
        assert line["eval/score"] == pytest.approx(sum(episode.score or 0 for episode in episodes) / 3)
        assert line["eval/score"] != line["eval/success"], "near misses score"
        seeds = [episode.seed for episode in episodes]
        assert seeds == [episode.seed for episode in done.evaluation(0)]


def test_episodes_that_broke_enter_no_number_and_are_told_of(
    recipe: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = GuessEnv._play

    def breaking(self: GuessEnv, action: str) -> Outcome:
        if self.task.id == "easy/004":
            raise ValueError("no idea")
        return original(self, action)

    monkeypatch.setattr(GuessEnv, "_play", breaking)
    commands.train(recipe, tmp_path / "out", ["run.iterations=1"])
    (line, *_) = [line for line in Run(tmp_path / "out").lines if line["kind"] == "eval"]
    assert (line["eval/episodes"], line["eval/broken"]) == (2, 1)
    scores = [episode.score for episode in Run(tmp_path / "out").evaluation(0) if episode.completed]
    assert len(scores) == 2 and line["eval/score"] == pytest.approx(sum(score or 0 for score in scores) / 2)
    assert "2 episodes broke and entered no number" in caplog.text
    assert "out/evaluations: 000000.jsonl (1), 000001.jsonl (1)" in caplog.text


def test_the_panel_may_have_a_temperature_of_its_own(recipe: Path, tmp_path: Path) -> None:
    commands.train(recipe, tmp_path / "out", ["eval.temperature=0", "eval.repeats=3", "run.iterations=1"])
    done = Run(tmp_path / "out")
    assert {episode.sampling.temperature for episode in done.evaluation(1) if episode.sampling} == {0.0}
    assert {episode.sampling.temperature for episode in done.rollouts(0) if episode.sampling} == {1.0}
    played = {(e.task, tuple(turn.output_ids or () for turn in e.turns)) for e in done.evaluation(1)}
    assert len(played) == 3, "without chance, repeats of a task are the same"


def test_each_pass_over_the_tasks_takes_each_task_once(start: Path, recipe: Path, tmp_path: Path) -> None:
    trainer = Trainer(read_recipe(recipe, ["rollout.tasks=8"]), tmp_path)
    chosen = [trainer.player.tasks(number) for number in range(5)]
    assert sorted(task for tasks in chosen for task in tasks) == list(range(40))
    assert trainer.player.tasks(5) != chosen[0], "the next pass has an order of its own"
    for wanted in (7, 39, 40, 41, 100):
        trainer = Trainer(read_recipe(recipe, [f"rollout.tasks={wanted}"]), tmp_path)
        for number in range(12):
            tasks = trainer.player.tasks(number)
            assert len(set(tasks)) == len(tasks) == min(wanted, 40)


def test_windowed_and_free_policies_can_be_trained(recipe: Path, tmp_path: Path) -> None:
    overrides = [
        "run.iterations=1",
        "eval.limit=1",
        "env.max_steps=2",
        "policy.settings.style=windowed",
        "policy.settings.restrict=none",
    ]
    commands.train(recipe, tmp_path / "out", [*overrides, *SHARPO])
    line = next(
        json.loads(text) for text in (tmp_path / "out/metrics.jsonl").read_text().splitlines() if "audit" in text
    )
    assert line["update/first_ratio_error"] <= 1e-4 and line["rollout/malformed"] > 0.5


# ---- interruptions ---------------------------------------------------------------------------------------------------


class Kill(KeyboardInterrupt):
    """Stands for a process that ends at once."""


def dying(function: Callable[..., Any], call: int, *, before: bool) -> Callable[..., Any]:
    """The function, except that the process dies right before or right after one of its calls."""
    calls = iter(range(10**6))

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        dies = next(calls) == call
        if dies and before:
            raise Kill
        result = function(*args, **kwargs)
        if dies:
            raise Kill
        return result

    return wrapped


DEATHS = {
    "in the first evaluation": (TransformersEngine, "sample", 2, True),
    "before a checkpoint": (checkpoint, "save", 1, True),
    "after a checkpoint": (checkpoint, "save", 1, False),
    "while a checkpoint is written": (checkpoint, "save_file", 1, True),
    "in the update": (trainer_module, "update", 2, True),
    "after the rollouts": (trainer_module, "write_lines", 3, False),
    "before the picture": (trainer_module, "draw_curves", 0, True),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_run_that_was_interrupted_ends_as_if_it_had_not_been(
    run: Callable[..., Run], recipe: Path, tmp_path: Path, death: str
) -> None:
    owner, name, call, before = DEATHS[death]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, dying(getattr(owner, name), call, before=before))
        with pytest.raises(Kill):
            commands.train(recipe, tmp_path / "out", ())
    commands.train(recipe, tmp_path / "out", ())
    whole, resumed = run(), Run(tmp_path / "out")
    assert resumed.same_weights(whole)
    for number in range(3):
        assert without_time(resumed.rollouts(number)) == without_time(whole.rollouts(number))

    def timeless(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{key: value for key, value in line.items() if not key.startswith("time/")} for line in lines]

    assert timeless(resumed.lines) == timeless(whole.lines)


def test_a_finished_run_stays_as_it_is(run: Callable[..., Run], recipe: Path) -> None:
    done = run()
    before = {path: path.read_bytes() for path in done.out.rglob("*") if path.is_file() and path.suffix != ".png"}
    assert commands.train(recipe, done.out, ()) == done.out / "checkpoints" / "iteration-000003"
    assert {
        path: path.read_bytes() for path in done.out.rglob("*") if path.is_file() and path.suffix != ".png"
    } == before


def test_checkpoints_now_and_then_lose_nothing(run: Callable[..., Run], recipe: Path, tmp_path: Path) -> None:
    settings = ["run.save_every=2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer_module, "draw_curves", dying(draw_curves, 0, before=True))
        patch.setattr(trainer_module, "update", dying(update, 3, before=True))
        with pytest.raises(Kill):
            commands.train(recipe, tmp_path / "out", [*settings, "run.iterations=5"])
    assert [path.name for path in sorted((tmp_path / "out/checkpoints").iterdir())] == ["iteration-000002"]
    commands.train(recipe, tmp_path / "out", settings)
    assert Run(tmp_path / "out").same_weights(run())


def test_a_sampler_in_vllm_needs_free_outputs(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot restrict .*rollout\.sampler"):
        commands.train(recipe, tmp_path / "out", ["rollout.sampler=vllm"])


def test_a_run_goes_on_beyond_its_end(run: Callable[..., Run], recipe: Path, tmp_path: Path) -> None:
    commands.train(recipe, tmp_path / "out", ["run.iterations=2"])
    commands.train(recipe, tmp_path / "out", ())
    assert Run(tmp_path / "out").same_weights(run())


@pytest.mark.parametrize("kl_coef", [0.0, 0.01])
def test_adapters_are_trained_and_a_run_with_them_goes_on_bit_for_bit(
    run: Callable[..., Run], recipe: Path, tmp_path: Path, kl_coef: float
) -> None:
    pytest.importorskip("peft", reason="adapters need the extra [lora]")
    settings = ("policy.lora.rank=2", "update.lr=0.05", f"update.kl_coef={kl_coef}")
    whole = run(*settings)
    assert not whole.same_weights(run()) and whole.weights.keys() == run().weights.keys()
    assert whole.train[0]["update/first_ratio_error"] < 1e-4
    assert max(line["sampler/logprob_gap_max"] for line in whole.train) < 1e-3
    assert any(line["update/ref_kl"] > 0 for line in whole.train) == (kl_coef > 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer_module, "update", dying(update, 2, before=True))
        with pytest.raises(Kill):
            commands.train(recipe, tmp_path / "out", settings)
    commands.train(recipe, tmp_path / "out", settings)
    assert Run(tmp_path / "out").same_weights(whole)


def test_the_policy_that_did_best_on_the_panel_is_kept(recipe: Path, tmp_path: Path) -> None:
    settings = ("run.keep_best=true", "eval.every=1", "eval.repeats=4", "update.lr=0.03")
    commands.train(recipe, tmp_path / "out", settings)
    done = Run(tmp_path / "out")
    success = {line["iteration"]: line["eval/success"] for line in done.lines if line["kind"] == "eval"}
    best = max(success, key=lambda number: (success[number], -number))
    kept = load_file(done.out / "checkpoints" / "best" / "model.safetensors")
    commands.train(recipe, tmp_path / "again", [*settings, f"run.iterations={max(best, 1)}", "run.keep=9"])
    name = recipe.parent / "tiny" if best == 0 else tmp_path / "again" / "checkpoints" / f"iteration-{best:06d}"
    wanted = load_file(name / "model.safetensors")
    assert all(torch.equal(value, wanted[key]) for key, value in kept.items())
    assert len(set(success.values())) > 1, "a best among equals would prove nothing"


@pytest.mark.parametrize(("reward", "best"), [("score", 2), ("success", 0)])
def test_the_best_policy_is_the_one_with_the_most_reward(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reward: str, best: int
) -> None:
    panel = iter([{"eval/success": 0.5 - 0.1 * number, "eval/score": 0.5 + 0.1 * number} for number in range(3)])
    # What is trained on is counted elsewhere; here, only evaluations are.
    monkeypatch.setattr(trainer_module, "outcome_stats", lambda kind, found: next(panel))
    kept: list[int] = []
    monkeypatch.setattr(checkpoint, "save_best", lambda folder, policy: kept.append(len(list(folder.glob("it*")))))
    settings = ("run.keep_best=true", "eval.every=1", "run.iterations=2", "run.keep=9", f"credit.reward={reward}")
    commands.train(recipe, tmp_path / "out", settings)
    assert kept[-1] == best and len(kept) == best + 1


def test_training_runs_are_compared_as_they_are_written(run: Callable[..., Run]) -> None:
    one, two = run(), run(*SHARPO)
    (found,) = compare([one.out, two.out])
    assert found.first.after == 3 and found.overall.tasks == 3 and found.notes[0].startswith("evaluations after 3 ")
    last = [done.lines[-1]["eval/success"] for done in (one, two)]
    assert found.overall.success == pytest.approx(last)
    assert found.notes[1].startswith(
        "the runs differ in settings ({'credit.method': 'grpo'} and {'credit.lam': '1.0', "
    )
