"""The JSON files of LEAF: FEMNIST, Shakespeare, Sent140, CelebA, synthetic data, and the like."""

from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.files import Name
from fedsim.sources.folders import folder_files
from fedsim.sources.leaf_files import WHERE as WHERE
from fedsim.sources.leaf_files import SplitRows, files_by_split, read_split
from fedsim.sources.pictures import SCALE, SUFFIXES, Channels, Size, alike, decoded
from fedsim.sources.tokens import (
    SPECIAL,
    UNKNOWN,
    Length,
    encode,
    left_padded,
    letter_table,
    most_frequent,
    require_memory_for,
    words_of,
)

# LEAF's ALL_LETTERS; as there, any other character counts as the last one.
LETTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
OTHER_LETTER = len(LETTERS) - 1
PIXELS = 784  # of FEMNIST's images, 28 × 28
TWEET = 4  # the index of the text in a row of Sent140


@dataset
def leaf(
    path: Name,
    length: Length = 25,
    vocabulary: Annotated[int, Ge(3)] = 10_000,
    images: Name | None = None,
    size: Size = None,
    channels: Channels = None,
    sha256: str | None = None,
) -> Arrays:
    """A LEAF data set: JSON with `users`, `num_samples` and `user_data`; every user is a client.

    The rows of x decide how they are read. 784 numbers: an image of FEMNIST, `[28, 28, 1]` (bytes
    if all are whole multiples of 1/255); other numbers: features. A text: Shakespeare's characters,
    of LEAF's alphabet of 80 (others count as its last one, as there), y is the next character. A
    list of texts: Sent140, whose fifth is the tweet: words in lower case, padded in front to
    `length`; the vocabulary is padding (0), unknown words (1), and then the most frequent words of
    the training samples, ties in sorted order; y is 0 or 1 (4 counts as 1). The name of an image:
    CelebA.

    If the folder has `train` and `test` (or `data/train`, `data/test`), every user's test samples
    belong to that client (`global_accuracy` in `clients.csv`), and those of all users are the test
    set.

    Args:
      path: the folder, in the scenario's folder, the working directory or a `--data-root`.
      length: the number of words of a tweet that count.
      vocabulary: the number of Sent140's tokens.
      images: the folder below `path` that holds CelebA's images.
      size: `[height, width]` that images are resized to (LEAF: `[84, 84]`); needed where they
        differ.
      channels: the channels of images, as in `imagefolder`.
      sha256: the common hash of all files; others are refused (filled in by the resolved scenario).

    Raises:
      DataError: naming file and user, for files that contradict themselves; for a folder without
        such files.

    References:
      Caldas et al. 2018, LEAF: A Benchmark for Federated Settings, arXiv:1812.01097.
    """
    with folder_files(path, sha256) as files:
        splits = files_by_split(files)
        rows = {split: read_split(split_files) for split, split_files in splits.items()}
        arrays = Arrays(**_arrays(rows, length, vocabulary))
        if arrays.x.dtype.kind == "U":
            return _with_images(arrays, files, images or ".", size, channels)
        return arrays


def _arrays(splits: dict[str, SplitRows], length: int, vocabulary: int) -> dict[str, Any]:
    """The arrays of `train` and `test`, if it exists, by the names of `Arrays`.

    The names of images stay in place of the images.
    """
    train = splits["train"]
    test = splits.get("test")
    arrays: dict[str, Any] = {"y": _labels(train.y), "client": train.user}
    rows = {"x": train.x}
    if test is not None:
        rows["x_test"] = test.x
        arrays["y_test"] = _labels(test.y)
        arrays["client_test"] = test.user
        if (train.x.dtype == object) != (test.x.dtype == object):
            raise DataError("x is numbers in one of train and test, and text in the other")

    if train.x.dtype != object:
        return arrays | _numbers(rows)
    if not isinstance(train.x[0], str):
        return arrays | _tweets(rows, length, vocabulary)
    if train.x[0].lower().endswith(SUFFIXES):
        return arrays | {name: x.astype(str) for name, x in rows.items()}
    labels = {name: arrays[name] for name in ("y", "y_test") if name in arrays}
    return arrays | _characters(rows, labels)


