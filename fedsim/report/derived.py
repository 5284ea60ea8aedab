"""The files that follow from the tables of a run: `report.html`, figures, and tables for papers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from fedsim.disk.tables import LISTED
from fedsim.report import figures, page, tables
from fedsim.report.about import About, about
from fedsim.report.cost_table import cost_table
from fedsim.report.latex import plain
from fedsim.report.mark import in_latex, in_markdown, mark_of
from fedsim.report.paper_table import paper_table
from fedsim.report.pictures.costs import CostPicture, cost_pictures
from fedsim.report.ranking import order_of
from fedsim.report.results import Row, rows_of
from fedsim.report.series import by_variant
from fedsim.study.breakdown import AXIS, breakdowns, untrained
from fedsim.study.cost_axes import AXES
from fedsim.study.label_skew import counts_of_rows

PAGE = "report.html"


def derived_files(
    frames: Mapping[str, pd.DataFrame],
    record: Mapping[str, Any],
    drawn: Sequence[str] = figures.QUICK,
) -> dict[str, bytes]:
    """Files by name below the run directory: `report.html`, `figures/curves.png` ...,
    `tables/summary.tex` ...

    Args:
      frames: the tables of a run or a comparison, by name; of others than these nothing is drawn.
      record: the content of its `run.json`, but for what is known at the end alone.
      drawn: the formats of figures, which take longer than all the others; none: without figures.
    """
    summary, compared = frames.get("summary"), frames.get("compare")
    score = record.get("score", "final")
    baseline = record.get("baseline")
    mark = mark_of(record)
    runs = [] if summary is None or score not in summary else rows_of(summary)
    order = order_of(runs, baseline, score) if runs else []
    shown = about(record["scenario"], runs, score, order)
    files: dict[str, bytes] = {}
    for name, pages in _figures(frames, runs, shown) if drawn else ():
        made = figures.files_of(pages, name, mark, drawn)
        files |= {f"figures/{file}": content for file, content in made.items()}
    if summary is not None and runs:
        rows = runs, None if compared is None else rows_of(compared)
        table = tables.for_paper(summary, compared, score)
        for_article = paper_table(*rows, score, record["scenario"])
        files["tables/summary.tex"] = in_latex(for_article, mark).encode()
        files["tables/summary.md"] = in_markdown(tables.markdown(table), mark).encode()
    for axis in AXES:
        if (spent := frames.get(axis.table)) is not None and len(spent):
            pictures = cost_pictures(axis, rows_of(spent), baseline or "", shown)
            files |= _cost_tables(pictures, mark)
    return {PAGE: page.page_of([page.Source(record, frames)]), **files}


def _cost_tables(pictures: Sequence[CostPicture], mark: str) -> dict[str, bytes]:
    """`tables/bytes.tex` and `tables/bytes.md`; those of a second variation as `bytes-2.tex`, and
    so on.
    """
    files = {}
    for place, picture in enumerate(pictures, 1):
        name = f"tables/{picture.axis.table}{f'-{place}' if place > 1 else ''}"
        head, cells = cost_table(picture)
        table = pd.DataFrame([[shown for shown, _ in row] for row in cells], columns=head)
        title = f"{picture.title}. " if picture.title else ""
        note = f"{title}{picture.axis.note}"
        for_article = f"% {plain(note)} Needs booktabs.\n{tables.latex(table)}"
        files[f"{name}.tex"] = in_latex(for_article, mark).encode()
        files[f"{name}.md"] = in_markdown(f"{note}\n\n{tables.markdown(table)}", mark).encode()
    return files


def _figures(
    frames: Mapping[str, pd.DataFrame], runs: Sequence[Row], shown: About
) -> Iterator[tuple[str, Sequence[Any]]]:
    """Figures by the name of their files, each on as many pages as it needs."""
    rounds, partition, compared = (frames.get(name) for name in ("rounds", "partition", "compare"))
    if rounds is not None and len(rounds):
        yield "curves", figures.pages_of_curves(_marked(rounds, runs), shown)
    if partition is not None and len(partition):
        yield "partition", [_figure_of_partition(partition, frames.get("clients"), shown)]
    if (first := frames.get("machines")) is not None and len(first):
        yield "machines", figures.figures_of_machines(first, shown)
    if runs:
        yield "attacks", figures.figures_of_attacks(runs, shown)
    for axis in AXES:
        if (spent := frames.get(axis.table)) is not None and len(spent):
            yield axis.table, figures.figures_of_costs(axis, rows_of(spent), rounds, shown)
    if compared is None or not len(compared):
        return
    rows = rows_of(compared)
    yield "differences", figures.pages_of_differences(rows, shown)
    path = figures.axis_of(shown.scenario)
    if path is not None and path in compared and len(compared["mean"].dropna()):
        starts = rows_of(pd.DataFrame(rounds[rounds["round"] == 0])) if rounds is not None else []
        fallen = fallen_of(frames.get("breakdown"), rows, starts, path)
        start = _untrained(starts, shown.metric)
        yield "scores", figures.figures_of_scores(rows, shown, fallen, start)


def fallen_of(
    table: pd.DataFrame | None, compared: Sequence[Row], starts: Sequence[Row], path: str
) -> Sequence[Row]:
    """Where methods fall along the axis of the scores: `breakdown.csv`, where that is its axis;
    else made likewise.
    """
    if path == AXIS and table is not None and len(table):
        return rows_of(table)
    return breakdowns(compared, starts, path, least=2)


def _figure_of_partition(
    partition: pd.DataFrame, clients: pd.DataFrame | None, shown: About
) -> Any:
    """The partition of the first variation and the first seed."""
    variant, first = next(iter(by_variant(partition).items()))
    section = shown.scenario["data"]
    listed = None if clients is None else by_variant(clients).get(variant)
    counts = counts_of_rows(first, _clients(listed, section.get("clients")))
    several = "seed" in first and len(shown.scenario["seeds"]) > 1
    seed = int(first["seed"].iloc[0]) if several else None
    return figures.figure_of_partition(
        counts, shown._replace(scenario=_as_dealt(shown, variant)), seed
    )


def _as_dealt(shown: About, variant: str) -> Mapping[str, Any]:
    """The scenario with the partition of one variation, in the variation's own words where the
    partition varies.
    """
    scenario = shown.scenario
    vary = (scenario.get("compare") or {}).get("vary") or {}
    if not any(path == "data.partition" or path.startswith("data.partition.") for path in vary):
        return scenario
    return {**scenario, "data": {**scenario["data"], "partition": {"kind": shown.words(variant)}}}


def _marked(rounds: pd.DataFrame, runs: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows of `rounds.csv` with a column `diverged`, which their runs have in `summary.csv`."""
    keys = [name for name in ("method", "variant", "seed") if name in rounds]
    lost = {tuple(run.get(key) for key in keys) for run in runs if run.get("diverged")}
    return rounds.assign(
        diverged=[int(run in lost) for run in zip(*(rounds[key] for key in keys), strict=True)]
    )


def _untrained(starts: Sequence[Row], metric: str) -> float | None:
    """The mean score of the start models of all variations together; None where it is not known."""
    together = [{"round": 0, metric: row.get(metric)} for row in starts]
    return untrained(together, metric).get("")


def _clients(table: pd.DataFrame | None, count: int | None) -> Sequence[Any] | int | None:
    """All clients by what they are called; None where tables list only those that took part."""
    if (count or 0) > LISTED:
        return None
    return count if table is None else table["client"].unique().tolist()
