"""Attacks on data: what becomes of the training samples of malicious clients before training, and how its success is scored.

A factory returns a `Poison`. Everything is drawn by seed and client, never by the method.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from fedsim.compose import tag_of
from fedsim.compose.shapes import ContractError
from fedsim.data.federation import Federation
from fedsim.data.skewing import (
    are_labels,
    finite,
    in_their_file,
    rows_of,
    with_own_copy,
    without_labels,
    without_numbers,
)
from fedsim.data.splits import Samples


class Poison(NamedTuple):
    """What the attacker makes of the training samples of each client that it controls.

    Features are as a model reads them, floats; bytes are rounded to bytes again, and samples that stay as they were keep
    their bits.

    Attributes:
      samples: `(x [n, ...], y [n], classes, place, rng) -> (x, y)` of the same shapes, for the samples of ONE client;
        `place` is the client's among the malicious clients with samples, from 0.
      features: what happens to them. Where it `ignores` them, x is None; where it `reads` them, the x that comes back is not
        looked at.
      target: the class for which the model is to take triggered samples.
      trigger: `x [n, ...] -> x`: test samples with the trigger; with a target.
      among: `(x [n, ...], y [n]) -> mask [n]`: the test samples that it is about; left out: all of other labels than the target.
      refusal: `(shape of a sample, classes) -> text`: why it cannot be, and what to do; "" where it can.
    """

    samples: Callable[
        [np.ndarray, np.ndarray, int, int, np.random.Generator], tuple[np.ndarray, np.ndarray]
    ]
    features: Literal["ignores", "reads", "changes"] = "changes"
    target: int | None = None
    trigger: Callable[[np.ndarray], np.ndarray] | None = None
    among: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    refusal: Callable[[tuple[int, ...], int], str] = lambda shape, classes: ""


def unfit(poison: Poison, f: Federation) -> str:
    """Why such samples cannot be attacked so, and what to do; nothing where they can."""
    if f.moves:
        return "changes labels once, and those of a concept_shift with every move on as rounds go by; take one out"
    text = without_labels(f)
    if poison.features != "ignores":
        text = text or without_numbers(f, poison.features)
    if poison.features == "changes":
        text = text or in_their_file(f)
    return text or poison.refusal(f.train.x.shape[1:], f.classes)


def poisoned(
    federation: Federation,
    name: str,
    poison: Poison,
    malicious: np.ndarray,
    generator: Callable[[int, int], np.random.Generator],
    dtype: np.dtype,
    given: Federation,
) -> Federation:
    """A federation in which the training samples of malicious clients are poisoned; all test samples and sets stay.

    Args:
      federation: perhaps attacked by other links already.
      name: of the link.
      poison: the link.
      malicious: clients `[N]`.
      generator: `(tag, client) -> rng`: what a client's samples are changed with.
      dtype: float type of features.
      given: the federation before the first link, whose arrays are not to be written on.

    Raises:
      ContractError: when samples of another shape come back, or none that can be learned from.
    """
    f, counts = federation, np.zeros(federation.N, np.int64)
    clients = np.flatnonzero(malicious & (f.sizes > 0))
    if len(clients):
        f = f._replace(source=f.source or f.fingerprint()["data"])
        f = with_own_copy(f, given, "y")
        if poison.features == "changes":
            f = with_own_copy(f, given, "x")
    for place, client in enumerate(clients.tolist()):
        counts[client] = _change(
            f, poison, rows_of(f, client, test=False), place, generator(tag_of(name), client), dtype
        )
    return f._replace(skews={**f.skews, f"attack/{name}": counts})


def with_triggered(f: Federation, poison: Poison, dtype: np.dtype) -> Federation:
    """The federation with the test samples on which an attack's success is measured, where it has a target.

    Raises:
      ContractError: when the trigger gives features of another shape, or such as no sample can have.
    """
    if poison.target is None:
        return f
    rows = np.flatnonzero(f.test.y != poison.target)
    old = f.test.x[rows]
    if poison.among is not None and len(rows):
        chosen = np.asarray(poison.among(_seen(f, old, dtype), f.test.y[rows]))
        if chosen.shape != rows.shape or chosen.dtype != bool:
            raise ContractError(
                f"among: gave {chosen.dtype} {chosen.shape}; needed is bool {rows.shape}"
            )
        rows, old = rows[chosen], old[chosen]
    if poison.trigger is not None and len(rows):
        seen = _seen(f, old, dtype)
        old = _stored(f, np.asarray(poison.trigger(seen.copy())), seen, old, "trigger")
    return f._replace(triggered=Samples(old, np.full(len(rows), poison.target, f.test.y.dtype)))


def _change(
    f: Federation,
    poison: Poison,
    rows: np.ndarray,
    place: int,
    rng: np.random.Generator,
    dtype: np.dtype,
) -> int:
    """Write what an attack makes of ONE client's samples over them -> how many of them are others now."""
    ignores, changes = (poison.features == name for name in ("ignores", "changes"))
    old = None if ignores else f.train.x[rows]
    seen = None if old is None else _seen(f, old, dtype)
    x = None if seen is None else seen.copy()
    pair = poison.samples(x, f.train.y[rows].copy(), f.classes, place, rng)  # type: ignore[arg-type]
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ContractError(f"samples: gave {type(pair).__name__}; needed are (x, y)")
    y = np.asarray(pair[1])
    if y.shape != rows.shape or not are_labels(y, f.classes):
        raise ContractError(
            f"samples: gave labels {y.dtype} {y.shape}; needed are 0 to {f.classes - 1} {rows.shape}"
        )
    others = f.train.y[rows] != y
    f.train.y[rows] = y
    if changes:
        assert old is not None and seen is not None
        x = _stored(f, np.asarray(pair[0]), seen, old, "samples")
        others |= (x != old).reshape(len(rows), -1).any(1)
        f.train.x[rows] = x
    return int(others.sum())


def _seen(f: Federation, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Features as a model reads them."""
    return x if x.dtype != np.uint8 and f.scale == 1.0 else x.astype(dtype) * dtype.type(f.scale)


def _stored(
    f: Federation, new: np.ndarray, seen: np.ndarray, old: np.ndarray, hook: str
) -> np.ndarray:
    """Features as they are stored; those that are as they were keep their bits."""
    if new.shape != seen.shape or not finite(new, seen.dtype):
        text = f"{hook}: gave features {new.dtype} {new.shape}; needed are finite {seen.dtype} {seen.shape}"
        raise ContractError(text)
    raw = new / f.scale
    if old.dtype == np.uint8:
        raw = np.rint(raw)
        if raw.size and (raw.min() < 0 or raw.max() > 255):
            span = f"features from {new.min():.6g} to {new.max():.6g}"
            raise ContractError(
                f"{hook}: gave {span}, and bytes are stored, which count as 0 to {255 * f.scale:.6g}"
            )
    return np.where(new == seen, old, raw.astype(old.dtype))
