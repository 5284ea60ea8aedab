"""What the page is made of: runs and comparisons, and their results taken together."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from fedsim.report.context import Context, context_of
from fedsim.report.mark import unfinished_mark
from fedsim.report.page.outcome import headline
from fedsim.report.ranking import all_methods
from fedsim.report.results import Row, rows_of
from fedsim.study.cost_axes import AXES
from fedsim.study.findings import findings_of
from fedsim.study.guessing import chance_levels
from fedsim.study.standings import Standing, standings
from fedsim.study.summary import findings_of_fields
from fedsim.study.verdict import verdict


def present(tables: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame | None:
    """A table; None where there is none, or an empty one."""
    table = tables.get(name)
    return table if table is not None and len(table) else None


class Source(NamedTuple):
    """A run or a comparison.

    Attributes:
      record: the content of its `run.json`, as far as it is known.
      label: the name of its rows, where several runs share the page; else empty.
    """

    record: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    label: str = ""

    def table(self, name: str) -> pd.DataFrame | None:
        """One of its tables; None where there is none, or an empty one."""
        table = present(self.tables, name)
        if table is not None and self.label and "method" in table:
            return table.assign(method=self.label)
        return table


class Result(NamedTuple):
    """The results of all sources together.

    Attributes:
      compared: rows of `compare.csv`; none where nothing is compared, or runs have not ended.
      spent: rows of `bytes.csv` and `seconds.csv` by name; none for several sources.
      chance: the accuracy of guessing, by variation.
    """

    context: Context
    runs: list[Row]
    compared: list[Row]
    baseline: str | None
    spent: dict[str, list[Row]]
    chance: dict[str, float]
    standings: dict[str, list[Standing]]


def result_of(sources: Sequence[Source]) -> Result:
    """The results of runs and comparisons, from their tables."""
    runs, context = runs_and_context(sources)
    compared = []
    if not unfinished_mark(sources[0].record):
        compared = rows_in(only_table(sources, "compare"))
    baseline = _baseline(sources)
    chance = chance_levels(only_table(sources, "partition"), context.metric)
    return Result(
        context=context,
        runs=runs,
        compared=compared,
        baseline=baseline,
        spent={axis.table: rows_in(only_table(sources, axis.table)) for axis in AXES},
        chance=chance,
        standings=standings(compared, runs, baseline or "", context.score, chance),
    )


def runs_and_context(sources: Sequence[Source]) -> tuple[list[Row], Context]:
    """The rows of `summary.csv`, and what all pictures of them know."""
    record = sources[0].record
    score = record.get("score", "final")
    summary = tables_of(sources, "summary")
    runs: list[Row] = []
    if summary is not None and score in summary:
        runs = rows_of(summary)
    others = [tables_of(sources, "rounds"), tables_of(sources, "clients")]
    order = all_methods(runs, others, _baseline(sources), score)
    return runs, context_of(record["scenario"], runs, score, order)


def _baseline(sources: Sequence[Source]) -> str | None:
    """The method that the others are compared with; several sources are not compared."""
    return sources[0].record.get("baseline") if len(sources) == 1 else None


def lines_of(sources: Sequence[Source], result: Result) -> list[str]:
    """The headline, and further sentences."""
    context = result.context
    over = not unfinished_mark(sources[0].record)
    lines = _verdict(sources, result, over)
    if lines:
        return lines
    rounds = rounds_of_one(sources, result)
    guessing = result.chance.get("")
    first = headline(result.runs, rounds, context.order, context.score, guessing, over)
    return [first, *findings_of_fields(result.runs, context.words)]


def rounds_of_one(sources: Sequence[Source], result: Result) -> list[Row]:
    """The rows of `rounds.csv` where there is only one method."""
    if len(result.context.order) > 1:
        return []
    return rows_in(tables_of(sources, "rounds"))


def _verdict(sources: Sequence[Source], result: Result, over: bool) -> list[str]:
    """The sentences of a comparison; none for runs that are not compared."""
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


def tables_of(sources: Sequence[Source], name: str) -> pd.DataFrame | None:
    """The rows of all sources' tables; None where no source has any."""
    tables = []
    for source in sources:
        table = source.table(name)
        if table is not None:
            tables.append(table)
    if not tables:
        return None
    return pd.concat(tables, ignore_index=True)


def only_table(sources: Sequence[Source], name: str) -> pd.DataFrame | None:
    """The table of the only source; None where there are several."""
    if len(sources) > 1:
        return None
    return sources[0].table(name)


def rows_in(table: pd.DataFrame | None) -> list[Row]:
    """The rows of a table; none where there is no table."""
    if table is None:
        return []
    return rows_of(table)
