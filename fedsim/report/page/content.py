"""The content of the page: all of it comes from the tables and the records of runs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from fedsim.report.about import About, about
from fedsim.report.mark import mark_of
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
from fedsim.report.page.plot import STRONG, looks
from fedsim.report.page.render import rendered
from fedsim.report.page.table import table_of, times_of
from fedsim.report.ranking import order_of
from fedsim.report.results import Row, metric_of, rows_of
from fedsim.study.cost_axes import AXES, leads
from fedsim.study.findings import findings_of
from fedsim.study.standings import Standing, chance_levels, standings
from fedsim.study.verdict import verdict
from fedsim.study.worst_case import by_attack

FEW = 4  # pictures that are shown without being asked for
COLUMNS = [1, 1, 2, 3, 2, *[3] * 10_000]  # by the number of pictures: no row is left half empty
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
      label: of its rows, where several runs stand on one page; else empty.
    """

    record: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    label: str = ""

    def table(self, name: str) -> pd.DataFrame | None:
        """One of its tables; None where there is none, or an empty one."""
        table = self.tables.get(name)
        if table is None or not len(table):
            return None
        return table.assign(method=self.label) if self.label and "method" in table else table


class Result(NamedTuple):
    """What is known of all sources together.

    Attributes:
      about: what all pictures know, of the scenario of the first; methods are in the order of the
        result.
      runs: rows of `summary.csv`.
      compared: rows of `compare.csv`; none where nothing is compared, or not all of it has ended.
      spent: rows of `bytes.csv` and `seconds.csv`, likewise.
      baseline: the method that the others are compared with, if any.
      chance: the accuracy of guessing, by variation.
      standings: of the methods, by variation.
    """

    about: About
    runs: list[Row]
    compared: list[Row]
    baseline: str | None
    spent: dict[str, list[Row]]
    chance: dict[str, float]
    standings: dict[str, list[Standing]]


def _result(sources: Sequence[Source]) -> Result:
    record, alone = sources[0].record, len(sources) == 1
    score, summary = record.get("score", "final"), _tables(sources, "summary")
    runs = [] if summary is None or score not in summary else rows_of(summary)
    compare = sources[0].table("compare") if alone and not mark_of(record) else None
    compared = [] if compare is None else rows_of(compare)
    baseline = record.get("baseline") if alone else None
    spent = {axis.table: sources[0].table(axis.table) if alone else None for axis in AXES}
    chance = chance_levels(sources[0].table("partition"), metric_of(runs)) if alone else {}
    tables = [
        table for name in ("rounds", "clients") if (table := _tables(sources, name)) is not None
    ]
    names = [
        *order_of(runs, None, score),
        *(str(name) for table in tables for name in table["method"].unique()),
    ]
    return Result(
        about=about(record["scenario"], runs, score, list(dict.fromkeys(names))),
        runs=runs,
        compared=compared,
        baseline=baseline,
        spent={name: [] if table is None else rows_of(table) for name, table in spent.items()},
        chance=chance,
        standings=standings(compared, runs, baseline or "", score, chance),
    )


def page_of(sources: Sequence[Source], refresh: int = 0) -> bytes:
    """The page of one run or comparison, or of several runs beside one another.

    Args:
      sources: runs and comparisons.
      refresh: seconds after which a browser reads the page again, which is being rewritten; 0:
        never.
    """
    result = _result(sources)
    rounds, timing, clients = (_tables(sources, name) for name in ("rounds", "timing", "clients"))
    known = result.about
    scenario, names = known.scenario, known.order
    classes = looks(names, result.baseline)
    groups, data = charts.charts(rounds, classes, known)
    shown = {
        "title": scenario["name"] if len(sources) == 1 else f"{len(sources)} runs",
        "marks": _marks(sources),
        "refresh": refresh,
        **_findings(sources, result, [] if rounds is None or len(names) > 1 else rows_of(rounds)),
        "groups": groups,
        "axes": charts.byte_axes(rounds),
        "rest_open": len(groups) - 1 <= FEW and all(len(group["panels"]) == 1 for group in groups),
        "columns": COLUMNS,
        "names": list(classes.items()),
        "strong": STRONG,
        "costs": [
            {"axis": axis, "parts": parts}
            for axis in sorted(AXES, key=lambda axis: not leads(axis, scenario))
            if (parts := costs.costs(axis, result.spent[axis.table], result.baseline or "", known))
        ],
        "machines": machines.machines(
            sources[0].table("machines") if len(sources) == 1 else None, names
        ),
        "ages": staleness.histograms(_tables(sources, "staleness"), known),
        "left_out": left_out.left_out(clients, known),
        "attacks": attacks.attacks(result.runs, known),
        "forests": pictures.differences(result.compared, known),
        "table": table_of(result.runs, result.compared, result.standings, known),
        "spreads": pictures.spreads(clients, known),
        "setting": [setting.setting(source.record, source.label) for source in sources],
        "partition": pictures.partition(sources[0].table("partition")),
        "time": times_of(timing, names),
        "again": [
            " ".join(map(setting.quoted, source.record["surroundings"]["command"]))
            for source in sources
        ],
        "provenance": [
            (s.label or str(s.record["scenario"]["name"]), setting.provenance(s.record))
            for s in sources
        ],
    }
    return rendered({**shown, "sections": _sections(shown)}, data)


