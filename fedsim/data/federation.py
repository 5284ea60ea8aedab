"""From samples to a federation: checked arrays, a test split, and who holds what."""

import hashlib
from typing import NamedTuple

import numpy as np


class DataError(ValueError):
    """Samples that cannot be learned from as they are (exit code 3)."""


class Arrays(NamedTuple):
    """Samples in memory, what every reader ends in.

    Args:
      x: features `[n, ...]`; stored as floats.
      y: labels `[n]` (integers: classes 0, 1, ...; floats: regression targets `[n, ...]`).
      client: optional natural partition `[n]`, any hashable ids; client k is the k-th smallest id.
      x_test: optional test features.
      y_test: optional test labels.
    """

    x: np.ndarray
    y: np.ndarray
    client: np.ndarray | None = None
    x_test: np.ndarray | None = None
    y_test: np.ndarray | None = None


class Federation(NamedTuple):
    """Training samples and the clients that hold them, as CSR index lists.

    Client k holds the rows `indices[offsets[k]:offsets[k + 1]]` of `x` and `y`.
    """

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    indices: np.ndarray  # [n] int32
    offsets: np.ndarray  # [N + 1] int64
    classes: int  # 0: regression

    @property
    def N(self) -> int:
        """Clients in all."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> np.ndarray:
        """Samples per client `[N]`."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """Client of every entry of `indices`, `[n]`."""
        return np.repeat(np.arange(self.N), self.sizes)

    def label_counts(self) -> np.ndarray:
        """Samples per client and class `[N, classes]`."""
        flat = self.owner * self.classes + self.y[self.indices]
        return np.bincount(flat, minlength=self.N * self.classes).reshape(self.N, self.classes)

    def fingerprint(self) -> dict[str, str]:
        """SHA-256 of the samples and of the partition."""
        return {
            "data": _sha256(self.x, self.y, self.x_test, self.y_test),
            "partition": _sha256(self.indices, self.offsets),
        }


def checked(arrays: Arrays, dtype: np.dtype) -> tuple[Arrays, int]:
    """Samples as the device wants them, and the number of classes; every fault is named with its row.

    Raises:
      DataError: lengths that differ, non-finite numbers, labels that are no classes.
    """
    x, y = np.asarray(arrays.x), np.asarray(arrays.y)
    parts = [("", x, y)]
    if arrays.x_test is not None:
        if arrays.y_test is None:
            raise DataError("x_test is given without y_test")
        parts.append(("_test", np.asarray(arrays.x_test), np.asarray(arrays.y_test)))
    if len(x) == 0:
        raise DataError("x: no samples")
    if arrays.client is not None and len(arrays.client) != len(x):
        raise DataError(f"client: {len(arrays.client)} ids for {len(x)} samples")
    regression = bool(np.issubdtype(y.dtype, np.floating))
    done = []
    for name, features, labels in parts:
        if len(features) != len(labels):
            raise DataError(f"x{name} has {len(features)} rows, y{name} has {len(labels)}")
        if features.shape[1:] != x.shape[1:]:
            raise DataError(f"x{name}: samples of shape {features.shape[1:]}, x has {x.shape[1:]}")
        if features.dtype.kind not in "fiub":
            raise DataError(f"x{name}: numbers are needed, found {features.dtype}")
        _demand_finite(f"x{name}", features)
        if regression:
            _demand_finite(f"y{name}", labels)
            labels = labels.astype(dtype)
        else:
            if labels.dtype.kind not in "iub" or labels.ndim != 1:
                raise DataError(f"y{name}: integer labels [n] are needed, found {labels.dtype} {labels.shape}")
            if len(labels) and labels.min() < 0:
                raise DataError(
                    f"y{name}: row {int(labels.argmin())} has label {labels.min()}; classes are 0, 1, 2, ..."
                )
            labels = labels.astype(np.int32)
        done += [np.ascontiguousarray(features, dtype), np.ascontiguousarray(labels)]
    if len(done) == 2:
        done += [np.zeros((0, *x.shape[1:]), dtype), np.zeros((0, *done[1].shape[1:]), done[1].dtype)]
    classes = 0 if regression else int(max(labels.max() for labels in (done[1], done[3]) if len(labels))) + 1
    return Arrays(done[0], done[1], arrays.client, done[2], done[3]), classes


def prepare(arrays: Arrays, *, test: float, seed: int, dtype: np.dtype) -> tuple[Arrays, int]:
    """Check the samples and set a test split apart, where they bring none -> (arrays, classes).

    Args:
      arrays: the samples.
      test: share of the samples to test on, stratified by label.
      seed: of the test split; it does not change with the run's seed.
      dtype: float type of the features.
    """
    arrays, classes = checked(arrays, dtype)
    x, y, client, x_test, _ = arrays
    if not test or x_test is None or len(x_test):
        return arrays, classes
    held = stratified(y if classes else np.zeros(len(y), np.int32), test, np.random.default_rng([seed, 1]))
    client = None if client is None else np.asarray(client)[~held]
    return Arrays(x[~held], y[~held], client, x[held], y[held]), classes


def federate(arrays: Arrays, classes: int, parts: list[np.ndarray]) -> Federation:
    """Prepared samples and the index list of every client, as CSR."""
    assert arrays.x_test is not None and arrays.y_test is not None
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts], dtype=np.int64)])
    indices = np.concatenate(parts).astype(np.int32)
    return Federation(arrays.x, arrays.y, arrays.x_test, arrays.y_test, indices, offsets, classes)


def natural(client: np.ndarray) -> list[np.ndarray]:
    """Index lists by client id, in the order of the ids."""
    _, code = np.unique(np.asarray(client), return_inverse=True)
    order = np.argsort(code, kind="stable")
    return np.split(order, np.cumsum(np.bincount(code))[:-1])


def stratified(labels: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Mask `[n]` of about `share` of the rows, the same share of every label (largest remainders)."""
    counts = np.bincount(labels)
    take = apportion(counts * share, round(len(labels) * share))
    held = np.zeros(len(labels), bool)
    for label, k in enumerate(take):
        held[rng.permutation(np.flatnonzero(labels == label))[:k]] = True
    return held


def apportion(quota: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers that sum to `total`, each within one of its quota (largest remainders, ties to the lowest index)."""
    floor = np.floor(quota).astype(np.int64)
    missing = total - int(floor.sum())
    order = np.argsort(-(quota - floor), kind="stable")
    floor[order[: max(missing, 0)]] += 1
    while missing < 0:  # quotas that sum to more than `total` after rounding errors: give back, largest first
        floor[np.argmax(floor)] -= 1
        missing += 1
    return floor


def _demand_finite(name: str, values: np.ndarray) -> None:
    bad = ~np.isfinite(values).reshape(len(values), -1).all(1)
    if bad.any():
        raise DataError(f"{name}: row {int(bad.argmax())} is not finite ({int(bad.sum())} rows in all)")


def _sha256(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
