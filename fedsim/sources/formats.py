"""Which reader a path is for: a row for each format, tried in their order."""

import contextlib
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fedsim.errors import DataError
from fedsim.sources.cifar import CIFAR10, CIFAR100
from fedsim.sources.files import opened
from fedsim.sources.folders import folder_files
from fedsim.sources.idx import FILE as IDX
from fedsim.sources.pictures import SUFFIXES

STARTS = 4096  # bytes at the start of a file that tell one format from another
LABELS = ("y", "label", "labels", "target", "class", "outcome")  # what columns of labels are called
CLIENTS = (
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


FILE, FOLDER, EITHER = (False,), (True,), (False, True)
SAVED = r"(.*/)?(state\.json|dataset_dict\.json)|(.*/)?[^/]+\.(arrow|parquet)"


class Place(NamedTuple):
    """What lies at a path."""

    path: Path
    names: list[str]  # of the files of a folder, from there; of a file, its own alone
    folder: bool

    def any(self, pattern: str) -> bool:
        """Whether some name is as the pattern says."""
        return any(re.fullmatch(pattern, name, re.IGNORECASE) for name in self.names)


class Format(NamedTuple):
    """A reader, and the paths that are for it."""

    kind: str
    what: str
    fits: Callable[[Place], bool]
    given: tuple[bool, ...]  # whether it is given a folder


def _cifar(names: dict[str, re.Pattern], pickled: str) -> Callable[[Place], bool]:
    return lambda place: (
        place.any("|".join(p.pattern for p in names.values())) or place.any(pickled)
    )


def _is_medmnist(place: Place) -> bool:
    with (
        contextlib.suppress(Exception),
        opened(str(place.path)) as file,
        zipfile.ZipFile(file) as archive,
    ):
        return (
            "train_images.npy" in archive.namelist()[:100]
        )  # what is no archive is told by the reader of archives
    return False


def _is_leaf(place: Place) -> bool:
    named = [
        name for name in place.names if re.fullmatch(r"((data/)?(train|test)/)?[^/]*\.json", name)
    ]
    if not named:
        return False
    with opened(str(place.path / named[0] if place.folder else place.path)) as file:
        return re.search(rb'"users"|"user_data"', file.read(STARTS)) is not None


FORMATS = (
    Format(
        "medmnist",
        "FILE.npz with train_images",
        lambda p: p.any(r".*\.npz") and _is_medmnist(p),
        FILE,
    ),
    Format("npz", "FILE.npz with x and y", lambda p: p.any(r".*\.npz"), FILE),
    Format("csv", "FILE.csv, FILE.tsv", lambda p: p.any(r".*\.(csv|tsv)(\.gz)?"), FILE),
    Format("parquet", "FILE.parquet", lambda p: p.any(r".*\.(parquet|pq)"), FILE),
    Format("text", "FILE.txt", lambda p: p.any(r".*\.txt"), FILE),
    Format("idx", "train-images-idx3-ubyte ...", lambda p: p.any(IDX.pattern), FOLDER),
    Format(
        "cifar10",
        "data_batch_1.bin ...",
        _cifar(CIFAR10, r"data_batch_[1-5]|batches\.meta"),
        FOLDER,
    ),
    Format("cifar100", "train.bin, test.bin", _cifar(CIFAR100, r"train|file\.txt~"), FOLDER),
    Format("huggingface", "save_to_disk's files, parquet files", lambda p: p.any(SAVED), FOLDER),
    Format("tff_hdf5", "FILE.h5", lambda p: p.any(r"[^/]*\.(h5|hdf5)"), EITHER),
    Format("leaf", "train/*.json with users and user_data", _is_leaf, FOLDER),
    Format(
        "imagefolder",
        "CLASS/IMAGE.png",
        lambda p: p.any(rf".*/[^/]+({'|'.join(map(re.escape, SUFFIXES))})"),
        FOLDER,
    ),
)
OTHERS = {  # files that no reader takes -> what to do
    r".*\.(pkl|pickle|pt|pth|joblib|p)": "is pickled and could run anything; save its arrays: np.savez(FILE, x=x, y=y)",
    r".*\.npy": "is a single array; save features and labels together: np.savez(FILE, x=x, y=y)",
    r".*\.(zip|tar|tgz|tar\.(gz|bz2|xz)|7z|rar)": "is packed; unpack it and describe its folder",
    r".*\.(xlsx?|ods)": "is a spreadsheet; save it as CSV",
    r"(data_batch_[1-5]|test_batch|batches\.meta)": "is of the pickled CIFAR-10, which could run anything; take the binary "
    "version, cifar-10-binary.tar.gz, and describe its folder",
}


def kind_of(path: str) -> str:
    """The kind of data set that a path holds.

    Raises:
      DataError: for a path that holds none, saying what is known, or what to do instead.
      OSError: where there is nothing.
    """
    place = _place(Path(path))
    fitting = [row for row in FORMATS if place.folder in row.given and row.fits(place)]
    if fitting:
        return fitting[0].kind
    for pattern, remedy in OTHERS.items():
        if not place.folder and place.any(pattern):
            raise DataError(f"{path}: {remedy}")
    if not place.folder:
        part = next((row for row in FORMATS if row.given == FOLDER and row.fits(place)), None)
        if part is not None:
            raise DataError(
                f"{path}: is a file of a set of kind {part.kind}; describe its folder, {Path(path).parent}"
            )
    known = ", ".join(f"{row.kind} ({row.what})" for row in FORMATS)
    raise DataError(
        f"{path}: no known form of data; known are {known}; fedsim explain KIND says more"
    )


def guessed_keys(names: Sequence[str]) -> dict[str, str]:
    """Keys that a reader of tables needs and a name gives away: the target column and the client column.

    The target is a column that is called as labels are, or else the last one.

    Args:
      names: of all columns.
    """
    called = {name.lower(): name for name in reversed(names)}
    target = next((called[name] for name in LABELS if name in called), names[-1])
    client = next(
        (called[name] for name in CLIENTS if name in called and called[name] != target), None
    )
    return {"target": target, **({"client": client} if client else {})}


def _place(path: Path) -> Place:
    if path.is_dir():
        with folder_files(str(path)) as files:
            return Place(path, [name for name in files if not name.startswith(".")], True)
    path.stat()
    return Place(path, [path.name], False)
