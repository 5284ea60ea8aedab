"""Images in a folder for each class, as torchvision's ImageFolder and its like read them."""

from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.cells import ids
from fedsim.sources.faults import Faults
from fedsim.sources.files import Name
from fedsim.sources.folders import folder_files
from fedsim.sources.pictures import SCALE, SUFFIXES, Channels, Size, decoded

TESTS = ("test", "val", "validation")
HIDDEN = ("Thumbs.db", "desktop.ini")  # besides names with a dot in front
BESIDE = (
    ".csv",
    ".html",
    ".json",
    ".md",
    ".mat",
    ".txt",
    ".xml",
    ".yaml",
    ".yml",
)  # of descriptions of the images
WHERE = "put images at CLASS/IMAGE.png, or at train/CLASS/IMAGE.png and test/CLASS/IMAGE.png"


class Image(NamedTuple):
    """An image of a folder: its name from there, the file, and what its folders say."""

    name: str
    path: Path
    label: str
    client: str


@dataset
def imagefolder(
    path: Name,
    size: Size = None,
    channels: Channels = None,
    client_folders: bool = False,
    split: Name = "train",
    test_split: Name | None = None,
    sha256: str | None = None,
) -> Arrays:
    """Images in a folder for each class: `CLASS/IMAGE.png`, or `train/CLASS/…` and `test/CLASS/…`; pixels over 255.

    Classes are numbered in the order of their sorted names, as in torchvision; images are sorted by name. PNG, JPEG, BMP,
    GIF, PPM, TIFF and WebP are read, by their content whatever their suffix says, turned as they are stored; names with a
    dot in front do not count, nor do text files beside images. They are kept as bytes.

    Args:
      path: of the folder, from the scenario's folder, the working directory or a `--data-root`.
      size: `[height, width]` that images are resized to (bilinear); needed where they differ.
      channels: 1: grey; 3: colour; left out: 1 where all are grey. Transparency is left out.
      client_folders: whether folders of clients stand above those of classes, `CLIENT/CLASS/IMAGE.png`: the natural partition.
      split: folder of the training images, where it is there; else the folder holds the classes themselves.
      test_split: folder of the test images beside it; left out: `test`, else `val`, else `validation`, where it is there.
      sha256: of all files together; others are refused (filled in by the resolved scenario).

    Raises:
      DataError: naming images that are none, and sizes that differ.
    """
    with folder_files(path, sha256) as files:
        shown = {name: file for name, file in files.items() if not _hidden(name)}
        tops = {name.partition("/")[0] for name in shown if "/" in name}
        parted = split in tops
        for key, name in (
            ("split", split if split != "train" or test_split else None),
            ("test_split", test_split),
        ):
            if name is not None and name not in tops:
                raise DataError(
                    f"{key}: no folder {name[:60]!a}; there are {', '.join(sorted(tops))[:120] or 'none'}"
                )
        train = _images(shown, split if parted else "", client_folders)
        chosen = test_split or next((name for name in TESTS if parted and name in tops), "")
        test = _images(shown, chosen, client_folders) if chosen else []
        labels = sorted({image.label for image in train})
        for image in test:
            if image.label not in labels:
                raise DataError(
                    f"{image.name}: no class {image.label[:60]!a} among the training images"
                )
        x = decoded(lambda: [(image.name, image.path) for image in (*train, *test)], size, channels)
        y = np.searchsorted(np.array(labels), [image.label for image in (*train, *test)])
        n, who = len(train), _ids([*train, *test]) if client_folders else None
        arrays = Arrays(x[:n], y[:n], None if who is None else who[:n], scale=SCALE, labels=labels)
        if not test:
            return arrays
        return arrays._replace(
            x_test=x[n:], y_test=y[n:], client_test=None if who is None else who[n:]
        )


def _hidden(name: str) -> bool:
    return any(part.startswith(".") or part in HIDDEN for part in PurePosixPath(name).parts)


def _images(files: dict[str, Path], top: str, clients: bool) -> list[Image]:
    """The images below a folder, with their classes and clients.

    Raises:
      DataError: for a folder without images, images outside of classes, and other files among them.
    """
    images, levels = [], 2 if clients else 1
    inside: dict[
        tuple[str, ...], str
    ] = {}  # folder of a class -> the one folder in it that holds images
    for name, path in files.items():
        above, *rest = ("", *name.split("/")) if not top else name.split("/")
        if above != top:
            continue
        *folders, file = rest
        suffix = PurePosixPath(file).suffix.lower()
        if suffix in BESIDE or (not folders and suffix not in SUFFIXES):
            continue
        if suffix not in SUFFIXES:
            raise DataError(
                f"{name[:200]!a} is no image: its suffix is none of {', '.join(SUFFIXES)}"
            )
        if len(folders) < levels:
            needed = "folder of a client and of a class" if clients else "folder of a class"
            raise DataError(f"{name[:200]!a} lies in no {needed}; {WHERE}")
        place, deeper = tuple(folders[:levels]), "/".join(folders[levels:])
        if inside.setdefault(place, deeper) != deeper:
            why = (
                "a class is one folder; write client_folders: true if the folders above are clients"
            )
            raise DataError(f"{'/'.join(place)[:100]!a} holds images in several folders: {why}")
        images.append(Image(name, path, folders[levels - 1], folders[0]))
    if not images:
        raise DataError(f"no images{f' in {top[:60]!a}' if top else ''}; {WHERE}")
    return images


def _ids(images: list[Image]) -> np.ndarray:
    return ids([image.client for image in images], range(len(images)), 0, Faults("row", ["client"]))
