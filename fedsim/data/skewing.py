"""Skews: differences between the clients' samples that are added after the partition.

A factory returns a `Skew`. Everything is drawn by seed and client, never by the method.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fedsim.compose import tag_of
from fedsim.compose.shapes import ContractError
from fedsim.data.federation import Federation
from fedsim.data.splits import Samples


class Skew(NamedTuple):
    """A number for every client, and how it changes the client's samples.

    A client whose number is 0 keeps its samples unchanged. Exactly one of `features` and `labels`
    is given, and decides which part of the samples is changed.

    Attributes:
      draw: `(clients, rng) -> numbers` `[N]`: an angle, a level, a group; they are written to
        partition.csv.
      features: `(x [n, ...], number, rng) -> x` of the same shape, for the samples of ONE client.
      labels: `(y [n], number, classes, rng) -> y` of the same shape, likewise.
      images: whether samples must be images, `[n, height, width]` or `[n, height, width,
        channels]`.
      exact: `(numbers [N], shape of x) -> bool`: whether bytes stay bytes. If they do not, the
        features of the entire federation become floats; without `exact` they always do.
      every: labels move on by one class after so many rounds; 0: they do not move. The plan does
        this, not `labels`.
      test: whether a client's test samples are changed as well.
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


def skew_refusal(skew: Skew, federation: Federation) -> str:
    """Return why a skew cannot change these samples, and what to do; an empty string if it can."""
    if skew.labels is not None:
        return without_labels(federation) or _too_few_classes(skew, federation)
    shape = federation.train.x.shape
    if skew.images and not federation.vocabulary and len(shape) not in (3, 4):
        return (
            f"is for images [n, height, width, channels], and samples have shape {shape[1:]}; "
            "remove it"
        )
    return without_numbers(federation)


def without_labels(federation: Federation) -> str:
    """Return why labels of samples cannot be changed; an empty string if they can."""
    if not federation.classes:
        return "changes classes, and these targets are numbers; use data with labels, or remove it"
    if federation.per_token:
        return "changes the label of a sample, and here every token has one; remove it"
    return ""


def _too_few_classes(skew: Skew, federation: Federation) -> str:
    classes = federation.classes
    if classes >= skew.least_classes:
        return ""
    return (
        f"makes {skew.least_classes} groups, and there are {classes} classes; "
        f"groups at most {classes}"
    )


def without_numbers(federation: Federation, verb: str = "changes") -> str:
    """Return why something cannot read or change (`verb`) features; an empty string if it can."""
    if federation.vocabulary:
        return f"{verb} features that are numbers, and these samples are tokens; remove it"
    return ""


