"""Studies: what they refuse, how they run processes, and what their reports say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_policy
from agentgym_guess import panel
from click.testing import CliRunner
from tiny_runs import RECIPE

from agentgym.cli import cli
from agentgym.episode import Episode
from agentgym.errors import AgentGymError, ConfigError, DataError, RunMismatchError, UnknownNameError
from agentgym.seeded import seed_test
from agentgym.trainers import commands
from agentgym.trainers.study import Plan, Report, Run, child, read_report, study, table
from agentgym.trainers.study.jobs import run_all
from agentgym.trainers.study.picture import draw
from agentgym.trainers.study.tables import markdown

GRPO = 'extends = "tiny.toml"\n[eval]\nlimit = 6\n[run]\niterations = 5\n'
SHARPO = 'extends = "grpo.toml"\n[credit]\nmethod = "sharpo"\nlam = 1.0\n'


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(RECIPE.format(model="tiny"))
    Path("grpo.toml").write_text(GRPO)
    Path("sharpo.toml").write_text(SHARPO)
    return [Path("grpo.toml"), Path("sharpo.toml")]


# ---- the plan --------------------------------------------------------------------------------------------------------


def test_whole_comparisons_come_first(recipes: list[Path]) -> None:
    plan = Plan.of(recipes, [3, 1], Path("out"))
    assert [str(run) for run in plan.runs] == ["grpo/3", "sharpo/3", "grpo/1", "sharpo/1"]
    assert plan.runs[1].recipe.run.seed == 3 and plan.runs[1].folder == Path("out/sharpo/3")
    assert plan.points == (0, 2, 4, 5), "the last iteration ends with an evaluation"
    assert plan.differences("sharpo") == [
        ("credit.method", "grpo", "sharpo"),
        ("credit.lam", "not given", "1.0"),
    ]


@pytest.mark.parametrize(
    ("seeds", "overrides", "error", "says"),
    [
        ([0, 0], [], ConfigError, "seed 0 is there twice"),
        ([], [], ConfigError, "a recipe and a seed"),
        ([-1], [], ConfigError, "below 0"),
        ([0], ["run.seed=3"], ConfigError, "--seeds"),
        ([0], ["run.iteration=3"], UnknownNameError, "iterations"),
        ([0], ["credit.lam=0.5"], UnknownNameError, "lam"),
    ],
)
def test_what_is_wrong_shows_first(
    recipes: list[Path], seeds: list[int], overrides: list[str], error: type[AgentGymError], says: str
) -> None:
    with pytest.raises(error, match=says):
        study(recipes, Path("out"), seeds=seeds, overrides=overrides)
    assert not Path("out").exists()


def test_recipes_that_are_measured_differently_are_refused(recipes: list[Path]) -> None:
    Path("other.toml").write_text('extends = "grpo.toml"\n[eval]\nlimit = 4\n')
    with pytest.raises(ConfigError, match=r"eval\.limit = 6 and other has 4.*--set eval\.limit=VALUE"):
        Plan.of([*recipes, Path("other.toml")], [0], Path("out"))
    Plan.of([*recipes, Path("other.toml")], [0], Path("out"), ["eval.limit=3"])
    Path("more").mkdir()
    with pytest.raises(ConfigError, match="recipe name grpo is there twice"):
        Plan.of([*recipes, Path("more/grpo.toml")], [0], Path("out"))
    with pytest.raises(DataError, match="cannot be read"):
        Plan.of([Path("absent.toml")], [0], Path("out"))


def test_a_folder_of_something_else_is_refused(recipes: list[Path]) -> None:
    Path("out").mkdir()
    (Path("out") / "run.json").write_text("{}")
    with pytest.raises(RunMismatchError, match="not a study"):
        study(recipes, Path("out"), seeds=[0])


# ---- processes -------------------------------------------------------------------------------------------------------

FAKE = """
import json, pathlib, sys, time
folder, what = pathlib.Path(sys.argv[1]), sys.argv[2]
folder.mkdir(parents=True)
(folder / "began").write_text(str(time.monotonic()))
if what == "fail":
    print("something"); sys.exit("error: the disk is full")
if what == "hang":
    time.sleep(600)
