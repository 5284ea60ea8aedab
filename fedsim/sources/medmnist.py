"""MedMNIST: medical images in one NumPy archive for each set."""

import math
from typing import Literal

import numpy as np

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.sources.archive import arrays_in
from fedsim.sources.arrays import Arrays
from fedsim.sources.files import Name, opened
from fedsim.sources.pictures import SCALE

PARTS = ("train", "val", "test")
MEMBERS = tuple(f"{part}_{content}" for part in PARTS for content in ("images", "labels"))
WHERE = "MedMNIST's files (pathmnist.npz, ...) are at zenodo.org/records/10519652; put one beside the scenario"


@dataset
def medmnist(
    path: Name, val: Literal["train", "drop"] = "train", sha256: str | None = None
) -> Arrays:
    """A set of MedMNIST: bytes `[28, 28, 1]` or `[28, 28, 3]` (or 64, 128, 224 wide), pixels over 255, one label each.

    The archive has `train_images [n, 28, 28]` or `[n, 28, 28, 3]`, `train_labels [n, 1]`, and the same of `val` and `test`;
    test images are the test set. Sets of volumes (`[n, 28, 28, 28]`) are read as images whose channels are the last axis.
    ChestMNIST, with 14 labels for each image, is refused. The archive holds no names of classes.

    Args:
      path: of the file, from the scenario's folder, the working directory or a `--data-root`.
      val: whether validation images join the training images, or are left out.
      sha256: of the file; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: for another file, or one that lies about sizes.

    References:
      Yang et al. 2023, MedMNIST v2, Scientific Data 10:41, arXiv:2110.14795.
    """
    with opened(path, sha256, math.inf) as file:
        arrays = arrays_in(file, MEMBERS, needed=())
        pairs = {
            part: _pair(arrays, part)
            for part in PARTS
            if f"{part}_images" in arrays or part == "train"
        }
        if val == "drop":
            pairs.pop("val", None)
        sides = {x.shape[1:] for x, _ in pairs.values()}
        if len(sides) > 1:
            raise DataError(f"images of several shapes: {', '.join(map(str, sorted(sides)))}")
        x, y = pairs["train"]
        if "val" in pairs:
            x, y = (
                np.concatenate([ours, more])
                for ours, more in zip((x, y), pairs["val"], strict=True)
            )
        x_test, y_test = pairs.get("test", (None, None))
        return Arrays(x, y, x_test=x_test, y_test=y_test, scale=SCALE)


def _pair(arrays: dict[str, np.ndarray], part: str) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a part of the archive."""
    for name in (f"{part}_images", f"{part}_labels"):
        if name not in arrays:
            raise DataError(f"no array '{name}'; {WHERE}")
    images, labels = arrays[f"{part}_images"], arrays[f"{part}_labels"]
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise DataError(
            f"{part}_images: bytes [n, height, width] are needed, found {images.dtype} {images.shape}"
        )
    if labels.dtype.kind not in "iu" or labels.shape[1:] not in ((), (1,)):
        several = labels.ndim == 2 and labels.shape[1] > 1
        why = (
            ": several labels for each image (ChestMNIST), and classification takes one"
            if several
            else ""
        )
        raise DataError(
            f"{part}_labels: integers [n, 1] are needed, found {labels.dtype} {labels.shape}{why}"
        )
    if len(images) != len(labels):
        raise DataError(f"{len(images)} {part}_images and {len(labels)} {part}_labels")
    return images[..., None] if images.ndim == 3 else images, labels.reshape(-1).astype(np.int64)
