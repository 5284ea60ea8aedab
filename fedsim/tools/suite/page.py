"""The report of a suite as one page that opens offline."""

import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from fedsim.disk.tables import Record
from fedsim.report.element import breakable
from fedsim.report.page.folding import MOST_ROWS, columns
from fedsim.report.page.render import rendered
from fedsim.report.pictures.looks import curve_class
from fedsim.report.results import EMPTY, Cell
from fedsim.study.summary import as_loss, grouped, larger_is_better
from fedsim.study.words import count
from fedsim.tools.suite import pictures
from fedsim.tools.suite.analysis import Analysis
from fedsim.tools.suite.sentences import across_lines, best_mean, headline, notes, task_lines

SECTIONS = (
    ("result", "Result"),
    ("tasks", "Tasks"),
    ("differences", "Differences"),
    ("overall", "Over all tasks"),
    ("pairs", "All pairs"),
    ("profiles", "Profiles"),
    ("budget", "Budget"),
    ("costs", "Cost"),
    ("table", "All numbers"),
)
SHADES = 5  # of a table, g0 to g5
WORDS = ("task", "method", "metric", "worst_task")  # columns of text

SCORE_COLUMNS = {
    "task": "task",
    "method": "method",
    "seeds": "seeds",
    "mean": "mean",
    "sd": "sd",
    "difference": "difference",
    "ci_low": "95 % from",
    "ci_high": "to",
    "p_adjusted": "p (Holm)",
    "lost": "lost runs",
}
OVERALL_COLUMNS = {
    "method": "method",
    "tasks": "tasks",
    "mean": "mean",
    "iqm": "IQM",
    "iqm_low": "95 % from",
    "iqm_high": "to",
    "mean_rank": "mean rank",
    "rank_low": "95 % from",
    "rank_high": "to",
    "worst_task": "worst task",
    "worst_mean": "mean in it",
}
COST_COLUMNS = {
    "task": "task",
    "method": "method",
    "trials": "settings tried",
    "tuning_steps": "gradient steps of tuning",
    "local_steps": "of a run",
    "bytes_up": "bytes up",
    "bytes_down": "bytes down",
    "virtual_seconds": "virtual seconds",
}


class Shaded(NamedTuple):
    """A cell of a table with shades.

    Attributes:
      shade: from 0, the worst, to 5, the best.
      title: what a pointer on it tells.
    """

    text: str
    shade: int
    framed: bool = False
    title: str = ""


def page_of(
    analysis: Analysis, rows: Mapping[str, Sequence[Record]], left_out: Sequence[str]
) -> bytes:
    """The page."""
    looks = {method: curve_class(rank) for rank, method in enumerate(analysis.methods)}
    content: dict[str, Any] = {
        "title": f"Suite of {count(len(analysis.tasks), 'task')}",
        "size": _size(analysis),
        "headline": headline(analysis),
        "best_mean": best_mean(analysis),
        "left_out": left_out,
        "lines": across_lines(analysis),
        "task_lines": task_lines(analysis),
        "notes": notes(analysis),
        "columns": columns,
        "in_profiles": _looks_in(rows.get("profiles", []), looks),
        "in_budget": _looks_in(rows.get("budget", []), looks),
        "baseline": analysis.baseline,
        "metric": analysis.metric_in_words,
        "methods": [breakable(method) for method in analysis.methods],
        "ranked": analysis.ranked,
        "grid": _grid(analysis, rows["scores"]),
        "differences": pictures.differences(analysis, rows["scores"]),
        "overall": pictures.overall(analysis, rows["overall"]),
        "pairs": _pairs(analysis, rows.get("overall_pairs", [])),
        "profiles": pictures.profiles(analysis, rows.get("profiles", [])),
        "budget": pictures.budget(analysis, rows.get("budget", [])),
        "tables": {
            "overall": _table(rows["overall"], OVERALL_COLUMNS),
            "scores": _table(rows["scores"], SCORE_COLUMNS),
            "costs": _table(rows["costs"], COST_COLUMNS),
        },
    }
    content["sections"] = _sections(content)
    return rendered(content, template=files("fedsim.tools.suite").joinpath("page.html"))


def _looks_in(rows: Sequence[Record], looks: Mapping[str, str]) -> dict[str, str]:
    """The classes of the methods that a table has."""
    methods = {row["method"] for row in rows}
    return {method: look for method, look in looks.items() if method in methods}


