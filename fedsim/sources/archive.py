"""NumPy archives: nothing is executed, nothing is allocated before its size is known to be true."""

import math
import re
import stat
import zipfile
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Any, BinaryIO

import numpy as np

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays, checked, classes_named
from fedsim.sources.columns import Missing
from fedsim.sources.files import MOST_BYTES, MOST_RATIO, SMALL_BYTES, Name, opened
from fedsim.sources.mapped import STAYS_BYTES

MOST_LIST_BYTES, MOST_HEADER_BYTES = (
    1 << 20,
    10_000,
)  # of a zip's list of members, of an array's header
TAIL_BYTES = 22 + 65_535  # where a zip keeps its end: a record and a comment
KINDS = {
    "client": "biufSU",
    "client_test": "biufSU",
    "y": "biufU",
    "y_test": "biufU",
    "labels": "U",
}  # others: numbers
NUMBERS = {"scale": float, "vocabulary": int}
FEATURES = ("x", "x_test", "train_images", "val_images", "test_images")
MEMBERS = tuple(name for name in Arrays._fields if name not in ("features", "columns"))


@dataset
def npz(
    path: Name,
    missing: Missing = "refuse",
    standardize: bool = False,
    columns: list[str] = [],  # noqa: B006 (read, never changed)
    sha256: str | None = None,
) -> Arrays:
    """A NumPy archive with arrays `x [n, ...]`, `y [n]` and, optionally, `client [n]`, `x_test`, `y_test`, `client_test`.

    Other optional members are `scale`, `vocabulary` and `labels`, all as in `fedsim.Arrays`. Integer labels are classes, text
    labels the names of classes, floats regression targets; `client` is the natural partition. Features that are stored
    uncompressed (as `numpy.savez` does) stay in the file from 64 MiB on, read when a round needs them. Archives that hold
    Python objects, unpack to more than 8 GiB or to more than 200 times their size, or lie about sizes are refused.

    Args:
      path: of the file, from the scenario's folder, the working directory or a `--data-root`; elsewhere none is read.
      missing: what happens to features that are NaN, as in `csv`.
      standardize: as in `csv`.
      columns: further arrays `[n]`, of numbers or text, that a partition may name; the one that it names need not stand here.
      sha256: of the file; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: for a file that is not such an archive, naming it.
    """
    del standardize  # by `prepare`, which knows the training samples
    with opened(path, sha256, math.inf) as file:
        members: dict[str, Any] = arrays_in(
            file, dict.fromkeys((*MEMBERS, *columns)), needed=("x", "y", *columns)
        )
        for name in NUMBERS.keys() & members.keys():
            members[name] = _number(name, members[name])
        kept = {
            name: members[name] if name in MEMBERS else members.pop(name)
            for name in dict.fromkeys(columns)
        }
        arrays = Arrays(**members, columns=kept)
        checked(classes_named(arrays)[0], None, missing != "refuse")
        return arrays


def arrays_in(
    file: BinaryIO, known: Collection[str], needed: Sequence[str]
) -> dict[str, np.ndarray]:
    """The arrays of an archive by their names, features that are large and stored unpacked as maps of the file.

    Args:
      file: opened for bytes.
      known: names of the arrays that are read.
      needed: of those that must be there.

    Raises:
      DataError: for what is no archive, holds objects, unpacks to too much, or lies about sizes.
    """
    try:
        _require_short_list(file, known)
        with zipfile.ZipFile(file) as archive:
            return {
                name: _array(archive, m, name)
                for name, m in _members(archive, known, needed).items()
            }
    except DataError:
        raise
    except (
        Exception
    ) as error:  # zip, deflate and header parsers fail in a dozen ways on what is no archive
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise DataError(f"not a sound npz archive: {reason}") from None


def _require_short_list(file: BinaryIO, known: Collection[str]) -> None:
    """Refuse a list of members that is too long, before it is read into memory as a whole."""
    size = file.seek(0, 2)
    file.seek(max(size - TAIL_BYTES, 0))
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at >= 0 and int.from_bytes(tail[at + 12 : at + 16], "little") > MOST_LIST_BYTES:
        raise DataError(f"lists thousands of arrays; {', '.join(known)} are read")
    file.seek(0)


