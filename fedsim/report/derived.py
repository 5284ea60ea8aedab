"""The files that follow from the tables of a run: `report.html`, figures, and tables for papers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from fedsim.disk.tables import LISTED
from fedsim.report import figures, page, tables
from fedsim.report.series import by_variant
from fedsim.study.label_skew import counts_of_rows

PAGE = "report.html"


def derived_files(frames: Mapping[str, pd.DataFrame], record: Mapping[str, Any]) -> dict[str, bytes]:
    """Files by name below the run directory: `report.html`, `figures/curves.png` ..., `tables/summary.tex` ...

    Args:
      frames: the tables of a run or a comparison, by name; of others than these nothing is drawn.
      record: the content of its `run.json`, but for what is known at the end alone.
    """
    summary, compared, score = frames.get("summary"), frames.get("compare"), record.get("score", "final")
    files = {f"figures/{name}": content for name, content in _figures(frames, record["scenario"])}
    if summary is not None and score in summary:
        table = tables.for_paper(summary, compared, score)
        files["tables/summary.tex"] = tables.latex(table).encode()
        files["tables/summary.md"] = tables.markdown(table).encode()
    return {PAGE: page.page_of([page.Source(record, frames)]), **files}


def _figures(frames: Mapping[str, pd.DataFrame], scenario: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    rounds, partition, compared = (frames.get(name) for name in ("rounds", "partition", "compare"))
    if rounds is not None and len(rounds):
        yield from figures.curves(rounds, scenario).items()
    if partition is not None and len(partition):
        first, seeds = next(iter(by_variant(partition).values())), scenario["seeds"]
        counts = counts_of_rows(first, _clients(frames.get("clients"), scenario["data"]["clients"]))
        yield from figures.partition(counts, scenario, seeds[0] if len(seeds) > 1 else None).items()
    if compared is not None and len(compared):
        yield from figures.differences(compared, scenario).items()


def _clients(table: pd.DataFrame | None, count: int) -> Sequence[Any] | int | None:
    """All clients by what they are called; None where tables list only those that took part."""
    if count > LISTED:
        return None
    return count if table is None else table["client"].unique().tolist()
