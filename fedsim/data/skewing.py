"""Skews: what makes the clients' own samples differ, after a partition has dealt them.

A factory returns a `Skew`. Everything is drawn by seed and client, never by the method.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fedsim.compose import tag_of
from fedsim.compose.shapes import ContractError
from fedsim.data.federation import Federation
from fedsim.data.splits import Samples
from fedsim.sources.mapped import Mapped


class Skew(NamedTuple):
    """A number for every client, and what it makes of the client's samples; of a client with 0 they
    stay as they are.

    Either `features` or `labels` is given, and decides which part of the samples is changed.

    Attributes:
      draw: `(clients, rng) -> numbers` `[N]`: an angle, a level, a group; they stand in
        partition.csv.
      features: `(x [n, ...], number, rng) -> x` of the same shape, for the samples of ONE client.
      labels: `(y [n], number, classes, rng) -> y`, likewise.
      images: whether features must be images, `[n, height, width]` or `[n, height, width,
        channels]`.
      exact: `(numbers [N], shape of x) -> bool`: whether features that are bytes stay bytes. Where
        they do not, those of the whole federation become floats; without it they always do.
      every: labels move on by one class after every so many rounds; 0: they stay. Not in `labels`:
        in the plan.
      test: whether a client's own test samples are changed as well.
      least_classes: classes that the samples need.
    """

    draw: Callable[[int, np.random.Generator], np.ndarray]
    features: Callable[[np.ndarray, float, np.random.Generator], np.ndarray] | None = None
    labels: Callable[[np.ndarray, float, int, np.random.Generator], np.ndarray] | None = None
    images: bool = False
    exact: Callable[[np.ndarray, tuple[int, ...]], bool] | None = None
    every: int = 0
    test: bool = True
    least_classes: int = 0


def refusal(skew: Skew, federation: Federation) -> str:
    """Why such samples cannot be skewed so, and what to do; nothing where they can."""
    if skew.labels is not None:
        return without_labels(federation) or _too_few_classes(skew, federation)
    shape = federation.train.x.shape
    if skew.images and not federation.vocabulary and len(shape) not in (3, 4):
        return f"is for images [n, height, width, channels], and samples have shape {shape[1:]}; take it out"
    return without_numbers(federation) or in_their_file(federation)


def without_labels(f: Federation) -> str:
    """Why labels of samples cannot be changed; nothing where they can."""
    if not f.classes:
        return (
            "changes classes, and these targets are numbers; take data with labels, or take it out"
        )
    return (
        "changes the label of a sample, and here every token has one; take it out"
        if f.per_token
        else ""
    )


def _too_few_classes(skew: Skew, f: Federation) -> str:
    """Why samples have too few classes; nothing where they have enough."""
    if f.classes >= skew.least_classes:
        return ""
    return f"makes {skew.least_classes} groups, and there are {f.classes} classes; groups at most {f.classes}"


def without_numbers(f: Federation, does: str = "changes") -> str:
    """Why it cannot do with features what it `does`; nothing where they are numbers."""
    return (
        f"{does} features that are numbers, and these samples are tokens; take it out"
        if f.vocabulary
        else ""
    )


def in_their_file(f: Federation) -> str:
    """Why features cannot be changed; nothing where they are in memory."""
    if not isinstance(f.train.x, Mapped):
        return ""
    text = "changes features, and these stay in their file"
    return f"{text}; compress it (numpy.savez_compressed, gzip), which is read into memory, or take it out"


def numbers_of(skew: Skew, clients: int, rng: np.random.Generator) -> np.ndarray:
    """What every client has `[N]`.

    Raises:
      ContractError: when they are no finite numbers, one for each client.
    """
    numbers = np.asarray(skew.draw(clients, rng))
    if (
        numbers.shape != (clients,)
        or numbers.dtype.kind not in "fiu"
        or not np.isfinite(numbers).all()
    ):
        form = f"{numbers.dtype} {numbers.shape}"
        raise ContractError(
            f"draw: gave {form}; needed is a finite number for each of the {clients} clients"
        )
    return numbers


def skewed(
    federation: Federation,
    name: str,
    skew: Skew,
    numbers: np.ndarray,
    generator: Callable[[int, int], np.random.Generator],
    dtype: np.dtype,
    given: Federation,
) -> Federation:
    """A federation whose clients' samples, training and own test samples alike, are skewed; all
    other sets stay.

    Args:
      federation: perhaps skewed by other links already.
      name: of the link.
      skew: the link.
      numbers: of every client `[N]`.
      generator: `(tag, client) -> rng`: what a client's samples are changed with.
      dtype: float type of features.
      given: the federation before the first link, whose arrays are not to be written on.

    Raises:
      ContractError: when a skew gives features or labels of another shape, or none that can be
        learned from.
    """
    f, moves = federation, (skew.every,) if skew.every else ()
    f = f._replace(skews={**f.skews, f"skew/{name}": numbers}, moves=(*f.moves, *moves))
    if not numbers.any():
        return f
    f = f._replace(source=f.source or f.fingerprint()["data"])
    if skew.features is not None:
        f = (
            f
            if skew.exact is not None and skew.exact(numbers, f.train.x.shape)
            else with_floats(f, dtype)
        )
        f = with_own_copy(f, given, "x")
    if skew.labels is not None:
        f = with_own_copy(f, given, "y")
    for client in np.flatnonzero(numbers):
        rows = rows_of(f, int(client), skew.test)
        if len(rows):
            _change(f, skew, rows, numbers[client].item(), generator(tag_of(name), int(client)))
    return f


def with_own_tests(f: Federation) -> Federation:
    """The test samples that belong to clients beside the training samples too, where they can
    differ from the test set's.
    """
    n, indices = len(f.train.x), f.test_holders.indices.copy()
    of_clients = indices >= n
    if not of_clients.any():
        return f
    rows = indices[of_clients] - n
    indices[of_clients] = n + np.arange(len(rows))
    both = zip(f.train, f.test, strict=True)
    train = Samples(*(np.concatenate([whole, test[rows]]) for whole, test in both))
    holders = f.test_holders._replace(indices=indices)
    return f._replace(train=train, test_holders=holders, source=f.source or f.fingerprint()["data"])


def with_own_copy(f: Federation, given: Federation, part: str) -> Federation:
    """With features (`x`) or labels (`y`) of the training samples that may be written on: no longer
    those that were given.
    """
    now = getattr(f.train, part)
    return (
        f
        if now is not getattr(given.train, part)
        else f._replace(train=f.train._replace(**{part: np.array(now)}))
    )


def with_floats(f: Federation, dtype: np.dtype) -> Federation:
    """The features of all sets as a model reads them: floats, to the bit, in place of bytes times a
    scale.
    """
    if f.train.x.dtype != np.uint8 and f.scale == 1.0:
        return f
    scaled = lambda x: np.asarray(x).astype(dtype) * dtype.type(f.scale)
    sets = {name: getattr(f, name) for name in ("train", "test", "validation", "server")}
    return f._replace(
        **{name: part._replace(x=scaled(part.x)) for name, part in sets.items()}, scale=1.0
    )


def rows_of(f: Federation, client: int, test: bool) -> np.ndarray:
    """Rows of a client's training samples, and behind them those of its own test samples."""
    own = f.holders.of(client)
    return np.concatenate([own, f.test_holders.of(client)]) if test else own


