"""The files that follow from the tables of a run: `report.html`, figures, and tables for papers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from fedsim.disk.tables import LISTED
from fedsim.report import figures, page, tables
from fedsim.report.cost_table import cost_tables
from fedsim.report.latex import plain
from fedsim.report.mark import in_latex, in_markdown, mark_of
from fedsim.report.paper_table import paper_table
from fedsim.report.ranking import order_of
from fedsim.report.results import metric_of, rows_of
from fedsim.report.series import by_variant
from fedsim.study.breakdown import untrained
from fedsim.study.cost_axes import AXES, Axis
from fedsim.study.label_skew import counts_of_rows
from fedsim.study.words import variation

PAGE = "report.html"


def derived_files(
    frames: Mapping[str, pd.DataFrame], record: Mapping[str, Any], drawn: Sequence[str] = figures.QUICK
) -> dict[str, bytes]:
    """Files by name below the run directory: `report.html`, `figures/curves.png` ..., `tables/summary.tex` ...

    Args:
      frames: the tables of a run or a comparison, by name; of others than these nothing is drawn.
      record: the content of its `run.json`, but for what is known at the end alone.
      drawn: the formats of figures, which take longer than all the others; none: without figures.
    """
    summary, compared, score = frames.get("summary"), frames.get("compare"), record.get("score", "final")
    mark = mark_of(record)
    pictures = _figures(frames, record, {"mark": mark, "formats": drawn}) if drawn else ()
    files = {f"figures/{name}": content for name, content in pictures}
    if summary is not None and score in summary and len(summary):
        rows = (rows_of(summary), None if compared is None else rows_of(compared))
        table = tables.for_paper(summary, compared, score)
        files["tables/summary.tex"] = in_latex(paper_table(*rows, score, record["scenario"]), mark).encode()
        files["tables/summary.md"] = in_markdown(tables.markdown(table), mark).encode()
    for axis in AXES:
        if (spent := frames.get(axis.table)) is not None and len(spent):
            files |= _cost_tables(axis, rows_of(spent), record, mark)
    return {PAGE: page.page_of([page.Source(record, frames)]), **files}


def _cost_tables(
    axis: Axis, rows: Sequence[Mapping[str, Any]], record: Mapping[str, Any], mark: str
) -> dict[str, bytes]:
    """`tables/bytes.tex` and `tables/bytes.md`; those of a second variation as `bytes-2.tex`, and so on."""
    files = {}
    parts = cost_tables(axis, [dict(row) for row in rows], record.get("baseline") or "", record["scenario"])
    for place, part in enumerate(parts, 1):
        name = f"tables/{axis.table}" if place == 1 else f"tables/{axis.table}-{place}"
        table = pd.DataFrame([[shown for shown, _ in row] for row in part.cells], columns=part.head)
        title = f"{part.title}. " if part.title else ""
        about = f"{title}{axis.note}"
        files[f"{name}.tex"] = in_latex(f"% {plain(about)} Needs booktabs.\n{tables.latex(table)}", mark).encode()
        files[f"{name}.md"] = in_markdown(f"{about}\n\n{tables.markdown(table)}", mark).encode()
    return files


def _figures(
    frames: Mapping[str, pd.DataFrame], record: Mapping[str, Any], form: Mapping[str, Any]
) -> Iterator[tuple[str, bytes]]:
    rounds, partition, compared, summary = (frames.get(name) for name in ("rounds", "partition", "compare", "summary"))
    scenario, score = record["scenario"], record.get("score", "final")
    rows = [] if summary is None or score not in summary else rows_of(summary)
    order = order_of(rows, record.get("baseline"), score) if rows else []
    if rounds is not None and len(rounds):
        yield from figures.curves(_marked(rounds, rows), scenario, order, **form).items()
    if partition is not None and len(partition):
        variant, first = next(iter(by_variant(partition).items()))
        clients = by_variant(frames["clients"]).get(variant) if "clients" in frames else None
        counts = counts_of_rows(first, _clients(clients, scenario["data"].get("clients")))
        seed = int(first["seed"].iloc[0]) if "seed" in first and len(scenario["seeds"]) > 1 else None
        yield from figures.partition(counts, _as_dealt(scenario, variant), seed, **form).items()
    if (first := frames.get("machines")) is not None and len(first):
        yield from figures.machines(first, scenario, order, **form).items()
    if rows:
        yield from figures.attacks(rows, scenario, score, order, **form).items()
    for axis in AXES:
        if (spent := frames.get(axis.table)) is not None and len(spent):
            yield from figures.costs(axis, rows_of(spent), rounds, scenario, **form).items()
    if compared is None or not len(compared):
        return
    if set(compared["method"]) - set(compared["baseline"]):
        yield from figures.differences(compared, scenario, order, **form).items()
    path = figures.axis_of(scenario)
    if path in compared and len(compared["mean"].dropna()):
        yield from figures.scores(compared, scenario, _untrained(rounds, metric_of(rows)), order, **form).items()


def _as_dealt(scenario: Mapping[str, Any], variant: str) -> Mapping[str, Any]:
    """The scenario with the partition of one variation, in the variation's own words where the partition varies."""
    vary = (scenario.get("compare") or {}).get("vary") or {}
    if not any(path == "data.partition" or path.startswith("data.partition.") for path in vary):
        return scenario
    return {**scenario, "data": {**scenario["data"], "partition": {"kind": variation(variant, scenario)}}}


def _marked(rounds: pd.DataFrame, runs: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows of `rounds.csv` with a column `diverged`, which their runs have in `summary.csv`."""
    keys = [name for name in ("method", "variant", "seed") if name in rounds]
    lost = {tuple(run.get(key) for key in keys) for run in runs if run.get("diverged")}
    return rounds.assign(diverged=[int(run in lost) for run in zip(*(rounds[key] for key in keys), strict=True)])


def _untrained(rounds: pd.DataFrame | None, metric: str) -> float | None:
    """The mean score of the start models of all variations together; None where it is not known."""
    if rounds is None or metric not in rounds:
        return None
    start = rounds.loc[rounds["round"] == 0, ["round", metric]]
    return untrained(rows_of(start), metric).get("")


def _clients(table: pd.DataFrame | None, count: int | None) -> Sequence[Any] | int | None:
    """All clients by what they are called; None where tables list only those that took part."""
    if (count or 0) > LISTED:
        return None
    return count if table is None else table["client"].unique().tolist()
