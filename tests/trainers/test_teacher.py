from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_policy
import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel

from agentgym.errors import DataError
from agentgym.trainers.config import Recipe, check
from agentgym.trainers.credit import TeacherRule
from agentgym.trainers.teacher import FILE, Teacher
from agentgym.trainers.trainer import Trainer


def weights(model: PreTrainedModel) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(one: PreTrainedModel, other: PreTrainedModel) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def shifted(model: PreTrainedModel, amount: float) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(amount)


def test_a_stale_teacher_is_renewed_now_and_then() -> None:
    policy = tiny_policy.policy()
    teacher = Teacher(TeacherRule("stale", refresh=3), policy.frozen_copy())
    equal = []
    for step in range(1, 7):
        shifted(policy.model, 0.01)
        teacher.follow(policy.model, step)
        equal.append(same(teacher.model, policy.model))
    assert equal == [False, False, True, False, False, True]
    shifted(policy.model, 0.01)
    assert not same(teacher.model, policy.model)


def test_an_average_trails_behind_and_the_reference_stays() -> None:
    policy = tiny_policy.policy()
    before = weights(policy.model)
    teacher = Teacher(TeacherRule("ema", rate=0.25), policy.frozen_copy())
    fixed = Teacher(TeacherRule("reference"), policy.frozen_copy())
    for step in (1, 2):
        shifted(policy.model, 1.0)
        teacher.follow(policy.model, step)
        fixed.follow(policy.model, step)
    # 0.25 · 1 after the first step, and a quarter of the way from there to 2 after the second.
    for start, now, still in zip(before, teacher.model.parameters(), fixed.model.parameters(), strict=True):
        assert torch.allclose(now, start + 0.25 + 0.25 * 1.75, atol=1e-4) and torch.equal(start, still)


@pytest.mark.parametrize("kind", ["stale", "ema"])
def test_weights_come_back_bit_for_bit(tmp_path: Path, kind: Any) -> None:
    policy = tiny_policy.policy()
    teacher = Teacher(TeacherRule(kind, refresh=1), policy.frozen_copy())
    shifted(policy.model, 0.1)
    teacher.follow(policy.model, 1)
    teacher.save(tmp_path)
    again = Teacher(teacher.rule, policy.frozen_copy())
    shifted(again.model, 1.0)
    again.load(tmp_path)
    assert same(again.model, teacher.model)
    (tmp_path / FILE).write_bytes(b"torn")
    with pytest.raises(DataError, match="delete the folder"):
        again.load(tmp_path)


def test_a_reference_takes_no_room(tmp_path: Path) -> None:
    teacher = Teacher(TeacherRule("reference"), tiny_policy.policy().frozen_copy())
    teacher.save(tmp_path)
    teacher.load(tmp_path)
    assert not any(tmp_path.iterdir())


class Runs:
    """Short trainings of one tiny policy."""

    def __init__(self, root: Path) -> None:
        self.root = root
        tiny_policy.policy(sharpness=4.0, max_tokens=16).save(root / "start")

    def trainer(self, name: str, iterations: int = 2, **credit: Any) -> Trainer:
        tree = {
            "env": {"name": "guess", "split": "easy", "eval_split": "hard", "max_steps": 6},
            "policy": {"model": str(self.root / "start"), "device": "cpu"},
            "rollout": {"tasks": 2, "group": 4},
            "credit": {"method": "sharpo", **credit},
            "update": {"lr": 1e-3, "kl_coef": 0.1},
            "eval": {"every": 100, "limit": 1},
            "run": {"iterations": iterations},
        }
        return Trainer(check(Recipe, tree, Path("recipe.toml")), self.root / name)

    def lines(self, name: str) -> list[dict[str, float]]:
        """What training logged, less the times."""
        read = [json.loads(line) for line in (self.root / name / "metrics.jsonl").read_text().splitlines()]
        return [{key: value for key, value in line.items() if "second" not in key} for line in read]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentgym.trainers.trainer.draw_curves", lambda *args, **options: None)
        yield Runs(tmp_path_factory.mktemp("runs"))


def test_weights_of_its_own_matter_and_those_that_keep_up_are_the_policys(runs: Runs) -> None:
    ends = {}
    variants: dict[str, dict[str, Any]] = {
        "current": {},
        "renewed": {"teacher": "stale", "teacher_refresh": 1},
        "caught-up": {"teacher": "ema", "teacher_ema": 1.0},
        "reference": {"teacher": "reference"},
    }
    for name, options in variants.items():
        trainer = runs.trainer(name, **options)
        assert (trainer.teacher is None) == (name == "current")
        final = load_file(trainer.run() / "model.safetensors")
        ends[name] = torch.cat([final[key].flatten() for key in sorted(final)])
    lines = runs.lines("current")
    assert max(line.get("hints/asked", 0) for line in lines) > 0
    assert runs.lines("renewed") == runs.lines("caught-up") == lines
    assert torch.equal(ends["current"], ends["renewed"]) and torch.equal(ends["current"], ends["caught-up"])
    assert not torch.equal(ends["current"], ends["reference"])


def test_the_teacher_is_neither_the_policy_nor_the_reference(runs: Runs) -> None:
    trainer = runs.trainer("apart", 1, teacher="reference")
    assert trainer.teacher is not None and trainer.reference is not None
    owners = [trainer.teacher.model, trainer.reference, trainer.policy.model]
    places = [{parameter.data_ptr() for parameter in model.parameters()} for model in owners]
    assert not places[0] & places[1] and not places[0] & places[2] and not places[1] & places[2]
    before = weights(trainer.reference)
    trainer.run()
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.reference.parameters(), strict=True))
    assert same(trainer.teacher.model, trainer.reference) and not same(trainer.teacher.model, trainer.policy.model)


@pytest.mark.parametrize("options", [{"teacher": "ema", "teacher_ema": 0.3}, {"teacher": "reference"}])
def test_a_resumed_run_is_the_run_that_was_not_interrupted(runs: Runs, options: dict[str, Any]) -> None:
    kind = str(options["teacher"])
    whole = runs.trainer(f"whole-{kind}", 3, **options)
    final = whole.run()
    runs.trainer(f"parts-{kind}", 2, **options).run()
    parts = runs.trainer(f"parts-{kind}", 3, **options)
    assert parts.iteration == 2
    end = parts.run()
    assert whole.teacher is not None and parts.teacher is not None
    assert same(whole.teacher.model, parts.teacher.model) and same(whole.policy.model, parts.policy.model)
    assert (final / "model.safetensors").read_bytes() == (end / "model.safetensors").read_bytes()
    assert (final / FILE).exists() == (kind == "ema")


def test_hints_are_counted_and_a_method_without_a_teacher_pays_nothing(runs: Runs) -> None:
    runs.trainer("tight", 1, peer_max_tokens=1).run()
    grpo = runs.trainer("grpo", 1, method="grpo")
    final = grpo.run()
    assert grpo.teacher is None and not (final / FILE).exists()
    tight, plain = (next(line for line in runs.lines(name) if "hints/asked" in line) for name in ("tight", "grpo"))
    assert tight["hints/dropped"] == tight["hints/asked"] > 0 and tight["hints/shortened"] == 0
    assert tight["credit/teacher_tokens"] == 0
    assert plain["hints/asked"] == plain["hints/dropped"] == plain["credit/teacher_tokens"] == 0
