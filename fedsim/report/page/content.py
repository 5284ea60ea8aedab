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
    endings,
    fairness,
    left_out,
    machines,
    moves,
    pictures,
    setting,
    staleness,
)
from fedsim.report.page import clients as clients_page
from fedsim.report.page.along import along
from fedsim.report.page.graph import graph
from fedsim.report.page.opening import TITLES, opening_axis
from fedsim.report.page.outcome import headline, numbers
from fedsim.report.page.render import rendered
from fedsim.report.page.table import table_of, times_of
from fedsim.report.pictures.looks import STRONG, curve_classes
from fedsim.report.ranking import all_methods
from fedsim.report.results import Row, metric_of, rows_of
from fedsim.study.audit_lines import audit_lines
from fedsim.study.cost_axes import AXES, BYTES, is_about_cost
from fedsim.study.findings import findings_of
from fedsim.study.standings import Standing, chance_levels, standings
from fedsim.study.verdict import verdict
from fedsim.study.worst_case import by_attack

FEW = 4  # further pictures that are shown at once; more are folded away


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
    result = result_of(sources)
    context = result.context
    first = sources[0]
    clients = _tables(sources, "clients")
    title = first.record["scenario"]["name"] if len(sources) == 1 else f"{len(sources)} runs"
    rounds = _tables(sources, "rounds")
    table = table_of(result.runs, result.compared, result.standings, context, rounds)
    has_table = table is not None and table["count"] > 1
    records = [(source.label, source.record) for source in sources]
    curves, data = curves_of(sources, result)
    content = {
        "title": title,
        "marks": [*endings.marks(records), *_private(sources)],
        "reasons": endings.reasons(records),
        "refresh": refresh,
        "columns": columns,
        **_first_screen(sources, result),
        **curves,
        "costs": _costs(result, has_table),
        "machines": machines.machines(
            _only_table(sources, "machines"), context.order, _only_table(sources, "rounds")
        ),
        "ages": staleness.histograms(_tables(sources, "staleness"), context),
        "moves": moves.moves(_tables(sources, "clusters"), rounds, context),
        "fairness": fairness.fairness(clients, context),
        "left_out": left_out.left_out(clients, context),
        "attacks": attacks.attacks(result.runs, context),
        "along": along(result.compared, context),
        "forests": pictures.differences(result.compared, context),
        "table": table if has_table else None,
        "spreads": pictures.spreads(clients, context),
        "client_tables": clients_page.tables(clients, context),
        "setting": [setting.setting(source.record, source.label) for source in sources],
        "partition": pictures.partition(first.table("partition")),
        "graph": graph(first.record["scenario"], first.table("partition")),
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


def result_of(sources: Sequence[Source]) -> Result:
    """The results of runs and comparisons, from their tables."""
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
    others = [_tables(sources, "rounds"), _tables(sources, "clients")]
    order = all_methods(runs, others, baseline, score)
    chance = chance_levels(_only_table(sources, "partition"), metric_of(runs))
    return Result(
        context=context_of(record["scenario"], runs, score, order),
        runs=runs,
        compared=compared,
        baseline=baseline,
        spent={axis.table: _rows(_only_table(sources, axis.table)) for axis in AXES},
        chance=chance,
        standings=standings(compared, runs, baseline or "", score, chance),
    )


def _first_screen(sources: Sequence[Source], result: Result) -> dict[str, Any]:
    """The first screen: a headline, a picture or a few numbers, and further sentences."""
    context = result.context
    over = not unfinished_mark(sources[0].record)
    rounds = _rounds_of_one(sources, result)
    lines = lines_of(sources, result)

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
        "audited": audit_lines(result.runs, context.words),
        "lines": [*lines[1:], *endings.notes([(s.label, s.record) for s in sources])],
        "numbers": shown,
        "dots": dots,
    }


def lines_of(sources: Sequence[Source], result: Result) -> list[str]:
    """The headline, and further sentences of a comparison."""
    context = result.context
    over = not unfinished_mark(sources[0].record)
    lines = _verdict(sources, result, over)
    if lines:
        return lines
    rounds = _rounds_of_one(sources, result)
    guessing = result.chance.get("")
    return [headline(result.runs, rounds, context.order, context.score, guessing, over)]


def _rounds_of_one(sources: Sequence[Source], result: Result) -> list[Row]:
    """The rows of `rounds.csv` where there is only one method."""
    return _rows(_tables(sources, "rounds")) if len(result.context.order) <= 1 else []


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


def curves_of(sources: Sequence[Source], result: Result) -> tuple[dict[str, Any], dict[str, list]]:
    """The charts for the template, and their numbers for the script."""
    rounds = _tables(sources, "rounds")
    classes = curve_classes(result.context.order)
    axes = charts.lower_axes(rounds)
    opens = opening_axis(result.context.scenario, rounds, result.spent[BYTES.table])
    if opens not in dict(axes):  # in the last round methods send the same
        opens = "bytes"
    groups, data = charts.charts(rounds, classes, result.context, opens)
    one_panel_each = all(len(group["panels"].shown) == 1 for group in groups)
    content = {
        "groups": groups,
        "opens": opens,
        "over": TITLES[opens],
        "axes": axes,
        "lacking": charts.lacking(data, opens),
        "rest_open": len(groups) - 1 <= FEW and one_panel_each,
        "names": list(classes.items()),
        "strong": STRONG,
    }
    return content, data


def _costs(result: Result, has_table: bool) -> list[dict[str, Any]]:
    """Scores against costs; what the comparison is about comes first.

    Args:
      result: the results of all sources together.
      has_table: whether there is a table of all results, behind which equal costs are folded.
    """
    context = result.context
    shown = []
    for axis in sorted(AXES, key=lambda axis: not is_about_cost(axis, context.scenario)):
        parts = costs.cost_parts(axis, result.spent[axis.table], result.baseline or "", context)
        if parts:
            folded = has_table and not any(map(costs.differ, parts))
            shown.append({"axis": axis, "parts": parts, "folded": folded})
    return shown


def _sections(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The sections of the page: anchor and title of each."""
    of_costs = [shown["axis"].table for shown in content["costs"] if not shown["folded"]]
    sections = (
        ("result", "Result", True),
        ("attacks", "Attacks", content["attacks"]),
        ("along", "Scores", content["along"]),
        ("curves", "Curves", content["groups"]),
        *((name, name.capitalize(), True) for name in of_costs),
        ("machines", "Machines", content["machines"]),
        ("staleness", "Staleness", content["ages"]),
        ("clusters", "Clusters", content["moves"]),
        ("table", "All numbers", content["table"]),
        ("differences", "Differences", content["forests"].shown),
        ("clients", "Clients", content["spreads"].shown or content["left_out"]),
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


def _private(sources: Sequence[Source]) -> list[str]:
    """A line for every run that is private."""
    lines = []
    for source in sources:
        rounds = source.table("rounds")
        columns = [] if rounds is None else rounds
        text = private_mark(columns, source.record["scenario"])
        if text:
            lines.append(f"{source.label}: {text}" if source.label else text)
    return lines


def _command(record: Mapping[str, Any]) -> str:
    return " ".join(map(setting.quoted, record["surroundings"]["command"]))


def _provenance(source: Source) -> tuple[str, list[tuple[str, str]]]:
    name = source.label or str(source.record["scenario"]["name"])
    return name, setting.provenance(source.record)
