"""NumPy archives: nothing is executed, and nothing is allocated before its size is verified."""

import math
import zipfile
from collections.abc import Collection
from typing import Any, BinaryIO

import numpy as np

from fedsim.compose import dataset
from fedsim.errors import DataError, nearest
from fedsim.limits import require_memory
from fedsim.sources.arrays import Arrays, encode_labels, validate
from fedsim.sources.cells import Task
from fedsim.sources.files import Name, opened, sound
from fedsim.sources.image_sets import ChannelAxis
from fedsim.sources.table_keys import Missing
from fedsim.sources.targets import with_task
from fedsim.sources.zips import require_small

NUMBERS = {"scale": float, "vocabulary": int}  # members that are a single number
NOT_STORED = ("features", "columns", "table", "remarks")
MEMBERS = tuple(name for name in Arrays._fields if name not in NOT_STORED)
KINDS = {  # kinds of dtype that an array may have; other members hold numbers
    "client": "biufSU",
    "client_test": "biufSU",
    "y": "biufU",
    "y_test": "biufU",
    "labels": "U",
}


@dataset
def npz(
    path: Name,
    missing: Missing = "refuse",
    standardize: bool = False,
    channel_axis: ChannelAxis = None,
    task: Task = None,
    columns: list[str] = [],  # noqa: B006 (read, never changed)
    sha256: str | None = None,
) -> Arrays:
    """A NumPy archive with arrays `x [n, ...]` and `y [n]`, and optional clients and test sets.

    Optional members are `client [n]`, `x_test`, `y_test`, `client_test`, `scale`, `vocabulary` and
    `labels`, all as in `fedsim.Arrays`. Integer labels are classes, text labels are names of
    classes, floats are regression targets; `client` is the natural partition.
    Archives that hold Python objects, unpack to more than the memory or to more than 200 times
    their size, or lie about sizes are refused.

    Images are bytes `[n, height, width]`, or have an axis of 1, 3 or 4 channels, which becomes the
    last; bytes are divided by 255 unless there is a `scale`.

    Args:
      path: the file, in the scenario's folder, the working directory or a `--data-root`; files
        elsewhere are not read.
      missing: what happens to features that are NaN, as in `csv`.
      standardize: as in `csv`.
      channel_axis: where images `[n, a, b, c]` have their channels; left out: the axis of 1, 3 or
        4, which is asked for where both could be it.
      task: as in `csv`.
      columns: further arrays `[n]`, of numbers or text, for partitions; the one that the partition
        names need not be listed.
      sha256: the file's hash; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: naming the file, if it is not such an archive.
    """
    del standardize, channel_axis  # done later, when the training samples are known
    with opened(path, sha256, math.inf) as file:
        members: dict[str, Any] = arrays_in(file, dict.fromkeys((*MEMBERS, *columns)))
        for name in ("x", "y", *columns):
            if name not in members:
                raise DataError(f"no array '{name}'; {_content(file)}")
        for name, values in members.items():
            kinds = KINDS.get(name, "biuf" if name in MEMBERS else "biufSU")
            if values.dtype.kind not in kinds:
                raise DataError(f"{name}: expected numbers, found {values.dtype}")
        for name in NUMBERS:
            if name in members:
                members[name] = _number(name, members[name])

        extra = {}
        for name in dict.fromkeys(columns):
            extra[name] = members[name] if name in MEMBERS else members.pop(name)
        arrays = Arrays(**members, columns=extra)
        encoded, _ = encode_labels(with_task(arrays, task))
        validate(encoded, None, blanks=missing != "refuse")
        return arrays


def arrays_in(file: BinaryIO, names: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Return the arrays of an archive by name: those of `names`, or all where there are none.

    Refused is what is not an archive, holds objects, lies about sizes, or unpacks to too much.
    """
    with sound("npz archive"), zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        require_small(sum(member.compress_size for member in members), unpacked, math.inf)
        require_memory(arrays=unpacked)
        by_name = {member.filename.removesuffix(".npy"): member for member in members}
        if len(by_name) < len(members):
            raise DataError("two arrays have the same name")
        for name in by_name.keys() - set(names) if names else ():
            if near := nearest(name, names, 0.8):
                raise DataError(f"array {name!a} has no meaning here; did you mean '{near}'?")
        chosen = [name for name in names or by_name if name in by_name]
        return {name: _array(archive, by_name[name], name) for name in chosen}


def _content(file: BinaryIO) -> str:
    names = [name.removesuffix(".npy") for name in zipfile.ZipFile(file).namelist()]
    if "train_images" in names:
        return "this is a set of MedMNIST: write kind: medmnist"
    listed = ", ".join(ascii(name[:40]) for name in sorted(names)[:6])
    return f"there are {listed or 'none'}"


def _number(name: str, value: np.ndarray) -> Any:
    if value.size != 1:
        raise DataError(f"{name}: expected a single number, found {value.dtype} {value.shape}")
    return NUMBERS[name](value.item())


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> np.ndarray:
    """Read an array, if its header agrees with the member's size."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read_header: Any = np.lib.format.read_array_header_2_0
        if version == (1, 0):
            read_header = np.lib.format.read_array_header_1_0
        shape, _, dtype = read_header(file)
        start = file.tell()

    if dtype.hasobject:
        raise DataError(
            f"{name}: holds Python objects, which are never loaded; save numbers instead"
        )
    body = member.file_size - start
    if any(side < 0 for side in shape) or math.prod(shape) * dtype.itemsize != body:
        raise DataError(f"{name}: its header promises {dtype} {shape}, but {body} bytes follow")
    with archive.open(member) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
