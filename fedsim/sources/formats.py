"""Which reader a path needs: a row for each format, tried in order."""

import contextlib
import os
import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from fedsim.errors import DataError
from fedsim.sources.cifar import CIFAR10, CIFAR100
from fedsim.sources.client_tables import TABLE
from fedsim.sources.files import opened
from fedsim.sources.folders import folder_files
from fedsim.sources.idx import FILE as IDX
from fedsim.sources.pictures import SUFFIXES

START_BYTES = 4096  # at the start of a file, by which LEAF's JSON is recognised
LABELS = ("y", "label", "labels", "target", "class", "outcome")  # usual names of label columns
CLIENTS = (  # usual names of client columns
    "client",
    "client_id",
    "user",
    "user_id",
    "subject",
    "patient",
    "writer",
    "device",
    "site",
    "hospital",
)
SAVED = r"(.*/)?(state\.json|dataset_dict\.json)|(.*/)?[^/]+\.(arrow|parquet)"
LEAF_JSON = r"((data/)?(train|test)/)?[^/]*\.json"
IMAGES = rf".*/[^/]+({'|'.join(map(re.escape, SUFFIXES))})"


class Format(NamedTuple):
    """A reader, and the paths that it reads."""

    kind: str  # the reader
    example: str  # what a path of this format looks like, for errors
    pattern: str  # what the name of a file matches, or any name in a folder
    of_folder: bool | None = False  # whether the path is a folder; None: either
    # whether a file (of a folder, the first that matches) is one
    holds: Callable[[Path], bool] = os.path.exists


def _has(names: Iterable[str], pattern: str) -> bool:
    return any(re.fullmatch(pattern, name, re.IGNORECASE) for name in names)


def kind_of(path: str) -> str:
    """Return the kind of data set that a path holds.

    Raises:
      DataError: for a path that holds none, saying which formats there are, or what to do instead.
      OSError: where there is nothing.
    """
    files = _files(Path(path))
    is_folder = os.path.isdir(path)
    fitting = [row for row in FORMATS if _fits(row, files)]
    for row in fitting:
        if row.of_folder in (None, is_folder):
            return row.kind
    if is_folder and _has(files, r"(.*/)?[^/]+\.txt"):
        raise DataError(f"{path}: {FOLDER_OF_TEXTS}")
    if not is_folder:
        for pattern, remedy in UNREADABLE.items():
            if _has(files, pattern):
                raise DataError(f"{path}: {remedy}")
        if fitting:
            kind = fitting[0].kind
            folder = Path(path).parent
            raise DataError(
                f"{path}: is a file of a set of kind {kind}; describe its folder, {folder}"
            )
    formats = ", ".join(f"{row.kind} ({row.example})" for row in FORMATS)
    raise DataError(f"{path}: unknown data format; known are {formats}; see fedsim explain KIND")


def guess_columns(names: Sequence[str], ids: Collection[str] = ()) -> dict[str, str]:
    """Guess the target column and the client column of a table by their names.

    The target is a column with a usual name for labels, or else the last one. Columns of `ids`
    have another value in every row: they name samples, not clients.
    """
    by_lower_name = {name.lower(): name for name in reversed(names)}
    targets = [by_lower_name[name] for name in LABELS if name in by_lower_name]
    target = targets[0] if targets else names[-1]
    keys = {"target": target}
    for name in CLIENTS:
        client = by_lower_name.get(name, target)
        if client != target and client not in ids:
            keys["client"] = client
            break
    return keys


def _files(path: Path) -> dict[str, Path]:
    """The file, or the files of a folder that are not hidden, by their relative names."""
    if not path.is_dir():
        path.stat()
        return {path.name: path}
    with folder_files(str(path)) as files:
        return {name: file for name, file in files.items() if not name.startswith(".")}


def _fits(row: Format, files: dict[str, Path]) -> bool:
    """Whether a file, or one of a folder, has a format."""
    first = next((file for name, file in files.items() if _has([name], row.pattern)), None)
    return first is not None and row.holds(first)


def _cifar(files: dict[str, re.Pattern], pickled: str) -> str:
    return "|".join([*(pattern.pattern for pattern in files.values()), pickled])


def _is_medmnist(path: Path) -> bool:
    # An unsound archive is refused by the reader of archives, with a reason.
    with contextlib.suppress(Exception), opened(str(path)) as file, zipfile.ZipFile(file) as arrays:
        return "train_images.npy" in arrays.namelist()[:100]
    return False


def _is_leaf(path: Path) -> bool:
    with opened(str(path)) as file:
        return re.search(rb'"users"|"user_data"', file.read(START_BYTES)) is not None


CIFAR10_FILES = _cifar(CIFAR10, r"data_batch_[1-5]|batches\.meta")
CIFAR100_FILES = _cifar(CIFAR100, r"train|file\.txt~")
FORMATS = (
    Format("medmnist", "FILE.npz with train_images", r".*\.npz", holds=_is_medmnist),
    Format("npz", "FILE.npz with x and y", r".*\.npz"),
    Format("csv", "FILE.csv, FILE.tsv", r".*\.(csv|tsv)(\.gz)?"),
    Format("parquet", "FILE.parquet", r".*\.(parquet|pq)"),
    Format("xlsx", "FILE.xlsx", r".*\.xls[xm]"),
    Format("text", "FILE.txt", r".*\.txt"),
    Format("idx", "train-images-idx3-ubyte ...", IDX.pattern, of_folder=True),
    Format("cifar10", "data_batch_1.bin ...", CIFAR10_FILES, of_folder=True),
    Format("cifar100", "train.bin, test.bin", CIFAR100_FILES, of_folder=True),
    Format("huggingface", "files of save_to_disk, parquet files", SAVED, of_folder=True),
    Format("tff_hdf5", "FILE.h5", r"[^/]*\.(h5|hdf5)", of_folder=None),
    Format("leaf", "train/*.json with users and user_data", LEAF_JSON, True, _is_leaf),
    Format("imagefolder", "CLASS/IMAGE.png", IMAGES, of_folder=True),
    Format("csv", "CLIENT.csv ...", TABLE.pattern, of_folder=True),
)
FOLDER_OF_TEXTS = (
    "is a folder of texts; write them into one table, a row per text, such as texts.csv with the "
    "columns client and text: data: {kind: text, path: texts.csv, column: text}"
)
UNREADABLE = {  # pattern of files that have no reader -> what to do
    r".*\.(pkl|pickle|pt|pth|joblib|p)": (
        "is pickled and could run anything; save its arrays: np.savez(FILE, x=x, y=y)"
    ),
    r".*\.npy": ("is a single array; save features and labels together: np.savez(FILE, x=x, y=y)"),
    r".*\.(zip|tar|tgz|tar\.(gz|bz2|xz)|7z|rar)": "is packed; unpack it and describe its folder",
    r".*\.(xlsb?|ods|numbers)": "is a spreadsheet of another format; save it as .xlsx, or as CSV",
    r"(data_batch_[1-5]|test_batch|batches\.meta)": (
        "belongs to the pickled CIFAR-10, which could run anything; download the binary version, "
        "cifar-10-binary.tar.gz, and describe its folder"
    ),
}