def _findings(sources: Sequence[Source], result: Result, rounds: Sequence[Row]) -> dict[str, Any]:
    """The first screen: a sentence, a picture or a few numbers, and further sentences.

    Args:
      sources: runs and comparisons.
      result: what is known of them together.
      rounds: rows of `rounds.csv`, where there is a single method.
    """
    record, runs, chance, known = sources[0].record, result.runs, result.chance, result.about
    names, score = known.order, known.score
    lines, over = (
        list(record.get("verdict") or []) if len(sources) == 1 else [],
        not mark_of(record),
    )
    if result.baseline and not lines and runs:
        tables = {"compare": result.compared, "summary": runs}
        first, *others = verdict(
            findings_of(tables, result.baseline, score, known.scenario, chance)
        ).lines
        lines = [first if over else f"So far: {first}", *others]
    several = len(names) > 1 or len({row.get("variant") for row in runs}) > 1
    dots = pictures.scores(runs, result.standings, result.baseline, chance, known)
    return {
        "headline": lines[0]
        if lines
        else headline(runs, rounds, names, score, chance.get(""), over),
        "lines": [*lines[1:], *_remarks(sources)],
        "numbers": numbers(runs, rounds, over) if runs and not several else [],
        "dots": dots if several and not by_attack(runs) else None,
    }


def _sections(shown: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the page is divided into: the anchor of each part, and what it is called."""
    parts = (
        ("result", "Result", True),
        ("attacks", "Attacks", shown["attacks"]),
        ("curves", "Curves", shown["groups"]),
        *((part["axis"].table, part["axis"].table.capitalize(), True) for part in shown["costs"]),
        ("machines", "Machines", shown["machines"]),
        ("staleness", "Staleness", shown["ages"]),
        ("table", "All numbers", shown["table"] and len(shown["table"]["rows"]) > 1),
        ("differences", "Differences", shown["forests"]),
        ("clients", "Clients", shown["spreads"] or shown["left_out"]),
        ("setting", "What was run", True),
        ("time", "Time", shown["time"]),
        ("again", "Once more", True),
    )
    return [(anchor, title) for anchor, title, present in parts if present]


def _tables(sources: Sequence[Source], name: str) -> pd.DataFrame | None:
    tables = [table for source in sources if (table := source.table(name)) is not None]
    return pd.concat(tables, ignore_index=True) if tables else None


def _marks(sources: Sequence[Source]) -> list[str]:
    """A line for every run that has not ended, or did not end as planned."""
    lines = []
    for source in sources:
        status = source.record["status"]
        if text := mark_of(source.record) or ENDED.get(status, f"ended as {status}"):
            lines.append(f"{source.label}: {text}" if source.label else text)
    return lines


def _remarks(sources: Sequence[Source]) -> list[str]:
    """Why seeds did not end as planned, and what to know of those that did."""
    lines = []
    for source in sources:
        for kind in ("reasons", "notes"):
            for who, why in source.record.get(kind, {}).items():
                seed = who if source.record.get("kind") == "compare" else f"seed {who}"
                lines.append(f"{f'{source.label}, ' if source.label else ''}{seed}: {why}")
    return lines
