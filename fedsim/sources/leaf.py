"""The JSON files of LEAF: FEMNIST, Shakespeare, Sent140, CelebA, synthetic data, and whatever is written like them."""

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.cache import Made, cached
from fedsim.sources.files import Name
from fedsim.sources.folders import folder_files, sha256_of_files
from fedsim.sources.leaf_files import WHERE as WHERE
from fedsim.sources.leaf_files import Part, files_of, part_of
from fedsim.sources.pictures import SCALE, SUFFIXES, Channels, Size, decoded
from fedsim.sources.tokens import (
    SPECIAL,
    UNKNOWN,
    Length,
    filled,
    most_frequent,
    numbered,
    require_room,
    words_of,
)

LETTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"  # LEAF's ALL_LETTERS
PIXELS = 784  # of FEMNIST's images, 28 × 28
TEXT_PLACE = 4  # of the text in a row of Sent140
Parser = Callable[[list[Any]], np.ndarray]


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
    """A data set of LEAF as its scripts write it: JSON with `users`, `num_samples` and `user_data`; every user is a client.

    What a row of x is tells how it is read. 784 numbers: an image of FEMNIST, `[28, 28, 1]` (bytes where all are whole
    multiples of 1/255); other numbers: features. A text: Shakespeare's characters, of LEAF's alphabet of 80 (others count
    as its last one, as there), y the character that follows. A list of texts: Sent140, whose fifth is the tweet: words in
    lower case, padded in front to `length`; the vocabulary are the most frequent words of the training samples, ties in
    their order, behind padding (0) and unknown words (1); y is 0 or 1 (4 counts as 1). The name of an image: CelebA.

    Where the folder has `train` and `test` (or `data/train`, `data/test`), every user's test samples are its own
    (`global_accuracy` in `clients.csv`), and those of all are the test set. What was read is kept in the user's cache
    folder, under the SHA-256 of the files, and large arrays stay there, read when a round needs them.

    Args:
      path: of the folder, from the scenario's folder, the working directory or a `--data-root`.
      length: words of a tweet that count.
      vocabulary: tokens of Sent140 in all.
      images: folder below `path` that holds CelebA's images.
      size: `[height, width]` that they are resized to (LEAF: `[84, 84]`); needed where they differ.
      channels: of them; as in `imagefolder`.
      sha256: of all files together; others are refused (filled in by the resolved scenario).

    Raises:
      DataError: for a folder without such files, or files that contradict themselves, naming file and user.

    References:
      Caldas et al. 2018, LEAF: A Benchmark for Federated Settings, arXiv:1812.01097.
    """
    with folder_files(path, sha256) as files:
        parts = files_of(files)
        known = {name: file for part in parts.values() for name, file in part.items()}
        key = f"leaf-{sha256_of_files(known)}-{length}-{vocabulary}"
        made = cached(
            key,
            lambda: _arrays(
                {name: part_of(part) for name, part in parts.items()}, length, vocabulary
            ),
        )
        arrays = _given(made)
        return (
            _with_images(arrays, files, images or ".", size, channels)
            if arrays.x.dtype.kind == "U"
            else arrays
        )


