"""Checks of run directories, which may be a stranger's, before anything is read or written."""

import contextlib
import stat
from pathlib import Path

from fedsim.assemble.data_files import data_file
from fedsim.errors import DataError, DirectoryError, ScenarioError, printable
from fedsim.scenario import Scenario
from fedsim.scenario.named_files import DATA
from fedsim.sources.files import require_content

# Files that are read into memory as a whole, and the largest that a run may have written.
READ_WHOLE = (".csv", ".html", ".json", ".jsonl", ".safetensors", ".yaml", ".ckpt")
GUARDED = {"tff_hdf5": "an HDF5 file", "xlsx": "a workbook"}  # kinds of data -> what they read
CRATE = "ro-crate-metadata.json"  # in the folder of an unpacked bundle
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
    """Refuse a file of a run directory that is larger than any run writes, or mostly holes."""
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


def refusal_of_data(scenario: Scenario, path: Path) -> str | None:
    """Return why the data of a run are not read: whoever made it made them; None where they are.

    Libraries read HDF5 files and workbooks, which may crash them or fill the memory.

    Args:
      path: its directory, which may be in an unpacked bundle.
    """
    what = GUARDED.get(scenario.spec.data.kind)
    if what is None:
        return None
    try:
        file = data_file(scenario, DATA)
    except ScenarioError:  # it is refused when the run is built again
        return None
    bundles = [folder for folder in path.resolve().parents[:2] if (folder / CRATE).exists()]
    folders = [path.resolve(), *bundles]
    if not any(file.resolve().is_relative_to(folder) for folder in folders):
        return None
    remedy = "read it with --trust-data, if you trust whoever made it"
    return f"data.path: {printable(file.name)[:80]} is {what} that came with the run; {remedy}"
