"""A study's report as text: tables for the terminal, and a page in Markdown.

Invariant: a number that is not known is a dash, never a number in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.markup import escape
from rich.table import Table

from .report import LATE, Estimate, Method, Report, RunNumbers

_TABLE = (
    "All but the mean score in percent. Intervals of a run are Wilson's over tasks; those of a mean are a bootstrap "
    f"over seeds, then tasks. *last {LATE}* is the mean of the last {LATE} evaluations, *area* the mean height of the "
    "curve, *score* the mean score after training."
)
_READING = (
    "*points* is the recipe less the first, on pairs of runs with the same seed and the tasks that both "
    "played. The interval is a bootstrap over seeds, then tasks; with few seeds it is narrower than its name says. *p* "
    "is of Student's t-test with one number for each seed; *Holm* corrects it for all recipes that are compared. "
    "*detectable* is the true difference that so many seeds, spread like these, find with a chance of 80 % at the "
    "level 0.05. A difference well below that tells little in either direction; more seeds do."
)
_COST = (
    "Tokens that were read and episodes that were played for the method's sake alone, beside those that are trained "
    "on; seconds of an iteration without evaluations, which compare only if every process had a core to itself."
)


_ONLY_ON_THE_PAGE = ("by seed", "pairs")  # for the width of terminals


@dataclass(frozen=True)
class _Grid:
    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    text: str = ""


def table(report: Report) -> Iterator[Table]:
    """For the terminal: means of each recipe, and each against the first."""
    for grid in (_means(report), _against(report)):
        if grid.rows:
            shown = Table(title=grid.title, box=box.SIMPLE_HEAD)
            wanted = [number for number, name in enumerate(grid.head) if name not in _ONLY_ON_THE_PAGE]
            for number in wanted:
                name = grid.head[number]
                shown.add_column(name, justify="right" if number else "left", no_wrap=number > 0, overflow="fold")
            for row in grid.rows:
                shown.add_row(*(escape(row[number]) for number in wanted))
            yield shown


def markdown(report: Report, picture: str | None) -> str:
    """The page.

    Args:
        report: the report.
        picture: name of the picture beside it; None without one.
    """
    parts = [f"# {' · '.join(method.name for method in report.methods) or 'Study'}\n", _setting(report)]
    if report.failures:
        parts.append("**Not in this report:**\n")
        parts += [f"* `{run}`: {reason}" for run, reason in report.failures.items()]
        parts.append("")
    if picture is not None and report.methods:
        parts.append(f"![Success on the fixed panel and in rollouts]({picture})\n")
    for grid in (_runs(report), _against(report), _costs(report), _otherwise(report)):
        if grid.rows:
            parts += [f"## {grid.title}\n", _pipes(grid), *([f"{grid.text}\n"] if grid.text else [])]
    names = ", ".join(f"`{file}`" for file in report.recipes.values())
    parts.append(f"Recipes: {names}. All numbers are in `report.json`.\n")
    return "\n".join(parts)


def _setting(report: Report) -> str:
    known = report.settings
    left_out = sum(run.left_out for method in report.methods for run in method.runs)
    tasks = max((run.tasks for method in report.methods for run in method.runs), default=0)
    count = len(known["seeds"])
    text = (
        f"{known['env']}: {known['iterations']} iterations on {known['split']}, measured on {tasks} tasks of "
        f"{known['eval_split']} x {known['repeats']}, {count} seed{'s' if count != 1 else ''}."
    )
    broken = f" {left_out} tasks of single runs had a broken episode and are left out there." if left_out else ""
    return f"{text}{broken}\n"


def _runs(report: Report) -> _Grid:
    score = _has_score(report)
    head = ("recipe", "seed", "tasks", "before", "after", f"last {LATE}", "area", *(["score"] if score else []))
    rows: list[tuple[str, ...]] = []
    for method in report.methods:
        rows += [(method.name, str(run.seed), str(run.tasks), *_run(run, score)) for run in method.runs]
        if len(method.runs) > 1:
            rows.append((f"**{method.name}**", "**mean**", "", *_mean(method, score)))
    return _Grid("Success on the fixed panel", head, rows, _TABLE)


def _means(report: Report) -> _Grid:
    score = _has_score(report)
    head = ("recipe", "seeds", "before", "after", f"last {LATE}", "area", *(["score"] if score else []))
    names = ("before", "after", "late", "area")
    rows = [
        (
            method.name,
            str(len(method.runs)),
            *(f"{100 * method.means[name].value:.1f}" for name in names),
            *([f"{method.means['score'].value:.3f}"] if score else []),
        )
        for method in report.methods
    ]
    return _Grid("Success on the fixed panel in %, mean over seeds", head, rows)


def _run(run: RunNumbers, score: bool) -> list[str]:
    cells = [_percent(run.before), _percent(run.after), f"{100 * run.late:.1f}", f"{100 * run.area:.1f}"]
    return [*cells, *([f"{run.score:.3f}"] if score else [])]


def _mean(method: Method, score: bool) -> list[str]:
    cells = [_percent(method.means[name]) for name in ("before", "after", "late", "area")]
    return [*cells, *([f"{method.means['score'].value:.3f}"] if score else [])]


def _has_score(report: Report) -> bool:
    """Whether the score says anything that success doesn't."""
    return any(abs(run.score - run.after.value) > 1e-12 for method in report.methods for run in method.runs)


