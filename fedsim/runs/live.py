"""The page of a run that another process is writing: read from what it has committed, written beside it."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fedsim.disk import files
from fedsim.report.derived import PAGE
from fedsim.runs import directory
from fedsim.runs.derive import page_of_runs, rebuild
from fedsim.runs.directory import LIVE
from fedsim.runs.unfinished import ended

EVERY = 5  # seconds between two pages; at most a tenth of the time is spent on them
LEADS = (
    f'<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={PAGE}">'
    f'<title>fedsim</title><a href="{PAGE}">{PAGE}</a>\n'
)


def show(path: Path, refresh: int = 0) -> Path:
    """Write the page of a run that goes on into `live.html`, the one file there that is not the run's own -> its path.

    Args:
      path: of the run directory, which is not claimed.
      refresh: as of `page_of_runs`.
    """
    _publish(path / LIVE, page_of_runs([path], refresh))
    return path / LIVE


def follow(
    paths: Sequence[Path], out: Path | None, ask: Callable[[], bool], say: Callable[[Path], None]
) -> bool:
    """Write the page anew every few seconds, as long as one of the runs goes on -> whether one did.

    Args:
      paths: of run directories; a single one where `out` is None.
      out: the page; None: `live.html` in the run directory, which leads to `report.html` at the end.
      ask: whether to stop looking.
      say: called with the page when it is there.

    Raises:
      DirectoryError: when one holds no run.
      CheckpointError: for a log or a commit that is damaged.
    """
    shown = False
    while any(map(directory.in_use, paths)):
        began = time.monotonic()
        page = out or paths[0] / LIVE
        _publish(page, page_of_runs(paths, EVERY))
        if not shown:
            say(page)
            shown = True
        until = time.monotonic() + max(EVERY, 9 * (time.monotonic() - began))
        while time.monotonic() < until and not ask():
            time.sleep(0.1)
        if ask():
            return True
    if shown and out is not None:
        _publish(out, page_of_runs(paths))
    elif shown:
        if not (ended(directory.sound_record(paths[0])) and (paths[0] / PAGE).is_file()):
            rebuild(paths[0])
        _publish(paths[0] / LIVE, LEADS.encode())
    return shown


def _publish(page: Path, content: bytes) -> None:
    """Write a page under a name of this process' own, and give it its name: others may be writing the same one."""
    draft = page.with_name(f"{page.name}.{os.getpid()}")
    files.write(draft, content)
    with files.naming(page):
        os.replace(draft, page)