def _change(
    f: Federation, skew: Skew, rows: np.ndarray, number: Any, rng: np.random.Generator
) -> None:
    """Write what a skew makes of ONE client's samples over them."""
    x, y = f.train
    if skew.features is not None:
        old, hook = x, "features"
        needed = "bytes" if x.dtype == np.uint8 else f"finite {x.dtype} features"
        new = np.asarray(skew.features(x[rows], number, rng))
        sound = new.dtype == x.dtype if x.dtype == np.uint8 else finite(new, x.dtype)
    else:
        assert skew.labels is not None
        old, hook = y, "labels"
        needed = f"labels 0 to {f.classes - 1}"
        new = np.asarray(skew.labels(y[rows], number, f.classes, rng))
        sound = are_labels(new, f.classes)
    if new.shape != (len(rows), *old.shape[1:]) or not sound:
        text = f"{hook}: gave {new.dtype} {new.shape}; needed are {needed} {(len(rows), *old.shape[1:])}"
        raise ContractError(f"{text}, for {number!r}")
    old[rows] = new


def are_labels(values: np.ndarray, classes: int) -> bool:
    """Whether values are integers 0 to classes − 1."""
    return values.dtype.kind in "iu" and (
        values.size == 0 or 0 <= values.min() <= values.max() < classes
    )


def finite(values: np.ndarray, dtype: np.dtype) -> bool:
    """Whether values are finite numbers as floats of a type."""
    with np.errstate(over="ignore"):
        return values.dtype.kind in "fiub" and bool(np.isfinite(values.astype(dtype)).all())
