"""The samples that models are scored on, in batches: those of a run's sets stay on the device."""

import itertools
import weakref
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from fedsim.data import Federation
from fedsim.machine import platform

# Limits of an evaluation batch.
BATCH_BYTES = 200_000  # of samples on a CPU, so that caches also hold the model and its columns
WIDE = 4096  # rows at most
SEQUENCES = 16  # sequences at least: each passes the whole model
SEQUENCE_BYTES = 1 << 28  # of sequences on an accelerator

Stack = tuple[np.ndarray, np.ndarray]
"""x `[n, E, ...]` and y `[n, E]`."""


class ScoredSet(NamedTuple):
    """A set that nobody trains on, as threads score it side by side.

    Attributes:
      stacks: its batches; the last one is filled up.
      y: their labels or targets, on the host.
    """

    stacks: list[Stack]
    rows: int
    y: np.ndarray


class ScoredSets(dict[str, ScoredSet]):
    """Sets by name, whose batches are on the device as long as a run refers to them."""

    arrays: tuple = ()  # the host's arrays, whose ids are the key


_on_device: weakref.WeakValueDictionary[tuple, ScoredSets] = weakref.WeakValueDictionary()


def sets_on_device(federation: Federation, threads: int) -> ScoredSets:
    """Return `scored_sets` with batches on the device, once for all runs of the same arrays."""
    arrays = tuple(itertools.chain(*federation.scored.values()))
    device = str(jax.config.values["jax_default_device"])
    key = (*map(id, arrays), threads, device)
    on_device = _on_device.get(key)
    if on_device is None:
        on_device = ScoredSets()
        for name, scored in scored_sets(federation, threads).items():
            on_device[name] = scored._replace(stacks=jax.device_put(scored.stacks))
        on_device.arrays = arrays
        _on_device[key] = on_device
    return on_device


def scored_sets(federation: Federation, threads: int) -> dict[str, ScoredSet]:
    """Return the samples that nobody trains on by name of the set; no empty ones."""
    E = scored_batch(federation)
    sets = {}
    for name, (x, y) in federation.scored.items():
        if len(x):
            batches = -(-len(x) // (E * threads))
            sets[name] = ScoredSet(list(in_batches(x, y, E, batches)), rows=len(x), y=y)
    return sets


def scored_batch(f: Federation) -> int:
    """Return the rows of an evaluation batch."""
    return even_batch(len(f.test.x) or len(f.train.x), largest_batch(f))


def largest_batch(f: Federation) -> int:
    """Return the rows of an evaluation batch, at most.

    What a model makes of each token takes memory, not the token: a sequence counts its vocabulary.
    """
    numbers = int(np.prod(f.train.x.shape[1:])) * max(f.vocabulary, 1)
    size = max(f.train.x.dtype.itemsize, 4) * numbers
    least = SEQUENCES if f.vocabulary else 1
    if platform() == "cpu":
        return max(min(BATCH_BYTES // size, WIDE), least)
    if f.vocabulary:
        return max(min(SEQUENCE_BYTES // size, WIDE), least)
    return WIDE


def even_batch(rows: int, largest: int) -> int:
    """Return the rows of a batch, at most `largest`, so that batches are about equally full.

    Args:
      rows: rows of all batches together.
      largest: rows of a batch, at most.
    """
    batches = max(-(-rows // largest), 1)
    return -(-rows // batches)


def in_batches(
    x: np.ndarray, y: np.ndarray, E: int, n: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield stacks of n batches of E rows.

    The last one is filled up with row 0: stacks of one shape are compiled once.
    """
    for first in range(0, len(x), n * E):
        index = np.arange(first, first + n * E)
        index = np.where(index < len(x), index, 0).reshape(n, E)
        yield x[index], y[index]
