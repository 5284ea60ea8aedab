"""Images in a folder for each class, as torchvision's ImageFolder and similar readers expect."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays, with_test_set
from fedsim.sources.files import Name
from fedsim.sources.folders import folder_files
from fedsim.sources.ids import sortable
from fedsim.sources.pictures import SCALE, SUFFIXES, Channels, Size, decoded

TEST_FOLDERS = ("test", "val", "validation")
HIDDEN = ("Thumbs.db", "desktop.ini")  # besides names that begin with a dot
WHERE = "put images at CLASS/IMAGE.png, or at train/CLASS/IMAGE.png and test/CLASS/IMAGE.png"

# Suffixes of files that describe images.
DESCRIPTIONS = (".csv", ".html", ".json", ".md", ".mat", ".txt", ".xml", ".yaml", ".yml")


class Image(NamedTuple):
    """An image: its name relative to the folder, its file, and the names of its folders."""

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
    """Images in a folder for each class: `CLASS/IMAGE.png`, or `train/CLASS/…` and `test/CLASS/…`.

    Classes are numbered in the order of their sorted names, as in torchvision; images are sorted by
    name. PNG, JPEG, BMP, GIF, PPM, TIFF and WebP are recognised by their content, whatever the
    suffix, and keep the orientation they are stored in; names that begin with a dot are ignored,
    and so are text files next to images. Pixels are kept as bytes, divided by 255.

    Args:
      path: the folder, in the scenario's folder, the working directory or a `--data-root`.
      size: `[height, width]` that images are resized to (bilinear); needed where they differ.
      channels: 1: grey; 3: colour; left out: 1 where all are grey. Transparency is ignored.
      client_folders: whether folders of clients contain those of classes, `CLIENT/CLASS/IMAGE.png`:
        the natural partition.
      split: the folder of the training images, if it exists; else the folder itself holds the
        classes.
      test_split: the folder of the test images next to it; left out: `test`, else `val`, else
        `validation`, if it exists.
      sha256: the common hash of all files; others are refused (filled in by the resolved scenario).

    Raises:
      DataError: naming unsound images, and sizes that differ.
    """
    with folder_files(path, sha256) as files:
        visible = {name: file for name, file in files.items() if not _is_hidden(name)}
        top_folders = {name.partition("/")[0] for name in visible if "/" in name}
        has_splits = split in top_folders
        if split != "train" or test_split:
            _require_folder("split", split, top_folders)
        if test_split is not None:
            _require_folder("test_split", test_split, top_folders)

        if not has_splits:
            split = ""
        elif test_split is None:
            test_split = next((name for name in TEST_FOLDERS if name in top_folders), None)
        train = _images(visible, split, client_folders)
        test = []
        if test_split:
            test = _images(visible, test_split, client_folders)
        classes = sorted({image.label for image in train})
        _require_known_classes(test, classes)

        images = [*train, *test]
        x = decoded(lambda: [(image.name, image.path) for image in images], size, channels)
        y = np.searchsorted(np.array(classes), [image.label for image in images])
        arrays = Arrays(x, y, scale=SCALE, labels=classes)
        if client_folders:
            arrays = arrays._replace(client=sortable([image.client for image in images]))
        if test:
            arrays = with_test_set(arrays, len(train))
        return arrays


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") or part in HIDDEN for part in PurePosixPath(name).parts)


def _require_folder(key: str, name: str, folders: set[str]) -> None:
    if name not in folders:
        listed = ", ".join(sorted(folders))[:120] or "none"
        raise DataError(f"{key}: no folder {name[:60]!a}; there are {listed}")


def _require_known_classes(test: Iterable[Image], classes: list[str]) -> None:
    for image in test:
        if image.label not in classes:
            label = image.label[:60]
            raise DataError(f"{image.name}: no class {label!a} among the training images")


def _images(files: dict[str, Path], split: str, client_folders: bool) -> list[Image]:
    """The images of a split, with their classes and clients; without a split, of all files."""
    levels = 2 if client_folders else 1
    images = []
    image_folders: dict[tuple[str, ...], str] = {}  # class -> its one subfolder that holds images
    for name, path in files.items():
        parts = name.split("/")
        if split:
            if parts[0] != split:
                continue
            parts = parts[1:]
        *folders, file = parts

        suffix = PurePosixPath(file).suffix.lower()
        is_image = suffix in SUFFIXES
        if suffix in DESCRIPTIONS or (not folders and not is_image):
            continue
        if not is_image:
            suffixes = ", ".join(SUFFIXES)
            raise DataError(f"{name[:200]!a} is not an image: its suffix is none of {suffixes}")
        if len(folders) < levels:
            needed = "a class folder"
            if client_folders:
                needed = "the folders of a client and of a class"
            raise DataError(f"{name[:200]!a} is not in {needed}; {WHERE}")

        class_folder = tuple(folders[:levels])
        subfolder = "/".join(folders[levels:])
        if image_folders.setdefault(class_folder, subfolder) != subfolder:
            folder = "/".join(class_folder)[:100]
            raise DataError(
                f"{folder!a} holds images in several folders: a class is one folder; "
                "write client_folders: true if the folders above are clients"
            )
        images.append(Image(name, path, label=folders[levels - 1], client=folders[0]))
    if not images:
        where = f" in {split[:60]!a}" if split else ""
        raise DataError(f"no images{where}; {WHERE}")
    return images
