"""Folders that may come from anybody: which files are in one, and their common hash."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedsim.errors import DataError
from fedsim.sources.files import require_hash, sha256_of
from fedsim.sources.names import fault_of_name

MAX_FILES = 1_000_000
NOT_UTF8 = "the name of the file or of its folder is not UTF-8 text"


@contextmanager
def folder_files(path: str, sha256: str | None = None) -> Iterator[dict[str, Path]]:
    """List the files of a folder and its subfolders: relative name -> path, sorted by name.

    Errors about the data that are raised inside the context name the folder.

    Raises:
      DataError: for anything but a folder, too many files, links that lead out of the folder, and
        files with another common hash (`sha256_of_files`).
    """
    try:
        files = files_in(Path(path))
        if sha256 is not None:
            require_hash(sha256_of_files(files), sha256, "files: their")
        yield files
    except DataError as error:
        raise error.with_prefix(path) from None


def sha256_of_files(files: dict[str, Path]) -> str:
    """Return the SHA-256 of a text with a line `SHA-256  name` for each file."""
    combined = hashlib.sha256()
    for name, path in files.items():
        combined.update(f"{sha256_of(path)}  {name}\n".encode())
    return combined.hexdigest()


def sha256_of_data(path: str | Path) -> str:
    """Return the SHA-256 of a data file, or of the files of a folder."""
    if os.path.isdir(path):
        return sha256_of_files(files_in(Path(path)))
    return sha256_of(path)


def chosen_split(splits: list[str], split: str | None) -> str:
    """Return which of a folder's data sets is meant; if there is only one, it need not be named."""
    if split is None and len(splits) > 1:
        listed = ", ".join(name or "plain files" for name in splits)
        raise DataError(f"holds {listed}; choose one with `split`")
    chosen = splits[0] if split is None else split
    if chosen not in splits:
        raise DataError(f"split: none is called {chosen[:60]!a}; there are {', '.join(splits)}")
    return chosen


def files_in(folder: Path) -> dict[str, Path]:
    """The files of a folder and its subfolders by their relative names, sorted."""
    if not folder.is_dir():
        raise DataError("expected a folder, found a file; give the folder that contains it")
    root = folder.resolve()
    files = {}
    for parent, subfolders, names in os.walk(folder):
        subfolders.sort()
        for name in subfolders:
            _require_no_link(Path(parent, name), folder)
        for name in names:
            file = Path(parent, name)
            if file.is_symlink() and not file.resolve().is_relative_to(root):
                raise DataError(
                    f"{os.path.relpath(file, folder)!a} is a link that leads out of the folder; "
                    "give a folder that contains the file itself"
                )
            relative_name = file.relative_to(folder).as_posix()
            if fault_of_name(relative_name):
                raise DataError(f"{os.fsencode(relative_name)[:200]!r}: {NOT_UTF8}; rename it")
            files[relative_name] = file
        if len(files) > MAX_FILES:
            raise DataError(
                f"more than {MAX_FILES} files; give a folder that contains only the samples"
            )
    return dict(sorted(files.items()))


def _require_no_link(subfolder: Path, folder: Path) -> None:
    if subfolder.is_symlink():
        name = os.path.relpath(subfolder, folder)
        raise DataError(f"{name!a} is a link to a folder; put the folder itself there")
