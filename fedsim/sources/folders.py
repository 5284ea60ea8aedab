"""Folders of files that may be anybody's: which files lie in one, and what they hash to together."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedsim.errors import DataError
from fedsim.sources.files import sha256_of
from fedsim.sources.names import require_sound_file

MOST_FILES = 1_000_000


@contextmanager
def folder_files(path: str, sha256: str | None = None) -> Iterator[dict[str, Path]]:
    """The files of a folder and of those below it, by their names from it, in order; faults are headed by its name.

    Args:
      path: of the folder.
      sha256: what `sha256_of_files` must give for them.

    Raises:
      DataError: for what is no folder, one that holds too many files, or links that lead out of it, or other files than
        the ones meant.
    """
    try:
        files = _listed(Path(path))
        if sha256 is not None and (actual := sha256_of_files(files)) != sha256.lower():
            raise DataError(
                f"other files than those meant: their SHA-256 is {actual}, expected {sha256[:80]}"
            )
        yield files
    except DataError as error:
        raise error.within(path) from None


def sha256_of_files(files: dict[str, Path]) -> str:
    """SHA-256 of files: of a line with name and SHA-256 for each."""
    whole = hashlib.sha256()
    for name, path in files.items():
        whole.update(f"{sha256_of(path)}  {name}\n".encode())
    return whole.hexdigest()


def sha256_of_data(path: str | Path) -> str:
    """SHA-256 of a data file, or of the files of a folder."""
    return sha256_of_files(_listed(Path(path))) if os.path.isdir(path) else sha256_of(path)


def chosen_split(splits: list[str], split: str | None) -> str:
    """The one of several sets in a folder that is meant; the only one where none is named.

    Raises:
      DataError: where several are there and none is named, or another one is.
    """
    if split is None and len(splits) > 1:
        raise DataError(
            f"holds {', '.join(name or 'plain files' for name in splits)}; choose one with `split`"
        )
    chosen = splits[0] if split is None else split
    if chosen not in splits:
        raise DataError(f"split: none is called {chosen[:60]!a}; there are {', '.join(splits)}")
    return chosen


def _listed(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise DataError("a folder is needed, this is a file; give the folder that it lies in")
    root, files = folder.resolve(), {}
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in folders:
            if (link := Path(place, name)).is_symlink():
                text = "is a link to a folder; put the folder itself there"
                raise DataError(f"{os.path.relpath(link, folder)!a} {text}")
        for name in names:
            file = Path(place, name)
            if file.is_symlink() and not file.resolve().is_relative_to(root):
                raise DataError(
                    f"{os.path.relpath(file, folder)!a} is a link that leads out of the folder; give one that holds its file too"
                )
            name_inside = file.relative_to(folder).as_posix()
            require_sound_file(name_inside)
            files[name_inside] = file
        if len(files) > MOST_FILES:
            raise DataError(
                f"more than {MOST_FILES} files; give the folder that holds the samples alone"
            )
    return dict(sorted(files.items()))
