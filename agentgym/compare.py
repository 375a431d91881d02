"""Paired comparison: what one agent does better than another on the same tasks.

Invariant: both sides of a comparison are the same tasks with the same content, each played to its end as often as its
run planned. What is not shared, or not finished, is refused, or left out and said so. All numbers are a function of the
records alone, whatever the order in which episodes ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from .episode import read_episodes
from .errors import ConfigError, DataError, RunMismatchError
from .identity import EvalIdentity, TrainIdentity, read_identity
from .paired import bootstrap_interval, detectable, exact_test, holm, standard_error, success_interval
from .runs import EPISODES
from .seeding import Seed
from .stats import mean
from .summary import CONFIDENCE

_SEED = Seed(("compare",))
_NAMED = 3  # tasks that a message names

Interval = tuple[float, float]


class Score(NamedTuple):
    """One task in one run.

    Attributes:
        family: the task's family.
        digest: hash of its content.
        successes: number of successes among the run's repeats.
        score: mean score.
    """

    family: str
    digest: str
    successes: int
    score: float


@dataclass(frozen=True)
class PlayedRun:
    """An evaluation as it was recorded, by itself or in a training run.

    Attributes:
        path: the run directory.
        identity: what was evaluated.
        tasks: the tasks that were played to their end as often as planned, by id.
        after: iterations of training before it; None for a run of `agentgym eval`.
    """

    path: Path
    identity: EvalIdentity
    tasks: Mapping[str, Score]
    after: int | None = None

    @property
    def owed(self) -> int:
        """Number of tasks that were not."""
        return self.identity.panel.tasks - len(self.tasks)


@dataclass(frozen=True)
class Effect:
    """The second run against the first over some tasks; differences are second less first.

    Attributes:
        tasks: number of tasks.
        better: tasks with more successes (in proportion to the repeats) than in the first run.
        worse: tasks with fewer.
        success: success rates of the first and the second run.
        success_difference: difference of the success rates.
        success_interval: its bounds; None if nothing can be said of them.
        score: mean scores of both.
        score_difference: difference of the mean scores.
        score_interval: its bounds; None if nothing can be said of them.
        detectable_success: the true difference of success rates that a panel like this finds with 80 % power at the
            level 0.05; None if the spread is not known.
        detectable_score: the same of mean scores.
    """

    tasks: int
    better: int
    worse: int
    success: tuple[float, float]
    success_difference: float
    success_interval: Interval | None
    score: tuple[float, float]
    score_difference: float
    score_interval: Interval | None
    detectable_success: float | None
    detectable_score: float | None


@dataclass(frozen=True)
class Comparison:
    """One run against the first.

    Attributes:
        first: the first run.
        second: the other run.
        overall: over all tasks.
        families: by task family.
        test: name of the test of equal success.
        p_value: its p-value.
        adjusted: the p-value after Holm's correction for all runs that are compared with the first.
        notes: what else sets the two runs apart, or was left out.
    """

    first: PlayedRun
    second: PlayedRun
    overall: Effect
    families: Mapping[str, Effect]
    test: str
    p_value: float
    adjusted: float
    notes: tuple[str, ...]


def compare(runs: Sequence[str | Path], *, shared: bool = False) -> list[Comparison]:
    """Compares runs with the first of them, task by task.

    With one episode a task, success has McNemar's exact test and an adjusted Wald interval; with repeats, the exact
    sign-flip test over tasks and a bootstrap over tasks. Mean scores have the bootstrap.

    Args:
        runs: two run directories of evaluations, or more; or as many of training runs, of which the newest evaluation
            that all of them have is compared.
        shared: compare on the tasks that all runs played to their end, instead of refusing runs of different panels.

    Raises:
        ConfigError: for fewer than two runs, or runs without a common task.
        DataError: if a run is missing or corrupt.
        RunMismatchError: if panels differ or episodes are owed, unless ``shared``; for evaluations beside training
            runs, and training runs without a common evaluation.
    """
    if len(runs) < 2:
        raise ConfigError("a comparison needs two runs or more; name them one after the other")
    paths = [Path(run) for run in runs]
    after = _newest_evaluation(paths)
    played = [read_run(path, after) for path in paths]
    if not shared:
        for other in played[1:]:
            _refuse_different(played[0], other)
    common = sorted(
        name
        for name, task in played[0].tasks.items()
        if all(name in run.tasks and run.tasks[name].digest == task.digest for run in played[1:])
    )
    if not common:
        raise ConfigError("the runs have no task in common that all of them played to its end; compare others")
    cut = [replace(run, tasks={name: run.tasks[name] for name in common}) for run in played]
    found = [_compare(cut[0], other) for other in cut[1:]]
    adjusted = holm([p_value for *_, p_value in found])
    return [
        Comparison(
            first=cut[0],
            second=run,
            overall=overall,
            families=families,
            test="McNemar, exact" if max(cut[0].identity.repeats, run.identity.repeats) == 1 else "sign flips, exact",
            p_value=p_value,
            adjusted=corrected,
            notes=(*_trained(after), *_left_out(played, len(common)), *_differences(cut[0].identity, run.identity)),
        )
        for run, (overall, families, p_value), corrected in zip(cut[1:], found, adjusted, strict=True)
    ]


def _newest_evaluation(paths: Sequence[Path]) -> int | None:
    """The most iterations after which all of some training runs were evaluated; None for evaluations.

    Raises:
        DataError: if a run is missing or corrupt.
        RunMismatchError: if only some are training runs, or they have no evaluation in common.
    """
    trained = [path for path in paths if isinstance(read_identity(path), TrainIdentity)]
    if not trained:
        return None
    alone = f"agentgym eval --agent llm --model hf/{trained[0]}/checkpoints/NAME evaluates a trained policy by itself"
    others = [path for path in paths if path not in trained]
    if others:
        raise RunMismatchError(
            f"{trained[0]} is a training run, and {others[0]} is none; compare runs of a kind: {alone}"
        )
    files = [(path / "evaluations").glob("[0-9]*.jsonl") for path in paths]
    common = set.intersection(*({int(file.stem) for file in found} for found in files))
    if not common:
        names = ", ".join(str(path) for path in paths)
        raise RunMismatchError(
            f"{names} were not evaluated after the same number of iterations; use one eval.every, or {alone}"
        )
    return max(common)


def read_run(path: Path, after: int | None = None) -> PlayedRun:
    """Reads an evaluation; of a task that was played again after it broke, the last record counts.

    Args:
        path: the run directory.
        after: of a training run, the iterations before the evaluation; None for a run of `agentgym eval`.

    Raises:
        DataError: if the run is missing, corrupt, or of the other kind.
    """
    identity = read_identity(path)
    if isinstance(identity, TrainIdentity) != (after is not None):
        raise DataError(f"{path} is of another kind of run; `after` is for training runs alone")
    if isinstance(identity, TrainIdentity):
        identity = identity.evaluation
    file = path / (EPISODES if after is None else f"evaluations/{after:06d}.jsonl")
    last: dict[tuple[str, int], tuple[float, float] | None] = {}
    about: dict[str, tuple[str, str]] = {}
    if file.is_file():
        for episode in read_episodes(file):
            outcome = (float(bool(episode.success)), episode.score or 0.0) if episode.completed else None
            last[episode.task, episode.member] = outcome
            about[episode.task] = (episode.family, episode.task_digest)
    tasks: dict[str, Score] = {}
    for name, (family, digest) in sorted(about.items()):
        outcomes = [last.get((name, member)) for member in range(identity.repeats)]
        known = [outcome for outcome in outcomes if outcome is not None]
        if len(known) == identity.repeats:
            score = mean([score for _, score in known])
            tasks[name] = Score(family, digest, sum(success == 1 for success, _ in known), score or 0.0)
    return PlayedRun(path, identity, tasks, after)


def _refuse_different(first: PlayedRun, second: PlayedRun) -> None:
    """Says which tasks differ.

    Raises:
        RunMismatchError: if any do.
    """
    parts: list[str] = []
    if first.identity.panel != second.identity.panel:
        one, other = first.tasks, second.tasks
        lists = {
            f"only in {first.path}": [name for name in one if name not in other],
            f"only in {second.path}": [name for name in other if name not in one],
            "with other content": [name for name in one if name in other and one[name].digest != other[name].digest],
        }
        parts = [f"{_tasks(len(names))} {where} ({_some(names)})" for where, names in lists.items() if names]
        parts = ["the panels differ: " + ", ".join(parts) if parts else "the panels differ in their order"]
    for run, peer in ((first, second), (second, first)):
        if run.owed:
            names = [name for name in peer.tasks if name not in run.tasks]
            which = f" ({_some(names)})" if names else ""
            lost = f"episodes of {_tasks(run.owed)}{which}"
            again = f"{run.path} owes {lost}: repeat its command to play them"
            parts.append(again if run.after is None else f"{lost} broke in {run.path}")
    if parts:
        raise RunMismatchError(
            f"{first.path} and {second.path} cannot be compared as they are: {'; '.join(parts)}; "
            "--shared compares the tasks that all runs played to their end"
        )


def _tasks(number: int) -> str:
    return "1 task" if number == 1 else f"{number} tasks"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")


def _trained(after: int | None) -> Iterable[str]:
    if after is not None:
        yield (
            f"evaluations after {after} iterations of training, the newest that all runs have: policies are compared, "
            "not methods (which agentgym study does)"
        )


def _left_out(runs: Iterable[PlayedRun], common: int) -> Iterable[str]:
    sizes = {str(run.path): run.identity.panel.tasks for run in runs}
    if any(size != common for size in sizes.values()):
        of = ", ".join(f"{size} of {path}" for path, size in sizes.items())
        yield f"only the {common} tasks that all runs played to their end are compared (of {of})"


def _differences(first: EvalIdentity, second: EvalIdentity) -> Iterable[str]:
    """What else sets the runs apart, as one line or none."""
    names = ("environment", "split", "max_steps", "env_options", "repeats", "seed", "settings", "version")
    pairs = [(name, _value(first, second, name), _value(second, first, name)) for name in names]
    parts = [f"{name} ({_shown(one)} and {_shown(other)})" for name, one, other in pairs if one != other]
    if parts:
        yield f"the runs differ in {', '.join(parts)}"


def _value(identity: EvalIdentity, other: EvalIdentity, name: str) -> object:
    if name == "settings":  # many of them: those that are alike are left out
        return dict(sorted(identity.settings.items() - other.settings.items()))
    return identity.versions.get("agentgym") if name == "version" else vars(identity)[name]


def _shown(value: object) -> str:
    return "the environment's own" if value is None else str(value)


def _compare(first: PlayedRun, second: PlayedRun) -> tuple[Effect, dict[str, Effect], float]:
    """Overall, by family, and the p-value."""
    repeats = (first.identity.repeats, second.identity.repeats)
    families: dict[str, list[str]] = {}
    for name, task in first.tasks.items():
        families.setdefault(task.family, []).append(name)
    pairs = {name: (task, second.tasks[name]) for name, task in first.tasks.items()}
    by_family = {
        family: _effect([pairs[name] for name in names], repeats) for family, names in sorted(families.items())
    }
    return _effect(list(pairs.values()), repeats), by_family, exact_test(_successes(list(pairs.values()), repeats))


def _successes(pairs: Sequence[tuple[Score, Score]], repeats: tuple[int, int]) -> list[int]:
    """For each task the difference of the success rates, in units of 1 / lcm(repeats)."""
    unit = math.lcm(*repeats)
    return [two.successes * (unit // repeats[1]) - one.successes * (unit // repeats[0]) for one, two in pairs]


def _effect(pairs: Sequence[tuple[Score, Score]], repeats: tuple[int, int]) -> Effect:
    tasks, unit = len(pairs), math.lcm(*repeats)
    counts = _successes(pairs, repeats)
    better, worse = sum(count > 0 for count in counts), sum(count < 0 for count in counts)
    rates = [count / unit for count in counts]
    scores = [two.score - one.score for one, two in pairs]
    interval: Interval | None
    error: float | None
    if unit == 1:
        interval, error = success_interval(better, worse, tasks, CONFIDENCE)
    else:
        interval, error = bootstrap_interval(rates, _SEED.child("success"), CONFIDENCE), standard_error(rates)
    score_error = standard_error(scores)
    return Effect(
        tasks=tasks,
        better=better,
        worse=worse,
        success=(
            sum(one.successes for one, _ in pairs) / (tasks * repeats[0]),
            sum(two.successes for _, two in pairs) / (tasks * repeats[1]),
        ),
        success_difference=sum(counts) / (unit * tasks),
        success_interval=interval,
        score=(math.fsum(one.score for one, _ in pairs) / tasks, math.fsum(two.score for _, two in pairs) / tasks),
        score_difference=math.fsum(scores) / tasks,
        score_interval=bootstrap_interval(scores, _SEED.child("score"), CONFIDENCE),
        detectable_success=None if error is None else detectable(error),
        detectable_score=None if score_error is None else detectable(score_error),
    )


def table(comparison: Comparison) -> Table:
    """A table for the terminal: one row for each family and one for all; score, test, and what to mind, below."""
    first, second, overall = comparison.first, comparison.second, comparison.overall
    identity = first.identity
    which = f"panel {identity.panel.hash[:12]}" if not first.owed else f"{len(first.tasks)} shared tasks"
    grid = Table(
        title=f"{second.path} ({second.identity.agent}) against {first.path} ({identity.agent})\n"
        f"{identity.environment}/{identity.split}, {which}"
    )
    grid.add_column("family")
    for name, _ in _cells(overall):
        grid.add_column(name, justify="right")
    for family, effect in comparison.families.items():
        grid.add_row(family, *(cell for _, cell in _cells(effect)))
    grid.add_section()
    grid.add_row("all", *(cell for _, cell in _cells(overall)), style="bold")
    corrected = "" if comparison.adjusted == comparison.p_value else f", {comparison.adjusted:.2g} after Holm"
    lines = [f"equal success: p = {comparison.p_value:.2g} ({comparison.test}){corrected}"]
    found = [] if overall.detectable_success is None else [f"{100 * overall.detectable_success:.1f} points of success"]
    if overall.score != overall.success:
        bounds = _bounds(overall.score_interval, 1, ".3f")
        lines.insert(0, f"score {overall.score_difference:+.3f}, {CONFIDENCE:.0%} interval {bounds}")
        found += [] if overall.detectable_score is None else [f"{overall.detectable_score:.3f} of the score"]
    if found:
        lines.append(f"found with 80% power on such a panel: {' or '.join(found)}")
    grid.caption = "\n".join([*lines, *comparison.notes])
    return grid


def _cells(effect: Effect) -> Iterable[tuple[str, str]]:
    """Columns and a row's cells in them."""
    yield "tasks", str(effect.tasks)
    yield "first", f"{100 * effect.success[0]:.1f}%"
    yield "second", f"{100 * effect.success[1]:.1f}%"
    yield "points", f"{100 * effect.success_difference:+.1f}"
    yield f"{CONFIDENCE:.0%} interval", _bounds(effect.success_interval, 100, ".1f")
    yield "won–lost", f"{effect.better}–{effect.worse}"


def _bounds(interval: Interval | None, scale: float, form: str) -> str:
    return "–" if interval is None else f"{scale * interval[0]:{form}} – {scale * interval[1]:{form}}"
