"""MedMNIST: medical images, each set in a NumPy archive."""

import math
from typing import Literal

import numpy as np

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.sources.archive import arrays_in
from fedsim.sources.arrays import Arrays
from fedsim.sources.files import Name, opened
from fedsim.sources.pictures import SCALE, labelled

SPLITS = ("train", "val", "test")
MEMBERS = tuple(f"{split}_{content}" for split in SPLITS for content in ("images", "labels"))
WHERE = (
    "MedMNIST's files (pathmnist.npz, ...) are at zenodo.org/records/10519652; "
    "put one next to the scenario"
)


@dataset
def medmnist(
    path: Name, val: Literal["train", "drop"] = "train", sha256: str | None = None
) -> Arrays:
    """A MedMNIST set: images `[28, 28, 1]` or `[28, 28, 3]` (or larger) with one label each.

    Images are 28, 64, 128 or 224 pixels wide; pixels are bytes, divided by 255. The archive has
    `train_images [n, 28, 28]` or `[n, 28, 28, 3]`, `train_labels [n, 1]`, and likewise for `val`
    and `test`; the test images are the test set. Volumes (`[n, 28, 28, 28]`) are read as images
    whose channels are the last axis. ChestMNIST, with 14 labels for each image, is refused. The
    archive holds no names of classes.

    Args:
      path: the file, in the scenario's folder, the working directory or a `--data-root`.
      val: whether validation images join the training images, or are left out.
      sha256: the file's hash; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: for another file, or one that lies about sizes.

    References:
      Yang et al. 2023, MedMNIST v2, Scientific Data 10:41, arXiv:2110.14795.
    """
    with opened(path, sha256, math.inf) as file:
        arrays = arrays_in(file, MEMBERS)
        pairs = {}
        for split in SPLITS:
            if split == "train" or f"{split}_images" in arrays:
                pairs[split] = _pair(arrays, split)
        if val == "drop":
            pairs.pop("val", None)

        shapes = {images.shape[1:] for images, _ in pairs.values()}
        if len(shapes) > 1:
            raise DataError(f"images of several shapes: {', '.join(map(str, sorted(shapes)))}")

        x, y = pairs["train"]
        if "val" in pairs:
            x_val, y_val = pairs["val"]
            x = np.concatenate([x, x_val])
            y = np.concatenate([y, y_val])
        x_test, y_test = pairs.get("test", (None, None))
        return Arrays(x, y, x_test=x_test, y_test=y_test, scale=SCALE)


def _pair(arrays: dict[str, np.ndarray], split: str) -> tuple[np.ndarray, np.ndarray]:
    """The images `[n, height, width, channels]` and labels `[n]` of a split."""
    for name in (f"{split}_images", f"{split}_labels"):
        if name not in arrays:
            raise DataError(f"no array '{name}'; {WHERE}")

    images = arrays[f"{split}_images"]
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise DataError(
            f"{split}_images: expected bytes [n, height, width], "
            f"found {images.dtype} {images.shape}"
        )
    labels = arrays[f"{split}_labels"]
    remedy = ""
    if labels.ndim == 2 and labels.shape[1] > 1:
        remedy = ": several labels for each image (ChestMNIST), but classification needs one"
    return labelled(images, labels, (f"{split}_images", f"{split}_labels"), remedy)