def _labels(y: np.ndarray) -> np.ndarray:
    """Labels as they are; those of Sent140, 0 and 4, as 0 and 1."""
    if y.dtype.kind == "U" and np.char.isdigit(y).all():
        y = y.astype(np.int64)
    if y.dtype.kind not in "iu" or not y.size:
        return y
    is_sent140 = set(np.unique(y).tolist()) <= {0, 4} and y.max() == 4
    return y // 4 if is_sent140 else y


def _numbers(rows: dict[str, np.ndarray]) -> dict[str, Any]:
    """Features `[n, F]`, or FEMNIST's images `[n, 28, 28, 1]`."""
    arrays: dict[str, Any] = dict(zip(rows, alike(list(rows.values())), strict=True))
    if arrays["x"].shape[1] == PIXELS:
        arrays = {name: x.reshape(-1, 28, 28, 1) for name, x in arrays.items()}
    if arrays["x"].dtype == np.uint8:
        arrays["scale"] = SCALE
    return arrays


def _characters(rows: dict[str, np.ndarray], labels: dict[str, np.ndarray]) -> dict[str, Any]:
    """Shakespeare's texts as codes of their characters `[n, T]`, and labels as codes `[n]`."""
    arrays: dict[str, Any] = {
        "vocabulary": len(LETTERS),
        "labels": list(LETTERS),
    }
    codes = {letter: code for code, letter in enumerate(LETTERS)}
    for name, y in labels.items():
        arrays[name] = np.array(encode(y.tolist(), codes, OTHER_LETTER))

    table = letter_table(LETTERS, 0, OTHER_LETTER)
    for name, x in rows.items():
        texts = x.tolist()
        widths = {len(text) if isinstance(text, str) else 0 for text in texts}
        if len(widths) > 1 or 0 in widths:
            lengths = f"{min(widths)} to {max(widths)} characters"
            raise DataError(f"x has texts of {lengths}; LEAF's have 80")
        (width,) = widths
        code_points = np.array(texts, f"<U{width}").view(np.uint32).reshape(-1, width)
        arrays[name] = table[code_points]
    return arrays


def _tweets(rows: dict[str, np.ndarray], length: int, vocabulary: int) -> dict[str, Any]:
    """Sent140's tweets as codes of their words `[n, length]`."""
    train_words = [words_of(_tweet(row)) for row in rows["x"]]
    require_memory_for(sum(len(x) for x in rows.values()), length)
    names = [*SPECIAL, *most_frequent(train_words, vocabulary - len(SPECIAL))]
    codes = {name: code for code, name in enumerate(names)}

    arrays: dict[str, Any] = {"vocabulary": len(names)}
    for name, x in rows.items():
        encoded = []
        for row in x.tolist():
            words = words_of(_tweet(row))
            encoded.append(left_padded(encode(words, codes, UNKNOWN), length))
        arrays[name] = np.stack(encoded)
    return arrays


def _tweet(row: Any) -> str:
    if not isinstance(row, list) or len(row) <= TWEET or not isinstance(row[TWEET], str):
        raise DataError(
            f"x: expected a list of texts whose fifth is the tweet, found {str(row)[:60]!a}"
        )
    return row[TWEET]


def _with_images(
    arrays: Arrays,
    files: dict[str, Path],
    folder: str,
    size: list[int] | None,
    channels: Literal[1, 3] | None,
) -> Arrays:
    """Replace the names of images by the images, which are below a subfolder."""
    image_files = {}
    for name, path in files.items():
        if name.lower().endswith(SUFFIXES) and PurePosixPath(name).is_relative_to(folder):
            image_files[PurePosixPath(name).name] = path

    paths = arrays.x.tolist()
    if arrays.x_test is not None:
        paths += arrays.x_test.tolist()
    names = [PurePosixPath(path).name for path in paths]
    missing = [name for name in names if name not in image_files]
    if missing:
        remedy = "put them into a folder next to train and test, and name it with `images`"
        raise DataError(f"no image {missing[0][:60]!a} ({len(missing)} missing); {remedy}")

    x = decoded(lambda: ((name, image_files[name]) for name in names), size, channels)
    n = len(arrays.y)
    x_test = None if arrays.x_test is None else x[n:]
    return arrays._replace(x=x[:n], x_test=x_test, scale=SCALE)