def _size(analysis: Analysis) -> str:
    """How much was run, and what the others are compared with."""
    tasks = count(len(analysis.tasks), "task")
    methods = count(len(analysis.methods), "method")
    seeds = count(len(analysis.seeds), "seed")
    return f"{tasks}, {methods}, {seeds} in common; baseline: {analysis.baseline}"


def _sections(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The sections that the page has: name and title."""
    always = ("result", "tasks", "overall", "costs", "table")
    return [(name, title) for name, title in SECTIONS if name in always or content[name]]


def _grid(analysis: Analysis, rows: Sequence[Record]) -> list[tuple[Any, list[Shaded]]]:
    """Mean scores, a row per task and a cell per method; a method's worst task has a frame."""
    by_place = {(row["method"], row["task"]): row["mean"] for row in rows}
    worst = _worst_tasks(analysis)
    grid = []
    for task in analysis.tasks:
        means = {method: by_place.get((method, task.name)) for method in analysis.methods}
        losses = {}
        for method, mean in means.items():
            if mean is not None and math.isfinite(mean):
                losses[method] = as_loss(mean, larger_is_better(task.metric))
        shades = _shades(losses)
        cells = []
        for method, mean in means.items():
            text = "" if mean is None else f"{mean:z.4f}"
            framed = worst.get(method) == task.name
            cells.append(Shaded(text, shades.get(method, 0), framed))
        grid.append((breakable(task.name), cells))
    return grid


def _shades(losses: Mapping[str, float]) -> dict[str, int]:
    """The shades of methods in a task, from 0 for the largest loss."""
    if not losses:
        return {}
    least = min(losses.values())
    most = max(losses.values())
    shades = {}
    for method, loss in losses.items():
        place = (most - loss) / (most - least) if most > least else 1.0
        shades[method] = round(SHADES * place)
    return shades


def _worst_tasks(analysis: Analysis) -> dict[str, str]:
    """The task in which a method has its worst mean, by method."""
    if len(analysis.tasks) < 2 or not analysis.seeds:
        return {}
    means = analysis.scores.mean(2)  # [methods, tasks]
    indices = means.argmin(1) if analysis.larger_is_better else means.argmax(1)
    names = [analysis.common[index].name for index in indices.tolist()]
    return dict(zip(analysis.complete, names, strict=True))


def _pairs(analysis: Analysis, rows: Sequence[Record]) -> list[tuple[Any, list[Shaded]]]:
    """All pairs: wins, open tasks and losses of the row's method; dark if better over the tasks."""
    if not rows:
        return []
    cells = {}
    for row in rows:
        one = row["method"]
        other = row["other"]
        cells[one, other] = _pair_cell(row, "wins", "losses", "better")
        cells[other, one] = _pair_cell(row, "losses", "wins", "worse")
    table = []
    for method in analysis.ranked:
        line = [cells.get((method, other), Shaded("", 0)) for other in analysis.ranked]
        table.append((breakable(method), line))
    return table


def _pair_cell(row: Record, won: str, lost: str, better: str) -> Shaded:
    """A pair from the side of one of its methods.

    Args:
      won: the column of the tasks in which the method is better.
      lost: that of those in which it is worse.
      better: the outcome with which it is better over the tasks.
    """
    text = f"{row[won]}–{row['open']}–{row[lost]}"
    p = row["p_adjusted"]
    title = "" if p is None else f"p = {p:.2g} after Holm over the tasks"
    if row["outcome"] == better:
        return Shaded(text, SHADES - 1, title=title)
    return Shaded(text, 0, title=title)


def _table(rows: Sequence[Record], titles: Mapping[str, str]) -> dict[str, Any]:
    """A table as the template takes it, without columns in which nothing is known.

    A long one is folded by task.
    """
    shown = [name for name in titles if any(row.get(name) is not None for row in rows)]
    by_task = {"": list(rows)}
    if len(rows) > MOST_ROWS:
        by_task = grouped(rows, key=lambda row: row.get("task", ""))
    groups = []
    for task, of_task in by_task.items():
        groups.append((task, [[_cell(row.get(name)) for name in shown] for row in of_task]))
    return {
        "head": [titles[name] for name in shown],
        "groups": groups,
        "words": sum(name in WORDS for name in shown[:2]),
    }


def _cell(value: Any) -> Cell:
    """What a cell shows, and what it is sorted by."""
    if value is None:
        return EMPTY
    if isinstance(value, str):
        return breakable(value), value
    if isinstance(value, int):
        return f"{value:,}", value
    if abs(value) >= 1000:
        return f"{value:,.0f}", value
    return f"{value:.4g}", value
