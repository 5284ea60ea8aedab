"""The data files of a run that a bundle takes along, or names by their hashes."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsim.errors import DataError
from fedsim.scenario.named_files import naming_files
from fedsim.sources import sha256_of_data
from fedsim.sources.folders import files_in
from fedsim.tools.bundle.crate import Contents

FOLDER = "data"
HASH_DIGITS = 12  # of the folder of a file, so that two of one name may lie side by side


def pack_data(
    contents: Contents, values: dict[str, Any], path: Path, roots: Sequence[Path], limit: int
) -> None:
    """Pack the files that a run has read, and make its scenario name them in the bundle.

    Args:
      values: its scenario, with paths as seen from its directory, which are replaced.
      limit: the most bytes of a file, or of a folder, that are taken along.
    """
    for _, section in naming_files(values):
        if not isinstance(section["path"], str):
            continue
        name = os.path.basename(os.path.normpath(section["path"]))
        sha256 = str(section.get("sha256") or "")
        source = _found(section["path"], sha256, (path, Path("."), *roots))
        section["path"] = name
        if source is None:
            contents.leave_out(name, "data that are not here (--data-root DIR)", None, sha256)
            continue
        found = files_in(source) if source.is_dir() else {"": source}
        size = sum(file.stat().st_size for file in found.values())
        digest = sha256 or sha256_of_data(source)
        if size > limit:
            contents.leave_out(name, "data above the limit (--limit MB)", size, digest)
            continue
        stem = f"{FOLDER}/{digest[:HASH_DIGITS]}/{name}"
        section["path"] = f"../{stem}"
        for inner, file in found.items():
            full_name = f"{stem}/{inner}" if inner else stem
            contents.pack(full_name, f"data of {values['name']}", file.read_bytes())


def _found(path: str, sha256: str, roots: Sequence[Path]) -> Path | None:
    """The file or folder that a path of a record means; None where it is not here.

    The record may be a stranger's. Whoever knows the hash of a file knows the file; without one, it
    has to lie below one of the folders.
    """
    for root in roots:
        for name in (path, os.path.basename(os.path.normpath(path))):
            candidate = root / name
            try:
                if sha256 and sha256_of_data(candidate) == sha256.lower():
                    return candidate
                if not sha256 and candidate.exists() and _is_below(candidate, roots):
                    return candidate
            except (OSError, ValueError, DataError):
                continue
    return None


def _is_below(path: Path, roots: Sequence[Path]) -> bool:
    """Whether a path leads into one of several folders, symbolic links followed."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(root)) for root in roots)
