from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agentgym_guess import panel
from scipy.stats import binomtest, permutation_test

from agentgym.compare import compare, read_run, table
from agentgym.episode import Episode
from agentgym.errors import ConfigError, DataError, RunMismatchError
from agentgym.evaluate import evaluate
from agentgym.paired import bootstrap_interval, detectable, holm, success_interval
from agentgym.seeding import Seed


def write_run(
    folder: Path, wins: list[list[int]], split: str = "easy", first: int = 0, scores: float = 0.25, **identity: object
) -> Path:
    """A run whose task ``first + i`` had the outcomes ``wins[i]``; the losses' score is ``scores``."""
    tasks = panel(split)[first : first + len(wins)]
    folder.mkdir()
    record = {
        "command": "eval",
        "environment": "guess",
        "split": split,
        "panel": {"hash": tasks.hash, "tasks": len(tasks)},
        "agent": folder.name,
        "settings": {},
        "repeats": len(wins[0]),
        "max_steps": None,
        "seed": 0,
        "versions": {"agentgym": "0.1.0"},
    }
    (folder / "run.json").write_text(json.dumps(record | identity))
    episodes = [
        Episode(
            env="guess",
            split=split,
            task=task.id,
            task_digest=task.digest,
            family=task.family,
            member=member,
            agent="a",
            turns=(),
            status="ok",
            success=bool(win),
            score=1.0 if win else scores,
        )
        for task, outcomes in zip(tasks, wins, strict=True)
        for member, win in enumerate(outcomes)
    ]
    (folder / "episodes.jsonl").write_text("".join(episode.to_json() + "\n" for episode in episodes))
    return folder


def once(text: str) -> list[list[int]]:
    return [[int(digit)] for digit in text]