def numbers_of(skew: Skew, clients: int, rng: np.random.Generator) -> np.ndarray:
    """Draw every client's number `[N]`, and refuse any but a finite one for each."""
    numbers = np.asarray(skew.draw(clients, rng))
    sound = (
        numbers.shape == (clients,)
        and numbers.dtype.kind in "fiu"
        and bool(np.isfinite(numbers).all())
    )
    if not sound:
        raise ContractError(
            f"draw: returned {numbers.dtype} {numbers.shape}; "
            f"expected a finite number for each of the {clients} clients"
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
    """Return a federation whose clients' samples, for training and testing, are skewed.

    All other sets are unchanged.

    Args:
      federation: the federation, perhaps skewed by other links already.
      name: the link's name.
      skew: the link.
      numbers: every client's number `[N]`.
      generator: `(tag, client) -> rng` that a client's samples are changed with.
      dtype: float type of features.
      given: the federation before the first link, whose arrays must not be written to.

    Raises:
      ContractError: if the skew returns features or labels of another shape, or such that cannot be
        learned from.
    """
    periods = federation.label_shift_periods
    if skew.every:
        periods = (*periods, skew.every)
    skews = {**federation.skews, f"skew/{name}": numbers}
    f = federation._replace(skews=skews, label_shift_periods=periods)
    if not numbers.any():
        return f

    f = f._replace(source=f.source or f.fingerprint()["data"])
    if skew.features is not None:
        stays_exact = skew.exact is not None and skew.exact(numbers, f.train.x.shape)
        if not stays_exact:
            f = with_floats(f, dtype)
        f = with_writable_copy(f, given, "x")
    if skew.labels is not None:
        f = with_writable_copy(f, given, "y")

    for client in np.flatnonzero(numbers).tolist():
        rows = rows_of(f, client, skew.test)
        if len(rows):
            rng = generator(tag_of(name), client)
            _change(f, skew, rows, numbers[client].item(), rng)
    return f


def with_copied_tests(f: Federation) -> Federation:
    """Copy the test samples of clients behind the training samples, so that they can be changed.

    The test set itself stays as it is.
    """
    n = len(f.train.x)
    indices = f.test_holders.indices.copy()
    in_test_set = indices >= n
    if not in_test_set.any():
        return f

    rows = indices[in_test_set] - n
    indices[in_test_set] = n + np.arange(len(rows))
    train = Samples(
        x=np.concatenate([f.train.x, f.test.x[rows]]),
        y=np.concatenate([f.train.y, f.test.y[rows]]),
    )
    return f._replace(
        train=train,
        test_holders=f.test_holders._replace(indices=indices),
        source=f.source or f.fingerprint()["data"],
    )


def with_writable_copy(f: Federation, given: Federation, field: str) -> Federation:
    """Copy features (`x`) or labels (`y`) of the training samples, unless they are a copy already.

    The copy may be written to; the arrays of `given` may not.
    """
    array = getattr(f.train, field)
    if array is not getattr(given.train, field):
        return f
    return f._replace(train=f.train._replace(**{field: np.array(array)}))


def with_floats(f: Federation, dtype: np.dtype) -> Federation:
    """Replace bytes and scale by the floats that a model would see, bit for bit, in all sets."""
    if f.train.x.dtype != np.uint8 and f.scale == 1.0:
        return f

    def as_floats(samples: Samples) -> Samples:
        return samples._replace(x=np.asarray(samples.x).astype(dtype) * dtype.type(f.scale))

    return f._replace(
        train=as_floats(f.train),
        test=as_floats(f.test),
        validation=as_floats(f.validation),
        server=as_floats(f.server),
        scale=1.0,
    )


def rows_of(f: Federation, client: int, test: bool) -> np.ndarray:
    """Return the rows of a client's training samples and, if `test`, those it is tested on."""
    train = f.holders.of(client)
    if f.adapting is not None:
        train = np.concatenate([train, f.adapting.of(client)])
    if not test:
        return train
    return np.concatenate([train, f.test_holders.of(client)])


def _change(
    f: Federation, skew: Skew, rows: np.ndarray, number: Any, rng: np.random.Generator
) -> None:
    """Overwrite ONE client's samples with what a skew makes of them."""
    x, y = f.train
    if skew.features is not None:
        hook = "features"
        stored = x
        new = np.asarray(skew.features(x[rows], number, rng))
        if x.dtype == np.uint8:
            expected = "bytes"
            sound = new.dtype == np.uint8
        else:
            expected = f"finite {x.dtype} features"
            sound = finite(new, x.dtype)
    else:
        assert skew.labels is not None
        hook = "labels"
        stored = y
        new = np.asarray(skew.labels(y[rows], number, f.classes, rng))
        expected = f"labels 0 to {f.classes - 1}"
        sound = are_labels(new, f.classes)

    shape = (len(rows), *stored.shape[1:])
    if new.shape != shape or not sound:
        raise ContractError(
            f"{hook}: returned {new.dtype} {new.shape}; expected {expected} {shape}, for {number!r}"
        )
    stored[rows] = new


def are_labels(values: np.ndarray, classes: int) -> bool:
    """Return whether all values are integers from 0 to classes − 1."""
    if values.dtype.kind not in "iu":
        return False
    return values.size == 0 or 0 <= values.min() <= values.max() < classes


def finite(values: np.ndarray, dtype: np.dtype) -> bool:
    """Return whether all values are numbers that are finite as floats of a type."""
    if values.dtype.kind not in "fiub":
        return False
    with np.errstate(over="ignore"):
        return bool(np.isfinite(values.astype(dtype)).all())
