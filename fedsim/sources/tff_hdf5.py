"""Data sets of TensorFlow Federated: EMNIST, CIFAR-100, Shakespeare, Stack Overflow."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
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
from fedsim.sources.files import Name, opened, sound
from fedsim.sources.folders import chosen_split, folder_files
from fedsim.sources.names import fault_of_name
from fedsim.sources.packages import required
from fedsim.sources.pictures import SCALE, alike, as_bytes
from fedsim.sources.tokens import (
    BEGIN,
    END,
    SPECIAL,
    Length,
    encode,
    letter_codes,
    letter_table,
    most_frequent,
    next_tokens,
    require_memory_for,
    stacked,
)

# The characters of TensorFlow Federated's tutorial, in its order.
LETTERS = (
    "dhlptx@DHLPTX $(,048cgkoswCGKOSW[_#'/37;?bfjnrvzBFJNRVZ\"&*.26:\naeimquyAEIMQUY]!%)-159\r"
)
FILE = re.compile(r"(?P<split>[\w-]+)_(?P<part>train|test)\.(h5|hdf5)")
KINDS = ("pixels", "image", "snippets", "tokens")  # fields that show which data set a file is of
SHAPES = {"pixels": (28, 28), "image": (32, 32, 3)}
LENGTHS = {"snippets": 80, "tokens": 20}
WHERE = (
    "the files are fed_emnist_train.h5 and fed_emnist_test.h5 (likewise fed_emnist_digitsonly, "
    "fed_cifar100, shakespeare, stackoverflow), from "
    "storage.googleapis.com/tff-datasets-public/fed_emnist.tar.bz2"
)


class Options(NamedTuple):
    """Parameters of `tff_hdf5` that decide what is read."""

    coarse: bool
    length: int | None
    vocabulary: int
    first_clients: int | None
    first_samples: int | None


class Form(NamedTuple):
    """How the examples of a data set become samples."""

    fields: tuple[str, ...]  # the names of the fields that are read
    read: Callable[..., tuple[np.ndarray, np.ndarray]]  # their values -> x and y of a client
    tokens: Sequence[str] = ()  # the names of all tokens; empty where features are images


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
    """EMNIST, CIFAR-100, Shakespeare or Stack Overflow in TensorFlow Federated's HDF5 files.

    Clients keep their ids. The fields of a client's examples show which data set it is.

    - `pixels`, `label`: EMNIST, images `[28, 28, 1]` with the values of the file: 1 is background,
      0 ink, unlike in MNIST.
    - `image`, `label`, `coarse_label`: CIFAR-100, bytes `[32, 32, 3]`, divided by 255.
    - `snippets`: Shakespeare, the characters of TensorFlow Federated's tutorial as tokens 1 to 86;
      0 is padding, 87 another character, 88 the beginning and 89 the end of a snippet. A snippet is
      cut into runs of `length` + 1 tokens, x is a run without its last token, y without its first.
    - `tokens`: Stack Overflow, a sentence per sample: its first `length` words. The `vocabulary`
      most frequent words of the training samples, ties in sorted order, are the tokens from 1 on;
      0 is padding, the three after the words are another word, the beginning and the end of a
      sentence. x begins with the beginning; y is the next token at every position.

    y is −1 behind the end of a text; such positions are ignored. A folder has a file for training
    and optionally one for the test set, in which every client's samples belong to that client
    (`global_accuracy` in `clients.csv`); a single file is for training. Needs h5py:
    `pip install 'fedsim-jax[hdf5]'`.

    Args:
      path: the folder or file, in the scenario's folder, the working directory or a `--data-root`.
      split: the part of the names before `_train.h5`, where a folder holds several sets.
      coarse: whether labels of CIFAR-100 are the 20 superclasses.
      length: the length of a sequence; left out: 80 characters, 20 words.
      vocabulary: the number of words of Stack Overflow that have a token.
      first_clients: how many clients of each file are read, the first ones by their ids.
      first_samples: how many samples of each client are read, the first ones (of Shakespeare,
        snippets).
      sha256: the hash of the file, or of all files of the folder together; others are refused
        (filled in by the resolved scenario).

    Raises:
      DataError: naming file and client, for other files.

    References:
      Reddi et al. 2021, Adaptive Federated Optimization, arXiv:2003.00295 (all four, and the models
      for them).
    """
    options = Options(
        coarse=coarse,
        length=length,
        vocabulary=vocabulary,
        first_clients=first_clients,
        first_samples=first_samples,
    )
    with _files(path, split, sha256) as files:
        return Arrays(**_arrays(files, options))


@contextmanager
def _files(path: str, split: str | None, sha256: str | None) -> Iterator[dict[str, Path]]:
    """The file for `train` and, if it exists, for `test`."""
    if not os.path.isdir(path):
        with opened(path, sha256, float("inf")):
            pass
        yield {"train": Path(path)}
        return
    with folder_files(path, sha256) as folder:
        matches = []
        for name, file in folder.items():
            match = FILE.fullmatch(name)
            if match is not None:
                matches.append((match, file))
        splits = sorted({match["split"] for match, _ in matches if match["part"] == "train"})
        if not splits:
            raise DataError(f"no such files; {WHERE}")
        chosen = chosen_split(splits, split)
        yield {match["part"]: file for match, file in matches if match["split"] == chosen}


def _arrays(files: dict[str, Path], options: Options) -> dict[str, Any]:
    """The arrays of the files, by the names of `Arrays`."""
    arrays: dict[str, Any] = {}
    form = None
    for part, suffix in (("train", ""), ("test", "_test")):
        if part in files:
            with _examples(files[part]) as examples:
                form = form or _form_of(examples, options)
                rows = _read(examples, form, options)
            names = ("x", "y", "client")
            arrays |= {f"{name}{suffix}": rows[name] for name in names}
    xs = [name for name in arrays if name.startswith("x")]
    arrays |= dict(zip(xs, alike([arrays[name] for name in xs]), strict=True))

    assert form is not None
    if form.tokens:
        arrays["vocabulary"] = len(form.tokens)
        arrays["labels"] = list(form.tokens)
    elif arrays["x"].dtype == np.uint8:
        arrays["scale"] = SCALE
    return arrays


@contextmanager
def _examples(path: Path) -> Iterator[Any]:
    """Open the group `examples` of a file: a group of arrays for each client."""
    h5py = required("h5py", "tff_hdf5", "hdf5")
    with (
        opened(str(path), None, float("inf")),
        sound("HDF5 file"),
        h5py.File(path, "r", locking=False) as file,
    ):
        examples: Any = file["examples"]
        for client in examples:
            fault = fault_of_name(os.fsdecode(client))
            if fault is not None:
                raise DataError(f"client {fault}")
        yield examples


def _read_clients(
    examples: Any, fields: Sequence[str], read: Callable[..., Any], options: Options
) -> Iterator[tuple[str, Any]]:
    """Yield the id of each client, and what is read of some fields of its examples."""
    for client in sorted(examples)[: options.first_clients]:
        where = f"client {client!a}"
        try:
            values = []
            for field in fields:
                where = f"client {client!a}, {field}"
                with sound("HDF5 file"):
                    stored = examples[client][field]
                    require_memory(examples=stored.nbytes)
                    values.append(stored[:][: options.first_samples])
            where = f"client {client!a}"
            yield client, read(*values)
        except DataError as error:
            raise error.with_prefix(where) from None


def _form_of(examples: Any, options: Options) -> Form:
    """Which data set a file is of, and how its examples become samples."""
    if not len(examples):
        raise DataError(f"no clients; {WHERE}")
    fields = list(examples[min(examples)])
    kind = next((kind for kind in KINDS if kind in fields), None)
    if kind is None:
        listed = ", ".join(ascii(field[:40]) for field in fields[:6]) or "nothing"
        raise DataError(
            f"examples of {listed}; expected {', '.join(KINDS[:-1])} or tokens: {WHERE}"
        )

    length = options.length or LENGTHS.get(kind, 0)
    if kind == "tokens":
        texts = _read_clients(examples, (kind,), partial(_texts, kind), options)
        sentences = (_words(sentence) for _, of_client in texts for sentence in of_client)
        words = most_frequent(sentences, options.vocabulary)
        codes = {word: code for code, word in enumerate(words, 1)}
        names = [SPECIAL[0], *words, SPECIAL[1], BEGIN, END]
        return Form((kind,), partial(_next_words, codes, length), names)
    if kind == "snippets":
        table = letter_table(LETTERS, 1, len(LETTERS) + 1)
        names = [SPECIAL[0], *LETTERS, SPECIAL[1], BEGIN, END]
        return Form((kind,), partial(_next_letters, table, length), names)
    label = "coarse_label" if options.coarse else "label"
    return Form((kind, label), partial(_images, kind))


def _read(examples: Any, form: Form, options: Options) -> dict[str, Any]:
    """All samples of a file: x, y, and the id of every sample's client."""
    xs: list[np.ndarray] = []
    ys: list[np.ndarray] = []
    clients: list[str] = []
    total_bytes = 0
    for client, (x, y) in _read_clients(examples, form.fields, form.read, options):
        clients.append(client)
        xs.append(x)
        ys.append(y)
        total_bytes += x.nbytes + y.nbytes
        require_memory(samples=2 * total_bytes)  # with the copy that joins them

    sizes = [len(y) for y in ys]
    if not sum(sizes):
        raise DataError("no samples")
    xs = alike([x for x in xs if len(x)])
    shapes = sorted({x.shape[1:] for x in xs})
    if len(shapes) > 1:
        raise DataError(f"samples of different shapes: {', '.join(map(str, shapes[:3]))}")
    client = np.repeat(np.array(clients), sizes)
    return {"x": np.concatenate(xs), "y": np.concatenate(ys), "client": client}


