"""What was read once and took long, kept in the user's cache folder: arrays, by the SHA-256 of the files they came from."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedsim.sources.mapped import STAYS_BYTES

FORM = 1  # of what is kept; another one is made again
Made = dict[str, np.ndarray]


def cached(key: str, make: Callable[[], Made]) -> Made:
    """The arrays that `make` gives, made once for a key; large ones stay in their files.

    Args:
      key: names the arrays: the SHA-256 of all that they are made from.
      make: gives them, none of which holds objects.
    """
    folder = _folder() / f"{FORM}-{key}"
    if (known := _kept(folder)) is not None:
        return known
    made = make()
    with contextlib.suppress(OSError):  # a cache is a convenience
        _keep(folder, made)
        return _kept(folder) or made
    return made


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedsim" / "data"


def _kept(folder: Path) -> Made | None:
    """What is kept; None where nothing is, or it is not whole."""
    arrays: Made = {}
    try:
        names = (folder / "names").read_text().split()
        for name in names:
            path = folder / f"{name}.npy"
            mode = "r" if path.stat().st_size >= STAYS_BYTES else None
            arrays[name] = np.load(path, mmap_mode=mode, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return arrays


def _keep(folder: Path, arrays: Made) -> None:
    """Write arrays beside their place, and move them there together."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.rmtree(folder, ignore_errors=True)  # what was damaged
    aside = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        for name, values in arrays.items():
            np.save(aside / f"{name}.npy", values, allow_pickle=False)
        (aside / "names").write_text("\n".join(arrays))
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
