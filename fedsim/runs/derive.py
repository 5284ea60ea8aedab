"""Pictures and paper tables of a run directory, made from its own CSV files: when it ends, and again by `fedsim report`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.disk import files
from fedsim.errors import DirectoryError
from fedsim.report import figures, page, tables
from fedsim.runs import directory
from fedsim.runs.reading import as_written, read_table
from fedsim.runs.result import LISTED
from fedsim.study import label_skew as holdings

PAGE = "report.html"


def derived(path: Path, record: Mapping[str, Any]) -> dict[str, bytes]:
    """Files by name below the run directory: `report.html`, `figures/curves.png` ..., `tables/summary.tex` ...

    Args:
      path: of the run directory; its tables are there.
      record: what `run.json` says of it, or is about to say.
    """
    scenario, score = record["scenario"], record.get("score", "final")
    summary, compared = read_table(path, "summary"), read_table(path, "compare")
    drawn = dict(_drawn(path, scenario, compared))
    found = {f"{directory.FIGURES}/{name}": content for name, content in drawn.items()}
    if summary is not None and score in summary:
        table = tables.for_paper(summary, compared, score)
        found["tables/summary.tex"] = tables.latex(table).encode()
        found["tables/summary.md"] = tables.markdown(table).encode()
    return {PAGE: page.page_of([page.Source(path, record)]), **found}


def _drawn(path: Path, scenario: dict[str, Any], compared: pd.DataFrame | None) -> Iterator[tuple[str, bytes]]:
    rounds, partition = read_table(path, "rounds"), read_table(path, "partition")
    if rounds is not None and len(rounds):
        yield from figures.curves(rounds, scenario).items()
    if partition is not None and len(partition):
        if "variant" in partition:
            partition = partition.loc[partition["variant"] == partition["variant"].iloc[0]]
        clients, seeds = scenario["data"]["clients"], scenario["seeds"]
        held = holdings.tally(pd.DataFrame(partition), clients if clients <= LISTED else None)
        yield from figures.partition(held, scenario, seeds[0] if len(seeds) > 1 else None).items()
    if compared is not None and len(compared):
        yield from figures.differences(compared, scenario).items()


def write(path: Path, found: dict[str, bytes]) -> None:
    """Write derived files, each whole or as it was before."""
    for name, content in found.items():
        files.make_folder((path / name).parent)
        files.write(path / name, content)


def rebuilt(path: Path) -> list[str]:
    """Make pictures and tables of a directory again from its tables -> their names; its record knows their new hashes.

    Raises:
      DirectoryError: when it holds no run, or one that has not ended.
      LockedError: when another process is writing it.
    """
    record = _ended(path)
    with directory.claimed(path, force=False, resume=True):
        with as_written(path):
            found = derived(path, record)
        write(path, found)
        hashes = {**record["files"], **{name: files.sha256(path / name) for name in found}}
        directory.write_record(path, {**record, "files": dict(sorted(hashes.items()))})
    return sorted(found)


def paged(paths: Sequence[Path]) -> bytes:
    """One page of several runs beside one another, or of a single run or comparison.

    Raises:
      DirectoryError: when one holds no run, or one that has not ended; or several of which one is a comparison.
    """
    records = [_ended(path) for path in paths]
    both = [path for path, record in zip(paths, records, strict=True) if record.get("kind") == "compare"]
    if both and len(paths) > 1:
        raise DirectoryError(f"{both[0]}: is a comparison, which has a page of its own; name single runs")
    names = [path.resolve().name for path in paths]
    labels = names if len(set(names)) == len(names) else list(map(str, paths))
    several = len(paths) > 1
    sources = [page.Source(p, r, name if several else "") for p, r, name in zip(paths, records, labels, strict=True)]
    with as_written(*paths):
        return page.page_of(sources)


def _ended(path: Path) -> dict[str, Any]:
    """The record of a run that has ended."""
    record = directory.sound_record(path)
    if "files" not in record:
        raise DirectoryError(f"{path}: the run has not ended; go on with --resume")
    return record