def _images(kind: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The images of a client; bytes if all pixels are whole multiples of 1/255."""
    if len(x) != len(y) or y.ndim != 1 or y.dtype.kind not in "iu":
        expected = f"expected a whole number for each of {len(x)} images"
        raise DataError(f"{expected}, found {y.dtype} {y.shape}")
    shape = SHAPES[kind]
    if x.shape[1:] != shape or x.dtype.kind not in "fu":
        raise DataError(f"expected {kind} of shape {shape}, found {x.dtype} {x.shape[1:]}")
    if x.dtype != np.uint8:
        x = as_bytes(x)
    if kind == "pixels":
        x = x[..., None]
    return x, y.astype(np.int64)


def _next_words(
    codes: dict[str, int], length: int, texts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The sentences of a client, one per sample, with the next word at every position."""
    unknown = len(codes) + 1
    begin = len(codes) + 2
    end = len(codes) + 3
    sentences = _texts("tokens", texts)
    require_memory_for(len(sentences), length)
    samples = []
    for sentence in sentences:
        tokens = [begin, *encode(_words(sentence)[:length], codes, unknown)]
        if len(tokens) <= length:
            tokens.append(end)
        samples.append(next_tokens(tokens, length))
    return stacked(samples, length)


def _next_letters(
    table: np.ndarray, length: int, texts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The snippets of a client, cut into sequences, with the next character at every position."""
    begin = len(LETTERS) + 2
    end = len(LETTERS) + 3
    snippets = _texts("snippets", texts)
    require_memory_for(len(snippets), length)
    samples = []
    for snippet in snippets:
        letters = letter_codes(snippet.decode("latin-1"), table)
        tokens = np.concatenate([[begin], letters, [end]])
        samples.append(next_tokens(tokens, length, step=length + 1))
    return stacked(samples, length)


def _words(sentence: bytes) -> list[str]:
    return [word for word in sentence.decode("utf-8", "replace").split(" ") if word]


def _texts(field: str, texts: np.ndarray) -> list[bytes]:
    if texts.ndim != 1 or texts.dtype.kind not in "OS":
        raise DataError(f"{field} are texts, found {texts.dtype} {texts.shape}")
    return texts.tolist()
