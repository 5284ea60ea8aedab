"""A bundle that may come from anybody, as a folder: checked before it is unpacked, never executed.

A bundle is a zip of `fedsim export --format zip`, or the folder that it was unpacked to; a run
directory is taken for a bundle of one run.
"""

import contextlib
import json
import stat
import tempfile
import unicodedata
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

from fedsim.disk import files
from fedsim.errors import CorruptError, DataError, DirectoryError, printable, shortened
from fedsim.runs import directory
from fedsim.runs.untrusted import demand_regular_files
from fedsim.sources.files import require_few_lists
from fedsim.sources.zips import require_short_list, require_small
from fedsim.tools.bundle.crate import CRATE, fault_in_name
from fedsim.tools.bundle.data import FOLDER as DATA
from fedsim.tools.bundle.packing import RUNS

MAX_CRATE_BYTES = 16 << 20


class Opened(NamedTuple):
    """A bundle that has been checked."""

    folder: Path
    runs: dict[str, Path]
    data_roots: list[Path]


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Open a bundle; a zip is unpacked into a temporary folder, which is deleted at the end.

    Raises:
      DirectoryError: where there is nothing, or no run.
      CorruptError: for a zip whose members lead elsewhere, share a name or unpack to too much, and
        for a file that was changed after it was packed.
    """
    if path.is_dir():
        yield _checked(path, path)
        return
    if not path.exists():
        raise DirectoryError(f"{path}: there is no such file or folder")
    with tempfile.TemporaryDirectory(prefix="fedsim-") as name:
        folder = Path(name)
        _unpack(path, folder)
        yield _checked(path, folder)


# ------------------------------------------------------------------------------------- the zip


def _unpack(path: Path, folder: Path) -> None:
    """Write the members of a zip into an empty folder."""
    try:
        with path.open("rb") as file:
            require_short_list(file)
            with zipfile.ZipFile(file) as archive:
                _require_sound(archive.infolist())
                size = sum(member.file_size for member in archive.infolist())
                files.require_space(folder, size)
                archive.extractall(folder)  # of each member no more than the size that was counted
    except DirectoryError:
        raise
    except OSError as error:
        raise DirectoryError(f"{path}: {error.strerror or error}") from None
    except Exception as error:  # parsers of zip and deflate raise a dozen exceptions
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        text = shortened(printable(reason), 200)
        raise CorruptError(f"{path}: is not a sound bundle: {text}") from None


def _require_sound(members: list[zipfile.ZipInfo]) -> None:
    """Refuse members that lead elsewhere, share a name, or unpack to too much."""
    names: set[str] = set()
    plain: set[str] = set()
    folders: set[str] = set()
    for member in members:
        fault = _fault(member)
        if fault:
            raise DataError(f"{member.orig_filename[:80]!a} {fault}")
        # as some file systems compare names
        name = unicodedata.normalize("NFC", member.filename.rstrip("/")).casefold()
        if name in names:
            raise DataError(f"{name[:80]!a} is in it twice")
        names.add(name)
        if not member.is_dir():
            plain.add(name)
        folders.update(map(str, PurePosixPath(name).parents))
    for name in plain & folders:
        raise DataError(f"{name[:80]!a} is both a file and a folder")
    require_small(
        sum(member.compress_size for member in members),
        sum(member.file_size for member in members),
    )


def _fault(member: zipfile.ZipInfo) -> str:
    """What is wrong with a member; empty where nothing is."""
    if fault := fault_in_name(member.orig_filename):
        return fault
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link or a device"
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is compressed in a way that no bundle is"
    return ""


# ---------------------------------------------------------------------------------- its content


def _checked(path: Path, folder: Path) -> Opened:
    """A folder as a bundle."""
    if (folder / directory.RECORD).exists():
        return Opened(folder, {folder.resolve().name: folder}, [])
    root = _root_of(folder)
    if root is None:
        raise DirectoryError(f"{path}: holds no fedsim run, and no {CRATE}")
    for part in (root / RUNS, root / DATA):
        if part.is_symlink():
            raise DirectoryError(f"{part}: is a symbolic link, which no bundle holds")
        if part.is_dir():
            demand_regular_files(part)
    _require_hashes(path, root)

    runs = {}
    for entry in sorted((root / RUNS).glob("*")):
        if (entry / directory.RECORD).is_file():
            runs[entry.name] = entry
    if not runs:
        raise DirectoryError(f"{path}: holds no fedsim run")
    data_roots = [entry for entry in sorted((root / DATA).glob("*")) if entry.is_dir()]
    return Opened(root, runs, data_roots)


def _root_of(folder: Path) -> Path | None:
    """The folder with the metadata: this one, or the only folder in it."""
    if (folder / CRATE).is_file():
        return folder
    inside = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    if len(inside) == 1 and (inside[0] / CRATE).is_file():
        return inside[0]
    return None


def _require_hashes(path: Path, root: Path) -> None:
    """Compare the files of runs and data with the metadata's hashes."""
    expected = _hashes_in(path, root / CRATE)
    present = {}
    for part in (RUNS, DATA):
        for entry in sorted((root / part).rglob("*")):
            if entry.is_file():
                present[entry.relative_to(root).as_posix()] = files.sha256(entry)
    for name, sha256 in expected.items():
        if name.startswith((f"{RUNS}/", f"{DATA}/")) and present.pop(name, None) != sha256:
            reason = "is missing, or was changed after it was packed"
            raise CorruptError(f"{path}: {printable(name)[:120]} {reason}")
    for name in present:
        raise CorruptError(f"{path}: {printable(name)[:120]} is not in {CRATE}")


def _hashes_in(path: Path, crate: Path) -> dict[str, str]:
    """The SHA-256 of the files by name, as the metadata has them."""
    try:
        if crate.stat().st_size > MAX_CRATE_BYTES:
            raise ValueError("too large")
        content = crate.read_bytes()
        require_few_lists(content)
        hashes = {}
        for entity in json.loads(content)["@graph"]:
            if entity.get("@type") == "File":
                hashes[unquote(entity["@id"])] = str(entity["sha256"])
        return hashes
    except (DataError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise CorruptError(f"{path}: {CRATE} is damaged") from None