def _arrays(read: dict[str, Part], length: int, vocabulary: int) -> Made:
    """The arrays of the parts `train` and, where it is there, `test`, by the names of `Arrays`; names of images as they are."""
    train, test = read["train"], read.get("test")
    made: Made = {"y": _labels(train.y), "client": train.user}
    parts = {"x": train}
    if test is not None:
        parts["x_test"] = test
        made |= {"y_test": _labels(test.y), "client_test": test.user}
    if train.x.dtype != object:
        kinds = {part.x.dtype for part in parts.values()}
        for name, part in parts.items():
            x = part.x * SCALE if len(kinds) > 1 and part.x.dtype == np.uint8 else part.x
            made[name] = x.reshape(-1, 28, 28, 1) if x.shape[1] == PIXELS else x
        return made | ({"scale": np.array(SCALE)} if made["x"].dtype == np.uint8 else {})
    if isinstance(train.x[0], str) and train.x[0].lower().endswith(SUFFIXES):
        return made | {name: part.x.astype(str) for name, part in parts.items()}
    if isinstance(train.x[0], str):
        codes = {letter: code for code, letter in enumerate(LETTERS)}
        encode: Parser = lambda rows: _characters(rows, codes)
        labels = tuple(LETTERS)
        made |= {"vocabulary": np.array(len(LETTERS)), "labels": np.array(labels)}
        for name in [name for name in ("y", "y_test") if name in made]:
            made[name] = np.array(numbered(made[name].tolist(), codes, len(LETTERS) - 1))
    else:
        texts = [words_of(_tweet(row)) for row in train.x]
        require_room(sum(len(part.x) for part in parts.values()), length)
        words = [*SPECIAL, *most_frequent(texts, vocabulary - len(SPECIAL))]
        known = {word: code for code, word in enumerate(words)}
        encode = lambda rows: np.stack(
            [filled(numbered(words_of(_tweet(row)), known, UNKNOWN), length) for row in rows]
        )
        made["vocabulary"] = np.array(len(words))
    return made | {name: encode(list(part.x)) for name, part in parts.items()}


def _given(made: Made) -> Arrays:
    fields: dict[str, Any] = dict(made)
    for name, kind in (("scale", float), ("vocabulary", int)):
        if name in fields:
            fields[name] = kind(fields[name])
    if "labels" in fields:
        fields["labels"] = fields["labels"].tolist()
    return Arrays(**fields)


def _labels(y: np.ndarray) -> np.ndarray:
    """Labels as they are; those of Sent140, 0 and 4, as 0 and 1."""
    if y.dtype.kind == "U" and np.char.isdigit(y).all():
        y = y.astype(np.int64)
    return (
        y // 4
        if y.dtype.kind in "iu" and y.size and set(np.unique(y).tolist()) <= {0, 4} and y.max() == 4
        else y
    )


def _characters(rows: list[str], codes: dict[str, int]) -> np.ndarray:
    widths = {len(row) if isinstance(row, str) else 0 for row in rows}
    if len(widths) > 1 or 0 in widths:
        raise DataError(f"x has texts of {min(widths)} to {max(widths)} characters; LEAF's have 80")
    table = np.full(0x110000, len(LETTERS) - 1, np.int32)
    table[[ord(letter) for letter in codes]] = list(codes.values())
    (width,) = widths
    return table[np.array(rows, f"<U{width}").view(np.uint32).reshape(-1, width)]


def _tweet(row: Any) -> str:
    if not isinstance(row, list) or len(row) <= TEXT_PLACE or not isinstance(row[TEXT_PLACE], str):
        raise DataError(
            f"x: a list of texts with the tweet as its fifth is needed, found {str(row)[:60]!a}"
        )
    return row[TEXT_PLACE]


def _with_images(
    arrays: Arrays,
    files: dict[str, Path],
    folder: str,
    size: list[int] | None,
    channels: Literal[1, 3] | None,
) -> Arrays:
    """Names of images replaced by what is in them.

    Raises:
      DataError: for images that are not there, or are none.
    """
    places = {
        PurePosixPath(name): path for name, path in files.items() if name.lower().endswith(SUFFIXES)
    }
    known = {
        name.name: path
        for name, path in places.items()
        if name.is_relative_to(PurePosixPath(folder))
    }
    named = [*arrays.x.tolist(), *([] if arrays.x_test is None else arrays.x_test.tolist())]
    names = [PurePosixPath(name).name for name in named]
    if missing := [name for name in names if name not in known]:
        text = f"no image {missing[0][:60]!a}, nor {len(missing) - 1} others"
        raise DataError(
            f"{text}; put them into a folder beside train and test, and name it with `images`"
        )
    x, n = decoded(lambda: ((name, known[name]) for name in names), size, channels), len(arrays.y)
    return arrays._replace(x=x[:n], x_test=None if arrays.x_test is None else x[n:], scale=SCALE)
