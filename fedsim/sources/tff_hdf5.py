"""Data sets as TensorFlow Federated distributes them: EMNIST, CIFAR-100, Shakespeare, Stack Overflow."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import Ge

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.limits import require_memory
from fedsim.sources.arrays import Arrays
from fedsim.sources.cache import Made, cached
from fedsim.sources.files import Name, opened
from fedsim.sources.folders import chosen_split, folder_files, sha256_of_files
from fedsim.sources.hdf5_files import Examples, examples
from fedsim.sources.pictures import SCALE, as_bytes
from fedsim.sources.tokens import (
    BEGIN,
    END,
    SPECIAL,
    Length,
    letter_codes,
    letter_table,
    most_frequent,
    next_tokens,
    numbered,
    require_room,
)

LETTERS = "dhlptx@DHLPTX $(,048cgkoswCGKOSW[_#'/37;?bfjnrvzBFJNRVZ\"&*.26:\naeimquyAEIMQUY]!%)-159\r"  # of its tutorial
FILE = re.compile(r"(?P<split>[\w-]+)_(?P<part>train|test)\.(h5|hdf5)")
LENGTHS = {"snippets": 80, "tokens": 20}
WHERE = (
    "the files are fed_emnist_train.h5 and fed_emnist_test.h5 (fed_emnist_digitsonly, fed_cifar100, shakespeare, "
    "stackoverflow alike), from storage.googleapis.com/tff-datasets-public/fed_emnist.tar.bz2"
)


@dataset
def tff_hdf5(
    path: Name,
    split: str | None = None,
    coarse: bool = False,
    length: Length | None = None,
    vocabulary: Annotated[int, Ge(1)] = 10_000,
    first_clients: Annotated[int, Ge(1)] | None = None,
    first_samples: Annotated[int, Ge(1)] | None = None,
    sha256: str | None = None,
) -> Arrays:
    """EMNIST, CIFAR-100, Shakespeare or Stack Overflow in the HDF5 files of TensorFlow Federated; clients keep their ids.

    What a client's examples consist of tells which set it is.

    - `pixels`, `label`: EMNIST, images `[28, 28, 1]` with the values of the file: 1 is background, 0 ink, unlike in MNIST.
    - `image`, `label`, `coarse_label`: CIFAR-100, bytes `[32, 32, 3]`, pixels over 255.
    - `snippets`: Shakespeare, the characters of TensorFlow Federated's tutorial as tokens 1 to 86; 0 is padding, 87 another
      character, 88 the beginning and 89 the end of a snippet. A snippet is cut into runs of `length` + 1 tokens, x is a run
      without its last token, y without its first.
    - `tokens`: Stack Overflow, a sentence per sample: its first `length` words; the `vocabulary` most frequent words of the
      training samples, ties in their order, are the tokens from 1 on; 0 is padding, the three behind the words are another
      word, the beginning and the end of a sentence. x begins with the beginning; y is the next token at every place.

    y is −1 behind the end of a text; such places count nowhere. A folder has a file for training and perhaps one for the
    test set, in which every client's samples are its own (`global_accuracy` in `clients.csv`); a file alone is for training.
    What was read is kept in the user's cache folder, under the SHA-256 of the files. Needs h5py: `pip install
    'fedsim-jax[hdf5]'`. Links to elsewhere, data in other files, and promises of more than the file can hold are refused.

    Args:
      path: of the folder or file, from the scenario's folder, the working directory or a `--data-root`.
      split: what stands in front of `_train.h5`, where a folder holds several sets.
      coarse: whether labels of CIFAR-100 are the 20 superclasses.
      length: of a sequence; left out: 80 characters, 20 words.
      vocabulary: words of Stack Overflow that have a token of their own.
      first_clients: only so many clients of each file, the first ones by their ids.
      first_samples: only so many samples of each client, the first ones (of Shakespeare, snippets).
      sha256: of the file, or of all files of the folder together; others are refused (filled in by the resolved scenario).

    Raises:
      DataError: for other files, naming file and client.

    References:
      Reddi et al. 2021, Adaptive Federated Optimization, arXiv:2003.00295 (all four, and what models are given of them).
    """
    with _files(path, split, sha256) as files:
        known = [coarse, length, vocabulary, first_clients, first_samples]
        key = f"tff_hdf5-{sha256_of_files(files)}-{'-'.join(map(str, known))}"
        read = partial(_made, files, coarse, length, vocabulary, first_clients, first_samples)
        fields: dict[str, Any] = dict(cached(key, read))
        for name in ("scale", "vocabulary"):
            if name in fields:
                fields[name] = fields[name].item()
        return Arrays(
            **{**fields, "labels": fields["labels"].tolist() if "labels" in fields else None}
        )


@contextmanager
def _files(path: str, split: str | None, sha256: str | None) -> Iterator[dict[str, Path]]:
    """`train` and, where it is there, `test` -> the file."""
    if not os.path.isdir(path):
        with opened(path, sha256, float("inf")):
            pass
        yield {"train": Path(path)}
        return
    with folder_files(path, sha256) as files:
        matches = [(match, file) for name, file in files.items() if (match := FILE.fullmatch(name))]
        splits = sorted({match["split"] for match, _ in matches if match["part"] == "train"})
        if not splits:
            raise DataError(f"no such files; {WHERE}")
        chosen = chosen_split(splits, split)
        yield {match["part"]: file for match, file in matches if match["split"] == chosen}


class Rows(NamedTuple):
    """One client's samples."""

    x: np.ndarray
    y: np.ndarray


Reader = Callable[..., Rows]  # (client, a field, another one ...)


def _made(
    files: dict[str, Path],
    coarse: bool,
    length: int | None,
    vocabulary: int,
    first_clients: int | None,
    first_samples: int | None,
) -> Made:
    """The arrays of the parts, by the names of `Arrays`."""
    with examples(files["train"]) as file:
        kind = _kind(file)
        if kind == "tokens":
            known = most_frequent(_sentences(file, first_clients, first_samples), vocabulary)
            letters = [SPECIAL[0], *known, SPECIAL[1], BEGIN, END]
            codes = {word: code for code, word in enumerate(known, 1)}
            fields = (kind,)
            read = partial(_next_words, codes, length or LENGTHS[kind], first_samples)
        elif kind == "snippets":
            letters = [SPECIAL[0], *LETTERS, SPECIAL[1], BEGIN, END]
            table = letter_table(LETTERS, 1, len(LETTERS) + 1)
            fields = (kind,)
            read = partial(_next_letters, table, length or LENGTHS[kind], first_samples)
        else:
            letters = []
            fields = (kind, "coarse_label" if coarse else "label")
            read = partial(_images, kind, first_samples)
        made: Made = _part(file, fields, read, first_clients, ("x", "y", "client"))
    if "test" in files:
        with examples(files["test"]) as file:
            made |= _part(file, fields, read, first_clients, ("x_test", "y_test", "client_test"))
        if made["x"].dtype != made["x_test"].dtype:
            made |= {name: _values(made[name]) for name in ("x", "x_test")}
    if letters:
        return made | {"vocabulary": np.array(len(letters)), "labels": np.array(letters)}
    return made | ({"scale": np.array(SCALE)} if made["x"].dtype == np.uint8 else {})


def _kind(file: Examples) -> str:
    """The field that tells which set a file is of."""
    if not file.clients:
        raise DataError(f"no clients; {WHERE}")
    fields = file.fields(file.clients[0])
    kind = next(
        (kind for kind in ("pixels", "image", "snippets", "tokens") if kind in fields), None
    )
    if kind is None:
        listed = ", ".join(ascii(field[:40]) for field in fields[:6])
        raise DataError(
            f"examples of {listed or 'nothing'}; needed are pixels, image, snippets or tokens: {WHERE}"
        )
    return kind


def _part(
    file: Examples,
    fields: tuple[str, ...],
    read: Reader,
    first_clients: int | None,
    names: tuple[str, str, str],
) -> Made:
    """All samples of a file: x, y, and whose they are."""
    clients = file.clients[:first_clients]
    parts: list[Rows] = []
    size = 0
    for client, values in zip(clients, file.read(fields, first_clients), strict=True):
        parts.append(read(client, *values))
        size += parts[-1].x.nbytes + parts[-1].y.nbytes
        require_memory(samples=2 * size)  # with the copy that joins them
    sizes = [len(part.y) for part in parts]
    if not sum(sizes):
        raise DataError("no samples")
    xs = [part.x for part in parts if len(part.y)]
    if len({x.dtype for x in xs}) > 1:
        xs = [_values(x) for x in xs]
    shapes = sorted({x.shape[1:] for x in xs})
    if len(shapes) > 1:
        raise DataError(f"samples of different shapes: {', '.join(map(str, shapes[:3]))}")
    y = np.concatenate([part.y for part in parts if len(part.y)])
    return dict(
        zip(names, (np.concatenate(xs), y, np.repeat(np.array(clients), sizes)), strict=True)
    )


def _values(x: np.ndarray) -> np.ndarray:
    """Images as numbers, where bytes stand for some."""
    return (x * SCALE).astype(np.float32) if x.dtype == np.uint8 else x


def _images(kind: str, first: int | None, client: str, x: np.ndarray, y: np.ndarray) -> Rows:
    """Images of one client; bytes where all pixels are whole multiples of 1/255."""
    x, y = x[:first], y[:first]
    if len(x) != len(y) or y.ndim != 1 or y.dtype.kind not in "iu":
        raise DataError(
            f"client {client!a}: a whole number is needed for each of {len(x)} images, found {y.dtype} {y.shape}"
        )
    shape = {"pixels": (28, 28), "image": (32, 32, 3)}[kind]
    if x.shape[1:] != shape or x.dtype.kind not in "fu":
        raise DataError(
            f"client {client!a}: {kind} of shape {shape} are needed, found {x.dtype} {x.shape[1:]}"
        )
    x = x if x.dtype == np.uint8 else as_bytes(x)
    return Rows(x[..., None] if kind == "pixels" else x, y.astype(np.int64))


def _texts(field: str, first: int | None, client: str, texts: np.ndarray) -> list[bytes]:
    texts = texts[:first]
    if texts.ndim != 1 or texts.dtype.kind not in "OS":
        raise DataError(f"client {client!a}: {field} are texts, found {texts.dtype} {texts.shape}")
    return texts.tolist()


def _sentences(
    file: Examples, first_clients: int | None, first_samples: int | None
) -> Iterable[list[str]]:
    """Words of all sentences."""
    for client, (texts,) in zip(file.clients, file.read(("tokens",), first_clients), strict=False):
        for sentence in _texts("tokens", first_samples, client, texts):
            yield _words(sentence)


def _words(sentence: bytes) -> list[str]:
    return [word for word in sentence.decode("utf-8", "replace").split(" ") if word]


def _next_words(
    codes: dict[str, int],
    length: int,
    first: int | None,
    client: str,
    texts: np.ndarray,
) -> Rows:
    """Sentences of one client, one a sample, with the next word at every place."""
    unknown, begin, end = range(len(codes) + 1, len(codes) + 4)
    sentences = _texts("tokens", first, client, texts)
    require_room(len(sentences), length)
    rows = []
    for sentence in sentences:
        words = numbered(_words(sentence)[:length], codes, unknown)
        rows.append(next_tokens([begin, *words, *([end] if len(words) < length else [])], length))
    return _stacked(rows, length)


def _next_letters(
    table: np.ndarray,
    length: int,
    first: int | None,
    client: str,
    texts: np.ndarray,
) -> Rows:
    """Snippets of one client, cut into sequences, with the next character at every place."""
    begin, end = len(LETTERS) + 2, len(LETTERS) + 3
    snippets = _texts("snippets", first, client, texts)
    require_room(len(snippets), length)
    rows = []
    for snippet in snippets:
        letters = letter_codes(snippet.decode("latin-1"), table)
        rows.append(next_tokens(np.concatenate([[begin], letters, [end]]), length, step=length + 1))
    return _stacked(rows, length)


def _stacked(rows: list[tuple[np.ndarray, np.ndarray]], length: int) -> Rows:
    none = np.zeros((0, length), np.int32)
    return Rows(*(np.concatenate([none, *(row[side] for row in rows)]) for side in (0, 1)))