def _members(
    archive: zipfile.ZipFile, known: Collection[str], needed: Sequence[str]
) -> dict[str, zipfile.ZipInfo]:
    """The members that hold known arrays, after a check of what all members would unpack to."""
    members = archive.infolist()
    loaded = [m for m in members if not _stays(m)]
    unpacked, packed = (
        sum(getattr(m, size) for m in loaded) for size in ("file_size", "compress_size")
    )
    if unpacked > MOST_BYTES or unpacked > max(MOST_RATIO * packed, SMALL_BYTES):
        raise DataError(
            f"unpacks from {packed} to {unpacked} bytes; at most {MOST_RATIO}-fold and {MOST_BYTES} bytes"
        )
    for m in members:
        if (
            m.is_dir()
            or not re.fullmatch(r"[^/\\]*", m.filename)
            or stat.S_ISLNK(m.external_attr >> 16)
        ):
            raise DataError(
                f"member {m.filename[:60]!a} is no array; save arrays alone, as numpy.savez does"
            )
    named = {m.filename.removesuffix(".npy"): m for m in members}
    if len(named) < len(members):
        raise DataError("two arrays have the same name")
    missing = [name for name in needed if name not in named]
    if missing:
        names = sorted(ascii(name[:40]) for name in named)
        listed = f"{', '.join(names[:6])}{' ...' * (len(names) > 6)}" if names else "none"
        other = (
            "; this is a set of MedMNIST: write kind: medmnist" if "train_images" in named else ""
        )
        raise DataError(f"no array '{missing[0]}'; there are {listed}{other}")
    for name in named.keys() - set(known):
        if near := get_close_matches(name, list(known), 1, 0.8):
            raise DataError(f"array {name!a} has no meaning here; did you mean '{near[0]}'?")
    return {name: named[name] for name in known if name in named}


def _number(name: str, value: np.ndarray) -> Any:
    """An array of a single number, as that."""
    if value.size != 1:
        raise DataError(f"{name}: a single number is needed, found {value.dtype} {value.shape}")
    return NUMBERS[name](value.item())


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> np.ndarray:
    """One array, read only when its header agrees with the member's size."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise DataError(
                f"{name}: format {version} is for records, and plain numbers are needed"
            )
        _require_short_header(archive, member, name)
        header = (
            np.lib.format.read_array_header_1_0
            if version[0] == 1
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = header(file)
        start = file.tell()
        if dtype.hasobject:
            raise DataError(
                f"{name}: holds Python objects, which are never loaded; save numbers instead"
            )
        if dtype.kind not in KINDS.get(name, "biuf" if name in (*MEMBERS, *FEATURES) else "biufSU"):
            raise DataError(f"{name}: numbers are needed, found {dtype}")
        body = member.file_size - start
        if any(side < 0 for side in shape) or math.prod(shape) * dtype.itemsize != body:
            raise DataError(f"{name}: its header promises {dtype} {shape}, but {body} bytes follow")
    if _stays(member) and not fortran:
        return _mapped(archive, member, start, shape, dtype)
    if member.file_size > MOST_BYTES:  # it was not counted with those that are loaded
        raise DataError(
            f"{name}: {member.file_size} bytes in Fortran order, which are loaded; at most {MOST_BYTES} bytes"
        )
    with archive.open(member) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _require_short_header(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> None:
    """Refuse a header that is too long before NumPy reads it, which it does whatever its length."""
    with archive.open(member) as file:
        start = file.read(12)
    length = int.from_bytes(start[8 : 10 if start[6] == 1 else 12], "little")
    if length > MOST_HEADER_BYTES:
        raise DataError(f"{name}: a header of {length} bytes; at most {MOST_HEADER_BYTES}")


def _stays(member: zipfile.ZipInfo) -> bool:
    """Whether an array is left in the file: large, and stored as it is."""
    features = member.filename.removesuffix(".npy") in FEATURES
    stored = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
    return features and stored and member.file_size >= STAYS_BYTES


def _mapped(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, start: int, shape: tuple, dtype: np.dtype
) -> np.ndarray:
    """A stored array as a map of the archive: behind the member's own header (30 bytes, name, extra) and NumPy's."""
    raw: Any = archive.fp
    raw.seek(member.header_offset)
    local = raw.read(30)
    names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    return np.memmap(raw, dtype, "r", member.header_offset + 30 + names + start, shape)
