"""The content of the page; all of it comes from the tables and the records of runs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from fedsim.report.context import Context, context_of
from fedsim.report.mark import private_mark, unfinished_mark
from fedsim.report.page import (
    attacks,
    charts,
    costs,
    left_out,
    machines,
    pictures,
    setting,
    staleness,
)
from fedsim.report.page.outcome import headline, numbers
from fedsim.report.page.plot import STRONG, curve_classes
from fedsim.report.page.render import rendered
from fedsim.report.page.table import table_of, times_of
from fedsim.report.ranking import order_of
from fedsim.report.results import Row, metric_of, rows_of
from fedsim.study.cost_axes import AXES, is_about_cost
from fedsim.study.findings import findings_of
from fedsim.study.standings import Standing, chance_levels, standings
from fedsim.study.verdict import verdict
from fedsim.study.worst_case import by_attack

FEW = 4  # further pictures that are shown at once; more are folded away
ENDED = {
    "done": "",
    "incomplete": "not all of these runs ended as planned",
    "stopped": "stopped before its last round",
    "not_run": "not run: no round was aggregated",
}


class Source(NamedTuple):
    """A run or a comparison.

    Attributes:
      record: the content of its `run.json`, as far as it is known.
      tables: its tables by name.
      label: the name of its rows, where several runs share the page; else empty.
    """

    record: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    label: str = ""

    def table(self, name: str) -> pd.DataFrame | None:
        """One of its tables; None where there is none, or an empty one."""
        table = self.tables.get(name)
        if table is None or not len(table):
            return None
        if self.label and "method" in table:
            return table.assign(method=self.label)
        return table


class Result(NamedTuple):
    """The results of all sources together.

    Attributes:
      context: what all pictures know, from the scenario of the first source.
      runs: rows of `summary.csv`.
      compared: rows of `compare.csv`; none where nothing is compared, or runs have not ended.
      baseline: the method that the others are compared with, if any.
      spent: rows of `bytes.csv` and `seconds.csv` by name; none for several sources.
      chance: the accuracy of guessing, by variation.
      standings: the standings of methods, by variation.
    """

    context: Context
    runs: list[Row]
    compared: list[Row]
    baseline: str | None
    spent: dict[str, list[Row]]
    chance: dict[str, float]
    standings: dict[str, list[Standing]]


def page_of(sources: Sequence[Source], refresh: int = 0) -> bytes:
    """The page of one run or comparison, or of several runs side by side.

    Args:
      sources: runs and comparisons.
      refresh: seconds after which a browser loads the page again, while a run goes on; 0: never.
    """
    result = _result(sources)
    context = result.context
    first = sources[0]
    clients = _tables(sources, "clients")
    title = first.record["scenario"]["name"] if len(sources) == 1 else f"{len(sources)} runs"
    curves, data = _curves(sources, result)
    content = {
        "title": title,
        "marks": _marks(sources),
        "refresh": refresh,
        "columns": columns,
        **_first_screen(sources, result),
        **curves,
        "costs": _costs(result),
        "machines": machines.machines(_only_table(sources, "machines"), context.order),
        "ages": staleness.histograms(_tables(sources, "staleness"), context),
        "left_out": left_out.left_out(clients, context),
        "attacks": attacks.attacks(result.runs, context),
        "forests": pictures.differences(result.compared, context),
        "table": table_of(result.runs, result.compared, result.standings, context),
        "spreads": pictures.spreads(clients, context),
        "setting": [setting.setting(source.record, source.label) for source in sources],
        "partition": pictures.partition(first.table("partition")),
        "time": times_of(_tables(sources, "timing"), context.order),
        "again": [_command(source.record) for source in sources],
        "provenance": [_provenance(source) for source in sources],
    }
    content["sections"] = _sections(content)
    return rendered(content, data)


def columns(pictures: int) -> int:
    """How many pictures are side by side, so that the last row is not half empty.

    >>> [columns(pictures) for pictures in (1, 2, 3, 4, 5, 9)]
    [1, 2, 3, 2, 3, 3]
    """
    if pictures <= 1:
        return 1
    return 2 if pictures in (2, 4) else 3


def _result(sources: Sequence[Source]) -> Result:
    record = sources[0].record
    score = record.get("score", "final")
    summary = _tables(sources, "summary")
    runs = []
    if summary is not None and score in summary:
        runs = rows_of(summary)
    compared = []
    if not unfinished_mark(record):
        compared = _rows(_only_table(sources, "compare"))
    baseline = record.get("baseline") if len(sources) == 1 else None
    chance = chance_levels(_only_table(sources, "partition"), metric_of(runs))
    return Result(
        context=context_of(record["scenario"], runs, score, _methods(sources, runs, score)),
        runs=runs,
        compared=compared,
        baseline=baseline,
        spent={axis.table: _rows(_only_table(sources, axis.table)) for axis in AXES},
        chance=chance,
        standings=standings(compared, runs, baseline or "", score, chance),
    )


def _methods(sources: Sequence[Source], runs: Sequence[Row], score: str) -> list[str]:
    """All methods in the order of the result; those without a score follow."""
    methods = order_of(runs, None, score)
    for name in ("rounds", "clients"):
        table = _tables(sources, name)
        if table is not None:
            methods += [str(method) for method in table["method"].unique()]
    return list(dict.fromkeys(methods))


def _first_screen(sources: Sequence[Source], result: Result) -> dict[str, Any]:
    """The first screen: a headline, a picture or a few numbers, and further sentences."""
    context = result.context
    over = not unfinished_mark(sources[0].record)
    rounds = []
    if len(context.order) <= 1:
        rounds = _rows(_tables(sources, "rounds"))

    lines = _verdict(sources, result, over)
    if not lines:
        guessing = result.chance.get("")
        lines = [headline(result.runs, rounds, context.order, context.score, guessing, over)]

    variants = {row.get("variant") for row in result.runs}
    several = len(context.order) > 1 or len(variants) > 1
    dots = None
    shown = []
    if several and not by_attack(result.runs):
        dots = pictures.scores(
            result.runs, result.standings, result.baseline, result.chance, context
        )
    elif result.runs and not several:
        shown = numbers(result.runs, rounds, over)
    return {
        "headline": lines[0],
        "lines": [*lines[1:], *_remarks(sources)],
        "numbers": shown,
        "dots": dots,
    }


def _verdict(sources: Sequence[Source], result: Result, over: bool) -> list[str]:
    """The sentences of a comparison; none for runs that are not compared.

    Args:
      sources: runs and comparisons.
      result: the results of all of them.
      over: whether the runs have ended.
    """
    stored = sources[0].record.get("verdict")
    if stored and len(sources) == 1:
        return list(stored)
    if not result.baseline or not result.runs:
        return []

    context = result.context
    tables = {"compare": result.compared, "summary": result.runs}
    findings = findings_of(tables, result.baseline, context.score, context.scenario, result.chance)
    lines: list[str] = [*verdict(findings).lines]
    if not over:
        lines[0] = f"So far: {lines[0]}"
    return lines


def _curves(sources: Sequence[Source], result: Result) -> tuple[dict[str, Any], dict[str, list]]:
    """The charts for the template, and their numbers for the script."""
    rounds = _tables(sources, "rounds")
    classes = curve_classes(result.context.order, result.baseline)
    groups, data = charts.charts(rounds, classes, result.context)
    one_panel_each = all(len(group["panels"]) == 1 for group in groups)
    content = {
        "groups": groups,
        "axes": charts.byte_axes(rounds),
        "rest_open": len(groups) - 1 <= FEW and one_panel_each,
        "names": list(classes.items()),
        "strong": STRONG,
    }
    return content, data


def _costs(result: Result) -> list[dict[str, Any]]:
    """Scores against costs; what the comparison is about comes first."""
    context = result.context
    shown = []
    for axis in sorted(AXES, key=lambda axis: not is_about_cost(axis, context.scenario)):
        parts = costs.cost_parts(axis, result.spent[axis.table], result.baseline or "", context)
        if parts:
            shown.append({"axis": axis, "parts": parts})
    return shown


def _sections(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The sections of the page: anchor and title of each."""
    table = content["table"]
    of_costs = [shown["axis"].table for shown in content["costs"]]
    sections = (
        ("result", "Result", True),
        ("attacks", "Attacks", content["attacks"]),
        ("curves", "Curves", content["groups"]),
        *((name, name.capitalize(), True) for name in of_costs),
        ("machines", "Machines", content["machines"]),
        ("staleness", "Staleness", content["ages"]),
        ("table", "All numbers", table and len(table["rows"]) > 1),
        ("differences", "Differences", content["forests"]),
        ("clients", "Clients", content["spreads"] or content["left_out"]),
        ("setting", "What was run", True),
        ("time", "Time", content["time"]),
        ("again", "Run it again", True),
    )
    return [(anchor, title) for anchor, title, present in sections if present]


