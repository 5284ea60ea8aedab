"""Which reader a path needs: a row for each format, tried in order."""

import contextlib
import re
import zipfile
from collections.abc import Callable, Collection, Sequence
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


class DataPath(NamedTuple):
    """A path whose format is to be recognised.

    Attributes:
      path: the path.
      names: the names of a folder's files, relative to it; the name of a file.
      is_folder: whether it is a folder.
    """

    path: Path
    names: list[str]
    is_folder: bool

    def has(self, pattern: str) -> bool:
        """Return whether any name matches a pattern."""
        return any(re.fullmatch(pattern, name, re.IGNORECASE) for name in self.names)


class Format(NamedTuple):
    """A reader, and the paths that it reads.

    Attributes:
      kind: the reader.
      example: what a path of this format looks like, for errors.
      fits: whether a path of the right type has this format.
      reads_file: whether the path may be a file.
      reads_folder: whether the path may be a folder.
    """

    kind: str
    example: str
    fits: Callable[[DataPath], bool]
    reads_file: bool = False
    reads_folder: bool = False

    def reads(self, path: DataPath) -> bool:
        """Return whether this is the reader for a path."""
        right_type = self.reads_folder if path.is_folder else self.reads_file
        return right_type and self.fits(path)


def kind_of(path: str) -> str:
    """Return the kind of data set that a path holds.

    Raises:
      DataError: for a path that holds none, saying which formats there are, or what to do instead.
      OSError: where there is nothing.
    """
    data_path = _inspect(Path(path))
    for row in FORMATS:
        if row.reads(data_path):
            return row.kind
    if not data_path.is_folder:
        for pattern, remedy in UNREADABLE.items():
            if data_path.has(pattern):
                raise DataError(f"{path}: {remedy}")
        for row in FORMATS:
            if not row.reads_file and row.fits(data_path):
                folder = Path(path).parent
                raise DataError(
                    f"{path}: is a file of a set of kind {row.kind}; describe its folder, {folder}"
                )
    elif data_path.has(r"(.*/)?[^/]+\.txt"):
        raise DataError(f"{path}: {FOLDER_OF_TEXTS}")
    formats = ", ".join(f"{row.kind} ({row.example})" for row in FORMATS)
    raise DataError(f"{path}: unknown data format; known are {formats}; see fedsim explain KIND")


def guess_columns(names: Sequence[str], ids: Collection[str] = ()) -> dict[str, str]:
    """Guess the target column and the client column of a table by their names.

    The target is a column with a usual name for labels, or else the last one.

    Args:
      names: the names of all columns.
      ids: those with another value in every row: they name samples, not clients.
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


def _inspect(path: Path) -> DataPath:
    if path.is_dir():
        with folder_files(str(path)) as files:
            names = [name for name in files if not name.startswith(".")]
            return DataPath(path, names, is_folder=True)
    path.stat()
    return DataPath(path, [path.name], is_folder=False)


def _named(pattern: str) -> Callable[[DataPath], bool]:
    """A test whether any name of a path matches a pattern."""
    return lambda path: path.has(pattern)


def _cifar(files: dict[str, re.Pattern], pickled: str) -> Callable[[DataPath], bool]:
    """A test for the files of the binary or the pickled version."""
    patterns = [pattern.pattern for pattern in files.values()]
    return _named("|".join([*patterns, pickled]))


def _is_medmnist(path: DataPath) -> bool:
    if not path.has(r".*\.npz"):
        return False
    # An unsound archive is refused by the reader of archives, with a reason.
    with (
        contextlib.suppress(Exception),
        opened(str(path.path)) as file,
        zipfile.ZipFile(file) as archive,
    ):
        return "train_images.npy" in archive.namelist()[:100]
    return False


def _is_leaf(path: DataPath) -> bool:
    names = [name for name in path.names if re.fullmatch(LEAF_JSON, name)]
    if not names:
        return False
    first = path.path / names[0] if path.is_folder else path.path
    with opened(str(first)) as file:
        return re.search(rb'"users"|"user_data"', file.read(START_BYTES)) is not None


FORMATS = (
    Format("medmnist", "FILE.npz with train_images", _is_medmnist, reads_file=True),
    Format("npz", "FILE.npz with x and y", _named(r".*\.npz"), reads_file=True),
    Format("csv", "FILE.csv, FILE.tsv", _named(r".*\.(csv|tsv)(\.gz)?"), reads_file=True),
    Format("parquet", "FILE.parquet", _named(r".*\.(parquet|pq)"), reads_file=True),
    Format("xlsx", "FILE.xlsx", _named(r".*\.xls[xm]"), reads_file=True),
    Format("text", "FILE.txt", _named(r".*\.txt"), reads_file=True),
    Format("idx", "train-images-idx3-ubyte ...", _named(IDX.pattern), reads_folder=True),
    Format(
        "cifar10",
        "data_batch_1.bin ...",
        _cifar(CIFAR10, pickled=r"data_batch_[1-5]|batches\.meta"),
        reads_folder=True,
    ),
    Format(
        "cifar100",
        "train.bin, test.bin",
        _cifar(CIFAR100, pickled=r"train|file\.txt~"),
        reads_folder=True,
    ),
    Format("huggingface", "files of save_to_disk, parquet files", _named(SAVED), reads_folder=True),
    Format("tff_hdf5", "FILE.h5", _named(r"[^/]*\.(h5|hdf5)"), reads_file=True, reads_folder=True),
    Format("leaf", "train/*.json with users and user_data", _is_leaf, reads_folder=True),
    Format("imagefolder", "CLASS/IMAGE.png", _named(IMAGES), reads_folder=True),
    Format("csv", "CLIENT.csv ...", _named(TABLE.pattern), reads_folder=True),
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
