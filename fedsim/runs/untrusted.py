"""Checks of run directories, which may be a stranger's, before anything is read or written."""

import contextlib
import stat
from pathlib import Path

from fedsim.errors import DataError, DirectoryError
from fedsim.sources.files import require_content

# Files that are read into memory as a whole, and the largest that a run may have written.
READ_WHOLE = (".csv", ".html", ".json", ".jsonl", ".safetensors", ".yaml", ".ckpt")
MAX_BYTES = {"run.json": 128 << 20, "scenario.yaml": 16 << 20}


def demand_regular_files(path: Path) -> None:
    """Check every entry of a run directory before anything in it is read or written.

    Raises:
      DirectoryError: when an entry leads elsewhere (a symbolic link), may never end (a pipe, a
        device), or would fill the memory when it is read as a whole.
    """
    for entry in path.rglob("*"):
        try:
            status = entry.lstat()
        except FileNotFoundError:  # another process is writing there
            continue
        if stat.S_ISREG(status.st_mode):
            if entry.suffix in READ_WHOLE or entry.name in MAX_BYTES:
                demand_plausible_size(entry, status.st_size)
        elif not stat.S_ISDIR(status.st_mode):
            is_link = stat.S_ISLNK(status.st_mode)
            kind = "a symbolic link" if is_link else "neither a file nor a folder"
            raise DirectoryError(f"{entry}: is {kind}, which no run directory holds; remove it")


def demand_plausible_size(entry: Path, size: int) -> None:
    """Refuse a file of a run directory that is larger than any run writes, or mostly holes.

    Args:
      entry: the file.
      size: its bytes.

    Raises:
      DirectoryError: naming it.
    """
    most = MAX_BYTES.get(entry.name)
    if most is not None and size > most:
        raise DirectoryError(
            f"{entry}: has {size} bytes, but no run writes more than {most} there; remove it"
        )
    try:
        with contextlib.suppress(FileNotFoundError), entry.open("rb") as file:
            require_content(file)
    except DataError as error:
        raise DirectoryError(f"{entry}: {error}") from None