def _tables(sources: Sequence[Source], name: str) -> pd.DataFrame | None:
    """The rows of all sources' tables; None where no source has any."""
    tables = [source.table(name) for source in sources]
    present = [table for table in tables if table is not None]
    return pd.concat(present, ignore_index=True) if present else None


def _only_table(sources: Sequence[Source], name: str) -> pd.DataFrame | None:
    """The table of the only source; None where there are several."""
    return sources[0].table(name) if len(sources) == 1 else None


def _rows(table: pd.DataFrame | None) -> list[Row]:
    return [] if table is None else rows_of(table)


def _marks(sources: Sequence[Source]) -> list[str]:
    """Lines for every run that has not ended, did not end as planned, or is private."""
    lines = []
    for source in sources:
        status = source.record["status"]
        rounds = source.table("rounds")
        columns = [] if rounds is None else rounds
        texts = [
            unfinished_mark(source.record) or ENDED.get(status, f"ended as {status}"),
            private_mark(columns, source.record["scenario"]),
        ]
        prefix = f"{source.label}: " if source.label else ""
        lines += [prefix + text for text in texts if text]
    return lines


def _remarks(sources: Sequence[Source]) -> list[str]:
    """Why seeds did not end as planned, and notes on those that did."""
    lines = []
    for source in sources:
        start = f"{source.label}, " if source.label else ""
        seed = "" if source.record.get("kind") == "compare" else "seed "
        for kind in ("reasons", "notes"):
            for run, text in source.record.get(kind, {}).items():
                lines.append(f"{start}{seed}{run}: {text}")
    return lines


def _command(record: Mapping[str, Any]) -> str:
    return " ".join(map(setting.quoted, record["surroundings"]["command"]))


def _provenance(source: Source) -> tuple[str, list[tuple[str, str]]]:
    name = source.label or str(source.record["scenario"]["name"])
    return name, setting.provenance(source.record)