for number in range(5):
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write(json.dumps({"kind": "train", "iteration": number}) + "\\n")
(folder / "ended").write_text(str(time.monotonic()))
"""


def fake(**what: str) -> Callable[[Run], Sequence[str]]:
    return lambda run: [sys.executable, "-S", "-c", FAKE, str(run.folder), what.get(run.name, "train")]


def test_a_run_that_fails_stops_no_other(recipes: list[Path]) -> None:
    plan = Plan.of(recipes, [0, 1], Path("out"))
    failures = run_all(plan.runs, plan.runs, 1, fake(sharpo="fail"))
    assert {str(run): reason for run, reason in failures.items()} == {
        "sharpo/0": "the disk is full",
        "sharpo/1": "the disk is full",
    }
    first, second = (Path(f"out/grpo/{seed}") for seed in (0, 1))
    assert float((first / "ended").read_text()) < float((second / "began").read_text()), "one at a time"
    assert Path("out/sharpo/0.log").read_text() == "something\nerror: the disk is full\n"
    report = read_report(plan, failures)
    assert report.methods == () and report.failures["grpo/0"] == "it is not finished", "it evaluated nothing"


def test_an_interrupt_ends_all_processes(recipes: list[Path]) -> None:
    plan = Plan.of(recipes, [0], Path("out"))
    made: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)

    def interrupt() -> None:
        while not all((run.folder / "began").exists() for run in plan.runs):
            time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", Noted)
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            run_all(plan.runs, plan.runs, 2, fake(grpo="hang", sharpo="hang"))
    assert [process.returncode for process in made] == [-signal.SIGTERM, -signal.SIGTERM]


def test_a_run_ends_with_the_process_that_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([4711, 4711, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(looks))
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as ended:
        child.watch(4711)
    assert ended.value.code == 1 and list(looks) == []


# ---- reports ---------------------------------------------------------------------------------------------------------


def write_run(run: Run, curve: dict[int, list[int]], broken: tuple[str, ...] = (), teacher: float = 0.0) -> None:
    """A finished run whose evaluations had these outcomes, by iteration and task."""
    (run.folder / "evaluations").mkdir(parents=True)
    lines = [
        {"kind": "train", "iteration": number, "rollout/success": 0.5, "credit/teacher_tokens": teacher}
        for number in range(5)
    ]
    for point, outcomes in curve.items():
        lines.append({"kind": "eval", "iteration": point, "eval/success": 0.0})
        episodes = [
            Episode(
                env="guess",
                split="easy",
                task=task.id,
                task_digest=task.digest,
                family=task.family,
                member=0,
                agent="a",
                turns=(),
                status="env_error" if task.id in broken else "ok",
                success=None if task.id in broken else bool(win),
                score=None if task.id in broken else float(win),
                error="it broke" if task.id in broken else None,
            )
            for task, win in zip(panel("easy"), outcomes, strict=False)
        ]
        file = run.folder / "evaluations" / f"{point:06d}.jsonl"
        file.write_text("".join(episode.to_json() + "\n" for episode in episodes))
    (run.folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def reported(recipes: list[Path]) -> tuple[Plan, Report]:
    plan = Plan.of(recipes, [0, 1, 2], Path("out"))
    none, half, most = [0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]
    for run in plan.runs:
        after = {"grpo": [half, half, none], "sharpo": [most, half, half]}[run.name][run.seed]
        write_run(run, {0: none, 2: none, 4: half, 5: after}, teacher=10.0 if run.name == "sharpo" else 0.0)
    return plan, read_report(plan)


def test_the_numbers_of_runs(reported: tuple[Plan, Report]) -> None:
    grpo, sharpo = reported[1].methods
    run = sharpo.runs[0]
    assert (run.curve, run.tasks, run.left_out) == ((0.0, 0.0, 0.5, 0.75), 4, 0)
    assert run.late == pytest.approx((0 + 0.5 + 0.75) / 3)
    assert run.area == pytest.approx((0 * 2 + 0.25 * 2 + 0.625) / 5)
    assert run.before.high == pytest.approx(0.4899, abs=1e-4) and run.before.low == 0.0, "Wilson"
    assert run.costs["credit/teacher_tokens"] == 50.0 and grpo.runs[0].costs["credit/teacher_tokens"] == 0.0
    assert grpo.means["after"].value == pytest.approx(1 / 3)


def test_recipes_are_compared_by_seed_and_task(reported: tuple[Plan, Report]) -> None:
    found = {against.measure: against for against in reported[1].against}
    assert set(found) == {"after", "late", "area"}, "here the score is success by another name"
    after = found["after"]
    assert after.by_seed == ((0, 0.25), (1, 0.0), (2, 0.5)) and after.tasks == 12
    assert after.difference.value == pytest.approx(0.25)
    test = seed_test([0.25, 0.0, 0.5])
    assert test is not None and (after.p_value, after.adjusted, after.detectable) == (
        test.p_value,
        test.p_value,
        test.detectable,
    )
    assert after.difference.low is not None and after.difference.low < 0.25


def test_the_page_the_picture_and_the_tables(reported: tuple[Plan, Report]) -> None:
    plan, report = reported
    page = markdown(report, "curves.png")
    assert "| sharpo | after | +25.0 |" in page and "+25.0, +0.0, +50.0" in page and "![" in page
    assert "| sharpo | `credit.lam` | `not given` | `1.0` |" in page and "| sharpo | 50 |" in page
    assert "measured on 4 tasks of easy x 1, 3 seeds" in page and page.count("**mean**") == 2
    draw(report, Path("curves.png"))
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")
    assert [grid.row_count for grid in table(report)] == [2, 3]
    assert json.loads(report.to_json())["against"][0]["difference"][0] == pytest.approx(0.25)
    assert read_report(plan).to_json() == report.to_json()


def test_what_is_missing_is_left_out_and_said(recipes: list[Path]) -> None:
    plan = Plan.of(recipes, [0, 1], Path("out"))
    curve = {point: [1, 0, 0, 1] for point in plan.points}
    broken = panel("easy")[0].id
    write_run(plan.runs[0], curve, broken=(broken,))
    write_run(plan.runs[1], curve)
    write_run(plan.runs[2], {point: curve[point] for point in plan.points[:-1]})
    report = read_report(plan)
    assert report.failures == {"grpo/1": "it is not finished", "sharpo/1": "it is not finished"}
    assert (report.methods[0].runs[0].tasks, report.methods[0].runs[0].left_out) == (3, 1)
    after = report.against[0]
    assert after.tasks == 3 and after.p_value is None and after.detectable is None, "one seed tells nothing of seeds"
    page = markdown(report, None)
    assert "* `grpo/1`: it is not finished" in page and "1 tasks of single runs" in page
    assert "**mean**" not in page, "of one seed there is none"
    (plan.runs[1].folder / "evaluations" / "000004.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match="000004"):
        read_report(plan)


def test_more_recipes_cost_certainty(recipes: list[Path]) -> None:
    names = [Path("grpo.toml"), *(Path(f"other{number}.toml") for number in range(3))]
    for name in names[1:]:
        name.write_text(SHARPO)
    plan = Plan.of(names, range(4), Path("out"))
    draw_ = np.random.default_rng(0)
    for run in plan.runs:
        write_run(run, {point: draw_.integers(2, size=6).tolist() for point in plan.points})
    after = [found for found in read_report(plan).against if found.measure == "after"]
    known = [found for found in after if found.p_value is not None and found.adjusted is not None]
    best = min(known, key=lambda found: found.p_value or 0.0)
    assert len(known) == 3 and best.adjusted == pytest.approx(min(1.0, 3 * (best.p_value or 0.0)))


# ---- the whole -------------------------------------------------------------------------------------------------------


def test_a_study_goes_on_with_what_is_there(recipes: list[Path], tmp_path: Path) -> None:
    tiny_policy.policy(sharpness=6.0).save(tmp_path / "tiny")
    few = ["run.iterations=1", "eval.limit=2"]
    commands.train(recipes[0], Path("out/grpo/7"), [*few, "run.seed=7"])  # as somebody did by hand
    before = Path("out/grpo/7/metrics.jsonl").read_bytes()
    arguments = ["study", *map(str, recipes), "--out", "out", "--seeds", "7", "--set", few[0], "--set", few[1]]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0 and "report: out/report.md" in done.output, (done.output, done.exception)
    assert Path("out/grpo/7/metrics.jsonl").read_bytes() == before, "it was finished"
    assert not Path("out/grpo/7.log").exists() and Path("out/sharpo/7.log").read_bytes() == b""
    report = json.loads(Path("out/report.json").read_text())
    assert [method["runs"][0]["tasks"] for method in report["methods"]] == [2, 2] and report["failures"] == {}
    assert "sharpo" in Path("out/report.md").read_text() and Path("out/curves.png").is_file()
    with pytest.raises(RunMismatchError, match="different run"):
        study(recipes, Path("out"), seeds=[7], overrides=[*few, "update.lr=0.1"])
