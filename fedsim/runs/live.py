"""The page of a run that another process is writing, made from what the run has committed."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fedsim.disk import files
from fedsim.report.derived import PAGE
from fedsim.runs.derive import page_of_runs, rebuild
from fedsim.runs.directory import LIVE, sound_record
from fedsim.runs.lock import in_use
from fedsim.runs.unfinished import is_complete

SECONDS = 5  # between two pages, at least
PAUSE = 9  # a page that took t seconds is followed by 9 t seconds without: a tenth of the time

# What `live.html` is replaced with when the run has ended.
REDIRECT = (
    f'<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={PAGE}">'
    f'<title>fedsim</title><a href="{PAGE}">{PAGE}</a>\n'
)


def show(path: Path, refresh: int = 0) -> Path:
    """Write the page of an unfinished run into `live.html` -> its path.

    It is the only file in a run directory that is not part of the run.
    """
    files.publish(path / LIVE, page_of_runs([path], refresh))
    return path / LIVE


def follow(
    paths: Sequence[Path], out: Path | None, ask: Callable[[], bool], say: Callable[[Path], None]
) -> bool:
    """Write a page every few seconds while one of the runs is in progress -> whether one was.

    Args:
      paths: the run directories; a single one where `out` is None.
      out: the page; None: `live.html` in the run directory, which leads to `report.html` in the
        end.
      say: called with the page when it has been written for the first time.
    """
    page = out or paths[0] / LIVE
    shown = False
    while any(map(in_use, paths)):
        began = time.monotonic()
        files.publish(page, page_of_runs(paths, SECONDS))
        if not shown:
            say(page)
            shown = True
        end = time.monotonic()
        until = end + max(SECONDS, PAUSE * (end - began))
        while time.monotonic() < until and not ask():
            time.sleep(0.1)
        if ask():
            return True
    if shown:
        _publish_last(paths, out)
    return shown


def _publish_last(paths: Sequence[Path], out: Path | None) -> None:
    """Write the page of runs that have ended; a page in a run directory leads to `report.html`."""
    if out is not None:
        files.publish(out, page_of_runs(paths))
        return
    path = paths[0]
    if not is_complete(sound_record(path)) or not (path / PAGE).is_file():
        rebuild(path)
    files.publish(path / LIVE, REDIRECT.encode())
