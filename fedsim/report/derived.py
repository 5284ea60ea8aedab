"""Pictures and paper tables of a run directory, made from its own CSV files: when it ends, and again by `fedsim report`."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.report import directory, figures, files, holdings, tables
from fedsim.report.files import DirectoryError
from fedsim.report.result import LISTED

WORDS = ("method", "baseline", "variant", "tuned", "reason")


def derived(path: Path, scenario: dict[str, Any], score: str = "final") -> dict[str, bytes]:
    """Files by name below the run directory: `figures/curves.png` ..., `tables/summary.tex` ...

    Args:
      path: of the run directory; its tables are there.
      scenario: resolved, from its record.
      score: what of a run the tables are about.
    """
    summary, compared = read_table(path, "summary"), read_table(path, "compare")
    drawn = dict(_drawn(path, scenario, compared))
    found = {f"{directory.FIGURES}/{name}": content for name, content in drawn.items()}
    if summary is not None and score in summary:
        table = tables.for_paper(summary, compared, score)
        found["tables/summary.tex"] = tables.latex(table).encode()
        found["tables/summary.md"] = tables.markdown(table).encode()
    return found


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


def read_table(path: Path, name: str, words: Sequence[str] = ()) -> pd.DataFrame | None:
    """One of a run directory's tables; None when it has none of that name.

    Args:
      path: of the run directory.
      name: of the table.
      words: columns that stay text.
    """
    file = path / f"{name}.csv"
    if not file.is_file():
        return None
    try:
        cells = pd.read_csv(file, dtype=str, keep_default_na=False)
        return pd.DataFrame({column: _read_back(column, list(cells[column]), words) for column in cells})
    except (ValueError, OSError) as error:
        raise DirectoryError(f"{file}: cannot be read: {str(error).splitlines()[0]}") from None


def _read_back(column: str, cells: list[str], words: Sequence[str]) -> list[Any]:
    """A column as it was before it was written, to the bit; empty cells are missing."""
    if column in (*WORDS, *words):
        return [cell or None for cell in cells]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return [kind(cell) if cell or kind is int else math.nan for cell in cells]
    return [cell or None for cell in cells]


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
    record = directory.read_record(path)
    if record is None or directory.odd(record):
        raise DirectoryError(f"{path / directory.RECORD}: is damaged")
    if "files" not in record:
        raise DirectoryError(f"{path}: the run has not ended; go on with --resume")
    with directory.claimed(path, force=False, resume=True):
        found = derived(path, record["scenario"], record.get("score", "final"))
        write(path, found)
        hashes = {**record["files"], **{name: files.sha256(path / name) for name in found}}
        directory.write_record(path, {**record, "files": dict(sorted(hashes.items()))})
    return sorted(found)