def test_one_episode_a_task(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", once("1100" * 10), "hard")
    b = write_run(tmp_path / "b", once("1010" * 5 + "1110" * 5), "hard", scores=0.5)
    (found,) = compare([a, b])
    overall = found.overall
    assert (overall.tasks, overall.better, overall.worse) == (40, 10, 5) and overall.success == (0.5, 0.625)
    assert overall.success_difference == 0.125
    interval, error = success_interval(10, 5, 40)
    assert overall.success_interval == interval and overall.detectable_success == detectable(error)
    assert found.p_value == found.adjusted == pytest.approx(binomtest(10, 15).pvalue)
    assert found.test == "McNemar, exact" and found.notes == ()
    # Scores: both won 0, both lost +0.25, won by b 0.75, lost by b -0.5.
    differences = [0, -0.5, 0.75, 0.25] * 5 + [0, 0, 0.75, 0.25] * 5
    assert overall.score == (0.625, 0.8125) and overall.score_difference == pytest.approx(np.mean(differences))
    deviation = float(np.std(differences, ddof=1)) / math.sqrt(40)
    assert overall.detectable_score == pytest.approx((1.959964 + 0.841621) * deviation, rel=1e-5)
    assert overall.score_interval == bootstrap_interval(differences, Seed(("compare", "score")))
    low, high = overall.score_interval or (0, 0)
    assert low == pytest.approx(overall.score_difference - 1.96 * deviation, abs=0.02)
    assert high == pytest.approx(overall.score_difference + 1.96 * deviation, abs=0.02)


def test_families_add_up(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", once("110011001100"))
    b = write_run(tmp_path / "b", once("101010101010"))
    (found,) = compare([a, b])
    even, odd = found.families["even"], found.families["odd"]
    assert even.tasks == odd.tasks == 6 and even.success == (0.5, 1.0) and odd.success == (0.5, 0.0)
    assert (even.better, even.worse, odd.better, odd.worse) == (3, 0, 0, 3)
    assert found.overall.success_difference == 0 and found.p_value == 1


def test_repeats_are_clustered_by_task(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    rates = draw.random(40)
    one = [[int(draw.random() < rate) for _ in range(3)] for rate in rates]
    two = [[int(draw.random() < min(1, rate + 0.2)) for _ in range(3)] for rate in rates]
    a, b = write_run(tmp_path / "a", one, "hard"), write_run(tmp_path / "b", two, "hard")
    (found,) = compare([a, b])
    differences = np.array([sum(y) - sum(x) for x, y in zip(one, two, strict=True)]) / 3
    peer = permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(1)
    )
    assert found.p_value == pytest.approx(peer.pvalue, abs=0.01) and found.test == "sign flips, exact"
    assert found.overall.success_difference == pytest.approx(differences.mean())
    assert found.overall.success_interval == bootstrap_interval(differences.tolist(), Seed(("compare", "success")))
    assert found.overall.better == (differences > 0).sum() and found.overall.worse == (differences < 0).sum()


def test_runs_with_other_repeats_compare_by_rates(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [[1, 0], [1, 1], [0, 0], [1, 0]])
    b = write_run(tmp_path / "b", [[1, 1, 0], [1, 1, 1], [0, 1, 0], [0, 0, 0]])
    (found,) = compare([a, b])
    assert found.overall.success == (0.5, 0.5) and found.overall.success_difference == 0
    assert (found.overall.better, found.overall.worse) == (2, 1)  # 2/3 > 1/2, 1/3 > 0, 0 < 1/2
    assert found.notes == ("the runs differ in repeats (2 and 3)",)


def test_several_runs_are_corrected(tmp_path: Path) -> None:
    texts = ("0" * 40, "1" * 6 + "0" * 34, "1" * 9 + "0" * 31, "1" + "0" * 39)
    runs = [write_run(tmp_path / str(number), once(text), "hard") for number, text in enumerate(texts)]
    found = compare(runs)
    p_values = [comparison.p_value for comparison in found]
    assert p_values == pytest.approx([2 * 0.5**6, 2 * 0.5**9, 1.0])
    assert [comparison.adjusted for comparison in found] == holm(p_values) == pytest.approx([4 / 64, 6 / 512, 1.0])
    assert all(comparison.first.path == runs[0] for comparison in found)
    assert "after Holm" in str(table(found[0]).caption) and "after Holm" not in str(table(compare(runs[:2])[0]).caption)


def test_the_order_of_the_records_does_not_matter(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", once("1100" * 10), "hard"), write_run(tmp_path / "b", once("1010" * 10), "hard")
    before = compare([a, b])
    file = b / "episodes.jsonl"
    file.write_text("".join(reversed(file.read_text().splitlines(keepends=True))))
    assert compare([a, b]) == before


def test_a_run_against_itself_differs_in_nothing(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", once("110100101010"))
    (found,) = compare([run, run])
    assert found.p_value == 1 and found.overall.success_difference == found.overall.score_difference == 0
    assert found.overall.score_interval is None and found.overall.detectable_score is None
    low, high = found.overall.success_interval or (0, 0)
    assert low == -high < -0.1, "no difference in 12 tasks is no proof of equality"


def test_different_panels_are_refused_by_name(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", once("11110000"))
    b = write_run(tmp_path / "b", once("11001010"), first=2)
    with pytest.raises(RunMismatchError) as caught:
        compare([a, b])
    assert f"2 tasks only in {a} (easy/000, easy/001), 2 tasks only in {b} (easy/008, easy/009)" in str(caught.value)
    assert "--shared" in str(caught.value)
    (found,) = compare([a, b], shared=True)
    assert found.overall.tasks == 6 and (found.overall.better, found.overall.worse) == (1, 0)
    assert found.notes[0].startswith("only the 6 tasks that all runs played to their end are compared (of 8 of ")
    assert "6 shared tasks" in str(table(found).title)
    c = write_run(tmp_path / "c", once("1100"), "hard")
    with pytest.raises(ConfigError, match="no task in common"):
        compare([a, c], shared=True)


def test_other_content_and_another_order_are_other_panels(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", once("1100")), write_run(tmp_path / "b", once("1010"))
    digest = panel("easy")[1].digest
    identity = json.loads((b / "run.json").read_text())
    (b / "run.json").write_text(json.dumps(identity | {"panel": {"hash": "0", "tasks": 4}}))
    with pytest.raises(RunMismatchError, match="differ in their order"):
        compare([a, b])
    (b / "episodes.jsonl").write_text((b / "episodes.jsonl").read_text().replace(digest, "0"))
    with pytest.raises(RunMismatchError, match=r"differ: 1 task with other content \(easy/001\)"):
        compare([a, b])
    assert compare([a, b], shared=True)[0].overall.tasks == 3


def test_owed_and_broken_episodes_are_not_compared(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", [[1, 0], [1, 1], [0, 0]]), write_run(tmp_path / "b", [[1, 1], [0, 1], [0, 0]])
    file = b / "episodes.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    broken = Episode.from_json(lines[1]).model_copy(update={"status": "env_error", "success": None, "score": None})
    file.write_text(lines[0] + broken.to_json() + "\n" + "".join(lines[2:5]))
    with pytest.raises(
        RunMismatchError, match=r"b owes episodes of 2 tasks \(easy/000, easy/002\): repeat its command"
    ):
        compare([a, b])
    (found,) = compare([a, b], shared=True)
    assert found.overall.tasks == 1 and found.overall.success == (1.0, 0.5)
    # Played again after it broke: the last record counts.
    with file.open("a") as stream:
        stream.write(lines[1] + lines[5])
    assert compare([a, b])[0].overall.tasks == 3


def test_what_else_differs_is_pointed_out(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", once("1100"))
    other: dict[str, Any] = {
        "max_steps": 20,
        "seed": 3,
        "settings": {"temperature": "0"},
        "versions": {"agentgym": "0.2.0"},
    }
    b = write_run(tmp_path / "b", once("1010"), **other)
    (found,) = compare([a, b])
    assert found.notes == (
        "the runs differ in max_steps (the environment's own and 20), seed (0 and 3), "
        "settings ({} and {'temperature': '0'}), version (0.1.0 and 0.2.0)",
    )
    assert found.notes[0] in str(table(found).caption)


def test_the_table(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", once("110011001100")), write_run(tmp_path / "b", once("101010101011"))
    (found,) = compare([a, b])
    columns = {str(column.header): list(column.cells) for column in table(found).columns}
    assert columns["family"] == ["even", "odd", "all"] and columns["points"] == ["+50.0", "-33.3", "+8.3"]
    assert columns["first"] == ["50.0%"] * 3 and columns["won–lost"] == ["3–0", "1–3", "4–3"]
    assert "score +0.062, 95% interval " in str(table(found).caption)
    plain = [write_run(tmp_path / name, once(text), scores=0.0) for name, text in (("c", "10"), ("d", "01"))]
    assert "score" not in str(table(compare(plain)[0]).caption)


def test_runs_as_evaluate_writes_them(tmp_path: Path) -> None:
    evaluate("guess", "random", repeats=2, max_steps=4, out=tmp_path / "random")
    evaluate("guess", "expert", repeats=2, max_steps=4, out=tmp_path / "expert")
    (found,) = compare([tmp_path / "random", tmp_path / "expert"])
    assert found.overall.success[1] == 1 and found.overall.success_difference > 0.3 and found.p_value < 0.01
    assert found.notes == () and read_run(tmp_path / "random").owed == 0


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", once("10"))
    with pytest.raises(ConfigError, match="two runs"):
        compare([run])


def write_training(folder: Path, evaluations: dict[int, str], first: int = 0, **credit: object) -> Path:
    """A training run with one episode of each task in each evaluation."""
    folder.mkdir()
    tasks = panel("easy")
    limit = len(next(iter(evaluations.values())))
    env = {"name": "guess", "split": "hard", "eval_split": "easy", "data": "", "max_steps": 6}
    recipe = {
        "env": env,
        "policy": {"model": "some/model", "settings": {}},
        "credit": {"method": "grpo", **credit},
        "eval": {"every": 2, "limit": limit, "repeats": 1, "temperature": None},
        "run": {"seed": first},
    }
    record = {"command": "train", "recipe": recipe, "eval_panel": {"hash": tasks.hash, "tasks": len(tasks)}}
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "evaluations").mkdir()
    for after, text in evaluations.items():
        made = write_run(folder / "made", once(text))
        (made / "episodes.jsonl").rename(folder / "evaluations" / f"{after:06d}.jsonl")
        (made / "run.json").unlink()
        made.rmdir()
    return folder


def test_training_runs_compare_by_their_newest_common_evaluation(tmp_path: Path) -> None:
    a = write_training(tmp_path / "a", {0: "0000", 2: "1100", 4: "1111"})
    b = write_training(tmp_path / "b", {0: "0000", 2: "0111"}, first=1, method="sharpo", lam=0.1)
    (found,) = compare([a, b])
    assert (found.overall.tasks, found.overall.better, found.overall.worse) == (4, 2, 1)
    assert found.overall.success == (0.5, 0.75) and found.first.after == 2 and found.second.owed == 0
    assert found.notes[0].startswith("evaluations after 2 iterations of training, ")
    assert found.notes[1:] == (
        "the runs differ in seed (0 and 1), settings ({'credit.method': 'grpo'} and "
        "{'credit.lam': '0.1', 'credit.method': 'sharpo'})",
    )
    assert "b (sharpo, some/model) against" in str(table(found).title).replace("\n", " ")


def test_training_runs_that_cannot_be_compared(tmp_path: Path) -> None:
    a = write_training(tmp_path / "a", {0: "0000", 2: "1100"})
    with pytest.raises(RunMismatchError, match=r"were not evaluated after the same .* eval\.every, or agentgym eval "):
        compare([a, write_training(tmp_path / "b", {1: "0000", 3: "1100"})])
    shorter = write_training(tmp_path / "c", {0: "000", 2: "110"})
    with pytest.raises(RunMismatchError, match=r"the panels differ: 1 task only in .*--shared"):
        compare([a, shorter])
    (found,) = compare([a, shorter], shared=True)
    assert found.overall.tasks == 3
    file = a / "evaluations" / "000002.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]) + lines[-1].replace('"status":"ok"', '"status":"env_error"'))
    with pytest.raises(RunMismatchError, match=r"episodes of 1 task .* broke in .*/a; --shared") as caught:
        compare([a, write_training(tmp_path / "d", {2: "1100"})])
    assert "repeat its command" not in str(caught.value)
    evaluated = write_run(tmp_path / "e", once("10"))
    for runs in ([a, evaluated], [evaluated, a]):
        with pytest.raises(
            RunMismatchError, match=r"/a is a training run, and .*/e is none; .*--model hf/.*/a/checkpoints/"
        ):
            compare(runs)
    with pytest.raises(DataError, match="another kind of run"):
        read_run(a)
