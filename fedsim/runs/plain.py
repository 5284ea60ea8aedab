"""Run directories that may be a stranger's: what is checked before anything in them is read or written."""

import contextlib
import stat
from pathlib import Path

from fedsim.errors import DataError, DirectoryError
from fedsim.sources.files import require_content

READ_WHOLE = (".csv", ".html", ".json", ".jsonl", ".safetensors", ".yaml", ".ckpt")
MOST_BYTES = {
    "run.json": 128 << 20,
    "scenario.yaml": 16 << 20,
}  # what a run may have written there, at most


def demand_plain(path: Path) -> None:
    """Check a run directory, which may be a stranger's, before anything in it is read or written.

    Raises:
      DirectoryError: when something in it leads elsewhere (a symbolic link), may never end (a pipe, a device), or would
        fill the memory when it is read as a whole.
    """
    for entry in path.rglob("*"):
        try:
            known = entry.lstat()
        except FileNotFoundError:  # another process is writing there
            continue
        mode = known.st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            kind = "a symbolic link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
            raise DirectoryError(f"{entry}: is {kind}; a run directory holds none, take it out")
        if stat.S_ISREG(mode) and (entry.suffix in READ_WHOLE or entry.name in MOST_BYTES):
            demand_content(entry, known.st_size)


def demand_content(entry: Path, size: int) -> None:
    """Refuse a file of a run directory that is larger than any, or mostly holes.

    Raises:
      DirectoryError: naming it.
    """
    most = MOST_BYTES.get(entry.name)
    if most is not None and size > most:
        raise DirectoryError(
            f"{entry}: has {size} bytes, and no run writes more than {most} there; take it out"
        )
    try:
        with contextlib.suppress(FileNotFoundError), entry.open("rb") as file:
            require_content(file)
    except DataError as error:
        raise DirectoryError(f"{entry}: {error}") from None
