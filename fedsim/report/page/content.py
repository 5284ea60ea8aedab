"""The content of the page: all of it comes from the tables and the records of runs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from fedsim.report.page import charts, pictures, setting
from fedsim.report.page.outcome import headline, numbers
from fedsim.report.page.plot import STRONG, looks
from fedsim.report.page.render import rendered
from fedsim.report.results import metric_of, results, rows_of, times
from fedsim.study.standings import chance_levels, order_of, standings
from fedsim.study.summary import larger_is_better
from fedsim.study.words import axis, variation

FEW = 4  # pictures that are shown without being asked for
COLUMNS = [1, 1, 2, 3, 2, *[3] * 10_000]  # by the number of pictures: no row is left half empty
ENDED = {"done": "", "running": "This run has not ended: what follows is what it has done so far.",
         "interrupted": "This run was interrupted: what follows is what it had done until then.",
         "incomplete": "Not all of these runs ended as planned."}  # fmt: skip


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


def page_of(sources: Sequence[Source]) -> bytes:
    """The page of one run or comparison, or of several runs beside one another."""
    record, alone = sources[0].record, len(sources) == 1
    scenario, score = record["scenario"], record.get("score", "final")
    baseline = record.get("baseline") if alone else None
    rounds, summary, timing, clients = (_tables(sources, name) for name in ("rounds", "summary", "timing", "clients"))
    compare = sources[0].table("compare") if alone else None
    runs = [] if summary is None else rows_of(summary)
    metric = metric_of(runs)
    chance = chance_levels(sources[0].table("partition"), metric) if alone else {}
    compared = [] if compare is None else rows_of(compare)
    by_variation = standings(compared, runs, baseline or "", score, chance) if runs and score in runs[0] else {}
    names = order_of(by_variation, larger_is_better(metric))
    names += [
        str(name) for t in (rounds, clients) if t is not None for name in t["method"].unique() if name not in names
    ]
    classes = looks(names, baseline)
    groups, data = charts.charts(rounds, classes, scenario, metric)
    several, evaluated = len(names) > 1, [] if rounds is None or len(names) > 1 else rows_of(rounds)
    lines = list(record.get("verdict") or []) if alone else []
    dots = (
        pictures.scores(summary, by_variation, names, baseline, score, chance, scenario) if several and runs else None
    )
    shown = {
        "title": scenario["name"] if alone else f"{len(sources)} runs",
        "mark": _mark(sources),
        "headline": lines[0] if lines else headline(runs, evaluated, names, score, chance.get("")),
        "lines": [*lines[1:], *_remarks(sources)],
        "numbers": [] if several or not runs else numbers(runs, evaluated),
        "dots": dots,
        "groups": groups,
        "rest_open": len(groups) - 1 <= FEW and all(len(group["panels"]) == 1 for group in groups),
        "columns": COLUMNS,
        "names": list(classes.items()),
        "strong": STRONG,
        "forests": pictures.forests(compare, names, scenario),
        "table": _table(runs, compared if compare is not None else None, score, scenario),
        "spreads": pictures.spreads(clients, names, scenario),
        "setting": [setting.setting(source.record, source.label) for source in sources],
        "partition": pictures.partition(sources[0].table("partition")),
        "time": times(timing, names),
        "again": [" ".join(map(setting.quoted, source.record["surroundings"]["command"])) for source in sources],
        "provenance": [(s.label or str(s.record["scenario"]["name"]), setting.provenance(s.record)) for s in sources],
    }  # fmt: skip
    return rendered({**shown, "sections": _sections(shown)}, data)


def _sections(shown: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the page is divided into: the anchor of each part, and what it is called."""
    parts = (
        ("result", "Result", True),
        ("curves", "Curves", shown["groups"]),
        ("table", "All numbers", shown["table"] and len(shown["table"]["rows"]) > 1),
        ("differences", "Differences", shown["forests"]),
        ("clients", "Clients", shown["spreads"]),
        ("setting", "What was run", True),
        ("time", "Time", shown["time"]),
        ("again", "Once more", True),
    )
    return [(anchor, title) for anchor, title, there in parts if there]


def _tables(sources: Sequence[Source], name: str) -> pd.DataFrame | None:
    tables = [table for source in sources if (table := source.table(name)) is not None]
    return pd.concat(tables, ignore_index=True) if tables else None


def _mark(sources: Sequence[Source]) -> list[str]:
    """A line for every run that did not end as planned."""
    lines = []
    for source in sources:
        status = source.record["status"]
        text = source.record.get("mark") or ENDED.get(status, f"This run ended as {status}.")
        if text:
            lines.append(f"{source.label}: {text}" if source.label else str(text))
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


def _table(
    runs: Sequence[dict[str, Any]], compared: Sequence[dict[str, Any]] | None, score: str, scenario: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The results of all methods, names of variations and settings in words."""
    if not runs or score not in runs[0]:
        return None
    rows = results(runs, compared, score)
    titles = {"score": f"{score} {metric_of(runs)}".replace("_", " "), "variant": "variation", "tuned": "chosen"}
    for name in ("variant", "tuned"):
        labels = [str(row[name][0]) for row in rows if name in row]
        paths = {label.partition("=")[0] for label in labels}
        if name == "tuned" and len(paths) == 1 and not any("," in label for label in labels):
            titles[name] = axis(paths.pop(), scenario)
            words = {label: label.partition("=")[2] for label in labels}
        else:
            words = {label: variation(label, scenario) for label in labels}
        for row in rows:
            if name in row:
                row[name] = (words[str(row[name][0])], row[name][1])
    return {
        "head": [titles.get(name, name) for name in rows[0]],
        "rows": [[*row.values()] for row in rows],
        "words": sum(name in rows[0] for name in ("method", "variant", "tuned")),
    }