def _against(report: Report) -> _Grid:
    first = next(iter(report.recipes))
    head = ("recipe", "measure", "points", "95 % interval", "by seed", "p", "Holm", "detectable", "pairs")
    rows = [
        (
            found.name,
            f"last {LATE}" if found.measure == "late" else found.measure,
            f"{100 * found.difference.value:+.1f}",
            _bounds(found.difference),
            ", ".join(f"{100 * value:+.1f}" for _, value in found.by_seed),
            _p_value(found.p_value),
            _p_value(found.adjusted),
            "–" if found.detectable is None else f"{100 * found.detectable:.1f}",
            str(found.tasks),
        )
        for found in report.against
    ]
    return _Grid(f"Against {first}", head, rows, _READING)


def _costs(report: Report) -> _Grid:
    head = ("recipe", "teacher tokens", "extra episodes", "extra tokens", "seconds an iteration")
    rows = []
    for method in report.methods:
        sums = {key: sum(run.costs[key] for run in method.runs) / len(method.runs) for key in method.runs[0].costs}
        iterations = sum(len(run.rollouts) for run in method.runs) / len(method.runs)
        rows.append(
            (
                method.name,
                f"{sums['credit/teacher_tokens']:,.0f}",
                f"{sums['credit/extra_episodes']:,.0f}",
                f"{sums['credit/extra_tokens']:,.0f}",
                f"{sums['time/seconds'] / max(1.0, iterations):.1f}",
            )
        )
    return _Grid("Cost of a run, mean over seeds", head, rows, _COST)


def _otherwise(report: Report) -> _Grid:
    rows = [(method.name, *(f"`{part}`" for part in line)) for method in report.methods for line in method.otherwise]
    return _Grid("What sets the recipes apart", ("recipe", "key", "in the first", "here"), rows)


def _pipes(grid: _Grid) -> str:
    """A table in Markdown: the first column to the left, the others to the right."""
    lines = [grid.head, ("---", *("---:" for _ in grid.head[1:])), *grid.rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _percent(estimate: Estimate) -> str:
    bounds = _bounds(estimate)
    return f"{100 * estimate.value:.1f}" + (f" ({bounds})" if bounds != "–" else "")


def _bounds(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "–"
    return f"{100 * estimate.low:.1f} to {100 * estimate.high:.1f}"


def _p_value(value: float | None) -> str:
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
