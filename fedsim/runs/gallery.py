"""The gallery of a folder of runs: which of its folders hold runs, and how far they have come."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fedsim.disk import files
from fedsim.disk.tables import reporting_table_errors
from fedsim.errors import DirectoryError, Failure
from fedsim.report.derived import PAGE
from fedsim.report.page import Source
from fedsim.report.page.gallery import Entry, card_of, card_of_page, gallery
from fedsim.runs.derive import VERDICT_TABLES, contents, verdict_again
from fedsim.runs.directory import LIVE, RECORD
from fedsim.runs.lock import in_use
from fedsim.runs.unfinished import by_setting, is_complete

TABLES = (*VERDICT_TABLES, "partition")  # what a gallery shows
INDEX = "index.html"  # the gallery, in the folder of the runs


def gallery_of(
    folder: Path,
    base: str = ".",
    names: Iterable[str] | None = None,
    titles: Mapping[str, str] | None = None,
) -> tuple[bytes, list[str]]:
    """The gallery of a folder, and a line for every folder in it that is left out.

    Args:
      base: the relative way to it from where the gallery will be.
      names: of the runs' folders; left out: all that are there.
      titles: of runs whose records have none, by the names of their folders.
    """
    if (folder / RECORD).exists():
        raise DirectoryError(f"{folder}: is a run, not a folder of runs; try {folder.parent}")
    cards: list[dict[str, Any]] = []
    skipped: list[str] = []
    for name in _folders(folder) if names is None else names:
        try:
            with reporting_table_errors(folder / name):
                cards.append(_card(folder / name, base))
        except (Failure, OSError) as error:
            # by names alone: the page may be shown elsewhere
            skipped.append(" ".join(str(error).replace(f"{folder}/", "").split()))
    if not cards:
        reasons = f" ({skipped[0]})" if skipped else ""
        raise DirectoryError(f"{folder}: holds no folder with a run{reasons}")
    for card in cards:
        if card["title"] == card["name"]:
            card["title"] = (titles or {}).get(card["name"], card["name"])
    return gallery(folder.resolve().name, cards, skipped), skipped


def _folders(folder: Path) -> list[str]:
    """The names of the folders in a folder, but for hidden ones."""
    with files.reporting_os_errors(folder):
        inside = sorted(folder.iterdir())
    return [entry.name for entry in inside if entry.is_dir() and not entry.name.startswith(".")]


def _card(path: Path, base: str) -> dict[str, Any]:
    """What the gallery shows of a folder: a run, or a page such as that of a suite."""
    alone = path / PAGE
    if alone.is_file() and not (path / RECORD).exists():
        link = quote(f"{base}/{path.name}/{PAGE}")
        return card_of_page(path.name, link, alone.read_text(encoding="utf-8"))
    return card_of(_entry(path, base))


def _entry(path: Path, base: str) -> Entry:
    running = in_use(path)
    record, frames = contents(path, TABLES)
    source = Source(record, by_setting(record, frames))
    link = ""
    for name in (PAGE, LIVE):
        if (path / name).is_file():
            # A name with a colon in it would be an address of its own.
            link = quote(f"{base}/{path.name}/{name}")
            break
    verdict = verdict_again(record, frames) if is_complete(record) else None
    return Entry(path.name, link, _state(record, running), source, verdict)


def _state(record: Mapping[str, Any], running: bool) -> str:
    """How far a run has come."""
    if running:
        return "running"
    if not is_complete(record):
        return "unfinished"
    return "finished" if record["status"] == "done" else "failed"
