"""The files that follow from the tables of a run: `report.html`, figures, and tables for papers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedsim.disk.tables import MAX_LISTED_CLIENTS
from fedsim.installed import modules_with
from fedsim.report import figures, page, tables
from fedsim.report.context import Context
from fedsim.report.cost_table import cost_table
from fedsim.report.latex import plain
from fedsim.report.mark import in_latex, in_markdown, unfinished_mark
from fedsim.report.page.sources import present, runs_and_context
from fedsim.report.paper_table import paper_table
from fedsim.report.pictures.costs import CostPicture, cost_pictures
from fedsim.report.results import Row, errors_in, rows_of
from fedsim.report.series import by_variant
from fedsim.study.breakdown import MALICIOUS_AXIS, breakdown_rows, untrained_scores
from fedsim.study.cost_axes import AXES
from fedsim.study.label_skew import counts_of_rows
from fedsim.study.price import axis_of

if TYPE_CHECKING:
    from fedsim.report.figures.shown import ShownFigure

PAGE = "report.html"
SHOWN_RESOLUTION = 160  # dots per inch of a figure in a notebook


def derived_files(
    frames: Mapping[str, pd.DataFrame],
    record: Mapping[str, Any],
    drawn: Sequence[str] = figures.QUICK,
) -> dict[str, bytes]:
    """Files by name: `report.html`, `figures/curves.png` ..., `tables/summary.tex` ...

    Args:
      drawn: the formats of figures, which take longest; none: without figures.
    """
    mark = unfinished_mark(record)
    sources = [page.Source(record, frames)]
    runs, context = runs_and_context(sources)

    files = {PAGE: page.page_of(sources)}
    if drawn:
        for name, pages in all_figures(frames, runs, context):
            for file, content in figures.files_of(pages, name, mark, drawn).items():
                files[f"figures/{file}"] = content
    if runs:
        files |= _summary_tables(frames, runs, context, mark)
    for axis in AXES:
        spent = present(frames, axis.table)
        if spent is not None:
            pictures = cost_pictures(axis, rows_of(spent), record.get("baseline") or "", context)
            files |= _cost_tables(pictures, mark)
    return files


def figure_of(
    frames: Mapping[str, pd.DataFrame], record: Mapping[str, Any], picture: str
) -> "ShownFigure":
    """A figure as `derived_files` writes it, for a notebook or a script.

    Args:
      picture: the name of its file without an ending: `curves`, `curves-2`.

    Raises:
      ValueError: where there is no such picture, with the names of those that there are.
    """
    runs, context = runs_and_context([page.Source(record, frames)])
    names: list[str] = []
    for name, pages in all_figures(frames, runs, context):
        for number, figure in enumerate(pages, 1):
            names.append(figures.numbered(name, number))
            if names[-1] == picture:
                figure.set_dpi(SHOWN_RESOLUTION)
                return figure
    listed = ", ".join(names) or "none"
    raise ValueError(f"there is no picture {picture!r}; there are: {listed}")


def _summary_tables(
    frames: Mapping[str, pd.DataFrame], runs: Sequence[Row], context: Context, mark: str
) -> dict[str, bytes]:
    """`tables/summary.tex` and `tables/summary.md`."""
    score = context.score
    scenario = context.scenario
    compare = frames.get("compare")
    rounds = present(frames, "rounds")
    table = tables.for_paper(frames["summary"], compare, score, rounds=rounds, scenario=scenario)
    markdown = tables.markdown(table)

    compared = None if compare is None else rows_of(compare)
    errors = errors_in(rounds, context.metric)
    latex = paper_table(runs, compared, score, scenario, errors=errors)
    return {
        "tables/summary.tex": in_latex(latex, mark).encode(),
        "tables/summary.md": in_markdown(markdown, mark).encode(),
    }


def _cost_tables(pictures: Sequence[CostPicture], mark: str) -> dict[str, bytes]:
    """`tables/bytes.tex` and `tables/bytes.md`; of a second variation `bytes-2.tex` and so on."""
    files = {}
    for number, picture in enumerate(pictures, 1):
        head, rows = cost_table(picture)
        texts = []
        for row in rows:
            texts.append([text for text, _ in row])
        table = pd.DataFrame(texts, columns=head)
        note = picture.axis.note
        if picture.title:
            note = f"{picture.title}. {note}"

        name = f"tables/{figures.numbered(picture.axis.table, number)}"
        latex = f"% {plain(note)} Needs booktabs.\n{tables.latex(table)}"
        files[f"{name}.tex"] = in_latex(latex, mark).encode()
        markdown = f"{note}\n\n{tables.markdown(table)}"
        files[f"{name}.md"] = in_markdown(markdown, mark).encode()
    return files


def all_figures(
    frames: Mapping[str, pd.DataFrame], runs: Sequence[Row], context: Context
) -> Iterator[tuple[str, Sequence[Any]]]:
    """Figures by the name of their files, each on as many pages as it needs."""
    rounds = frames.get("rounds")
    if rounds is not None and len(rounds):
        yield "curves", figures.pages_of_curves(_marked(rounds, runs), context)

    partition = present(frames, "partition")
    if partition is not None:
        yield "partition", [_figure_of_partition(partition, frames.get("clients"), context)]

    for module in modules_with("FIGURES"):
        yield from module.figures(frames, context)

    if runs:
        yield "attacks", figures.figures_of_attacks(runs, context)

    for axis in AXES:
        spent = present(frames, axis.table)
        if spent is not None:
            yield axis.table, figures.figures_of_costs(axis, rows_of(spent), rounds, context)

    compared = present(frames, "compare")
    if compared is not None:
        yield "differences", figures.pages_of_differences(rows_of(compared), context)
        path = axis_of(context.scenario)
        if path is not None and path in compared and len(compared["mean"].dropna()):
            yield "scores", _figures_of_scores(frames, compared, path, context)


def _figures_of_scores(
    frames: Mapping[str, pd.DataFrame], compared: pd.DataFrame, path: str, context: Context
) -> Sequence[Any]:
    """Scores along the only numeric axis."""
    rounds = frames.get("rounds")
    starts = []
    if rounds is not None:
        starts = rows_of(pd.DataFrame(rounds[rounds["round"] == 0]))
    rows = rows_of(compared)
    fallen = fallen_of(frames.get("breakdown"), rows, starts, path)
    return figures.figures_of_scores(rows, context, fallen, _untrained(starts, context.metric))


def fallen_of(
    table: pd.DataFrame | None, compared: Sequence[Row], starts: Sequence[Row], path: str
) -> Sequence[Row]:
    """The break-down points of methods along the axis of the scores, as rows of `breakdown.csv`.

    Args:
      table: the columns of `breakdown.csv`, which are taken where they are along this axis.
    """
    if path == MALICIOUS_AXIS and table is not None and len(table):
        return rows_of(table)
    return breakdown_rows(compared, starts, path, min_values=2)


def _figure_of_partition(
    partition: pd.DataFrame, clients: pd.DataFrame | None, context: Context
) -> Any:
    """The partition of the first variation and the first seed."""
    variant, first = next(iter(by_variant(partition).items()))
    variation_clients = None
    if clients is not None:
        variation_clients = by_variant(clients).get(variant)
    count = context.scenario["data"].get("clients")
    counts = counts_of_rows(first, _clients(variation_clients, count))

    seed = None
    if "seed" in first and len(context.scenario["seeds"]) > 1:
        seed = int(first["seed"].iloc[0])
    scenario = _as_varied(context, variant)
    return figures.figure_of_partition(counts, context._replace(scenario=scenario), seed)


def _as_varied(context: Context, variant: str) -> Mapping[str, Any]:
    """The scenario of a variation; its partition is in the variation's words where it varies."""
    scenario = context.scenario
    vary = (scenario.get("compare") or {}).get("vary") or {}
    if not any(path == "data.partition" or path.startswith("data.partition.") for path in vary):
        return scenario
    data = {**scenario["data"], "partition": {"kind": context.words(variant)}}
    return {**scenario, "data": data}


def _marked(rounds: pd.DataFrame, runs: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows of `rounds.csv` with a column `diverged`, which their runs have in `summary.csv`."""
    keys = [name for name in ("method", "variant", "seed") if name in rounds]
    diverged = set()
    for run in runs:
        if run.get("diverged"):
            diverged.add(tuple(run.get(key) for key in keys))

    columns = [rounds[key] for key in keys]
    marks = [int(run in diverged) for run in zip(*columns, strict=True)]
    return rounds.assign(diverged=marks)


def _untrained(starts: Sequence[Row], metric: str) -> float | None:
    """The mean score of the start models of all variations together; None where it is unknown."""
    together = [{"round": 0, metric: row.get(metric)} for row in starts]
    return untrained_scores(together, metric).get("")


def _clients(table: pd.DataFrame | None, count: int | None) -> Sequence[Any] | int | None:
    """The names of all clients; None where tables list only those that took part."""
    if (count or 0) > MAX_LISTED_CLIENTS:
        return None
    if table is None:
        return count
    return table["client"].unique().tolist()
