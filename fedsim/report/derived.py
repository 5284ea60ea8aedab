"""The files that follow from the tables of a run: `report.html`, figures, and tables for papers."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from fedsim.disk.tables import LISTED
from fedsim.report import figures, page, tables
from fedsim.report.paper_table import paper_table
from fedsim.report.results import rows_of
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
        rows = (rows_of(summary), None if compared is None else rows_of(compared))
        files["tables/summary.tex"] = paper_table(*rows, score, record["scenario"]).encode()
        files["tables/summary.md"] = tables.markdown(tables.for_paper(summary, compared, score)).encode()
    return {PAGE: page.page_of([page.Source(record, frames)]), **files}


def _figures(frames: Mapping[str, pd.DataFrame], scenario: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    rounds, partition, compared = (frames.get(name) for name in ("rounds", "partition", "compare"))
    if rounds is not None and len(rounds):
        yield from figures.curves(rounds, scenario).items()
    if partition is not None and len(partition):
        clients, seeds = scenario["data"]["clients"], scenario["seeds"]
        first = next(iter(by_variant(partition).values()))
        counts = counts_of_rows(first, clients if clients <= LISTED else None)
        yield from figures.partition(counts, scenario, seeds[0] if len(seeds) > 1 else None).items()
    if compared is not None and set(compared["method"]) - set(compared["baseline"]):
        yield from figures.differences(compared, scenario).items()
