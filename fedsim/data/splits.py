"""What is set apart before clients get anything: the test set, the validation set, the server's own samples."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedsim.data.completion import completed, statistics
from fedsim.errors import DataError, PartitionError
from fedsim.sources.arrays import (
    Arrays,
    Names,
    checked,
    classes_named,
    numbered,
    per_token,
    vocabulary_of,
)
from fedsim.sources.mapped import in_file, take_rows

TEST_CLIENTS = 4  # of the draws by the data's seed; 1 to 3 are the splits below


class Samples(NamedTuple):
    """A set of samples, row by row."""

    x: np.ndarray  # [n, ...] features
    y: np.ndarray  # [n] labels, [n, T] those of tokens, or [n, ...] targets


class Sets(NamedTuple):
    """Checked samples by purpose; sets that were not asked for are empty."""

    train: Samples
    owner: np.ndarray | None  # client number of every training row, where the samples brought ids
    owners: int  # clients that the ids name, those included whose samples were all set apart
    test: Samples
    validation: Samples
    server: Samples
    names: Names = Names()
    scale: float = 1.0  # features are what is stored, times this
    vocabulary: int = 0  # above 0: features are tokens
    columns: Mapping[str, np.ndarray] = {}  # further columns of the training rows
    rows: np.ndarray | None = (
        None  # number of every training row among all that were read; None: as they stand
    )
    read: int = 0  # rows that were read
    owner_test: np.ndarray | None = (
        None  # client number of every test row, where the samples brought ids of them
    )
    held_out: np.ndarray | None = (
        None  # clients [owners] that never train, whose rows are among the training rows
    )


def prepare(
    arrays: Arrays,
    *,
    test: float,
    test_clients: float = 0.0,
    seed: int,
    dtype: np.dtype,
    validation: float = 0.0,
    server: int = 0,
    missing: str = "refuse",
    standardize: bool = False,
) -> tuple[Sets, int]:
    """Check the samples and set apart what clients do not get -> (sets, classes).

    Args:
      arrays: the samples.
      test: share of the samples to test on, stratified by label; samples that bring a test set keep theirs.
      test_clients: share of the clients, as the samples name them, that never train: what is drawn or computed from the
        training samples leaves theirs alone, which stay where they are.
      seed: of all these splits; they do not change with the run's seed.
      dtype: float type of the features.
      validation: share of the other samples kept for validation, stratified by label.
      server: samples of what is left then that the server keeps, stratified by label.
      missing: what happens to features that are NaN: `refuse`; `drop` their samples; or fill in the `mean` or the `median`
        of the samples that the clients get.
      standardize: features on one scale, by mean and standard deviation of the samples that the clients get.

    Raises:
      DataError: for samples that cannot be learned from.
      PartitionError: when nothing is left to train on.
    """
    arrays, labels = classes_named(_without_blanks(arrays) if missing == "drop" else arrays)
    features = None if arrays.features is None else tuple(arrays.features)
    completes = standardize or missing in ("mean", "median")
    if completes:
        arrays = _as_numbers(arrays)
    arrays, classes = checked(
        arrays, np.dtype(np.float64) if completes else dtype, missing in ("mean", "median")
    )
    owner, owner_test, ids = _owners(arrays)
    held_out = None
    if test_clients and owner is not None:
        held_out = drawn_clients(np.bincount(owner, minlength=len(ids)) > 0, test_clients, seed)
    rows = _split(
        arrays, classes, {"test": test, "validation": validation}, server, seed, held_out, owner
    )
    if completes:
        arrays = _completed(arrays, rows["train"], missing, standardize, dtype, features)
    x, y, x_test, y_test = arrays.x, arrays.y, arrays.x_test, arrays.y_test
    assert x_test is not None and y_test is not None
    train = rows["train"]
    if held_out is not None:
        train = np.sort(np.concatenate([train, rows.pop("test")]))
        rows["test"] = train[:0]
    of = lambda name: Samples(x[rows[name]], y[rows[name]])
    sets = Sets(
        train=Samples(x, y),
        owner=owner,
        owners=len(ids),
        test=of("test") if len(rows["test"]) else Samples(x_test, y_test),
        validation=of("validation"),
        server=of("server"),
        names=Names(labels, None if ids == list(range(len(ids))) else tuple(ids), features),
        scale=float(arrays.scale),
        vocabulary=int(arrays.vocabulary),
        columns=_columns(arrays, train),
        read=len(y),
        owner_test=owner_test,
        held_out=held_out,
    )
    if len(train) < len(y):  # a copy only where something was set apart
        sets = sets._replace(train=Samples(take_rows(x, train), y[train]), rows=train)
        sets = sets._replace(owner=None if owner is None else owner[train])
    return sets, classes


def drawn_clients(present: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Which clients never train `[N]`: a share of those that have samples, at least one of them, and never all.

    Args:
      present: clients that have samples `[N]`.
      share: of them.
      seed: draws them.

    Raises:
      PartitionError: for fewer than two.
    """
    count = int(present.sum())
    if count < 2:
        raise PartitionError(
            f"{count} client has samples, and none would be left to train; take test.clients out",
            "test",
        )
    order = np.random.default_rng([seed, TEST_CLIENTS]).permutation(len(present))
    drawn = np.zeros(len(present), bool)
    drawn[order[present[order]][: min(max(round(share * count), 1), count - 1)]] = True
    return drawn


def _owners(arrays: Arrays) -> tuple[np.ndarray | None, np.ndarray | None, list[Any]]:
    """Client number of every row, and of every test row, where the samples brought ids of them, and the ids by number.

    Raises:
      DataError: for ids of test rows beside rows without ids, or with ids of another kind.
    """
    client, client_test = arrays.client, arrays.client_test
    if client_test is None or not len(client_test):
        if client is None:
            return None, None, []
        code, ids = numbered(client)
        return code, None, ids
    if client is None:
        raise DataError(
            "client_test says whose the test samples are; give client, whose the others are, as well"
        )
    if (client.dtype.kind in "biuf") != (client_test.dtype.kind in "biuf"):
        raise DataError(
            f"client_test: ids of {client_test.dtype}, those of client are {client.dtype}"
        )
    code, ids = numbered(np.concatenate([client, client_test]))
    return code[: len(client)], code[len(client) :], ids


def _as_numbers(arrays: Arrays) -> Arrays:
    """Features in memory, at their scale, for statistics of them.

    Raises:
      DataError: for tokens, which have none.
    """
    if vocabulary_of(arrays):
        raise DataError(
            "x holds tokens, which have no mean and no scale; take standardize and missing out"
        )
    if arrays.scale == 1.0:
        return arrays._replace(x=np.array(arrays.x)) if in_file(arrays.x) else arrays
    x, x_test = (
        None if part is None else np.asarray(part) * arrays.scale
        for part in (arrays.x, arrays.x_test)
    )
    return arrays._replace(x=x, x_test=x_test, scale=1.0)


def _columns(arrays: Arrays, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Further columns of some rows.

    Raises:
      DataError: for a column of another length.
    """
    columns = {name: np.asarray(values) for name, values in (arrays.columns or {}).items()}
    for name, values in columns.items():
        if values.shape != (len(arrays.y),):
            raise DataError(
                f"column {name[:40]!a}: shape {values.shape}, there are {len(arrays.y)} samples"
            )
    return {name: values[rows] for name, values in columns.items()}


def _split(
    arrays: Arrays,
    classes: int,
    shares: dict[str, float],
    server: int,
    seed: int,
    held_out: np.ndarray | None,
    owner: np.ndarray | None,
) -> dict[str, np.ndarray]:
    """Rows by purpose: `test`, `validation`, `server`, and `train`, which is what is left.

    Clients that are held out `[owners]` have all their rows in `test`, and nothing else is in it.
    """
    y = arrays.y
    labels = y if classes and not per_token(y) else np.zeros(len(y), np.int32)
    train, rows = np.arange(len(y)), {}
    for number, purpose in enumerate(("test", "validation", "server"), 1):
        supplied = purpose == "test" and arrays.y_test is not None and len(arrays.y_test)
        share = (
            server / max(len(train), 1)
            if purpose == "server"
            else 0.0
            if supplied
            else shares[purpose]
        )
        if share >= 1:
            raise PartitionError(
                f"{server} samples, but only {len(train)} are there for training", "server"
            )
        if purpose == "test" and held_out is not None:
            assert owner is not None
            mask = held_out[owner]
        else:
            mask = stratified(labels[train], share, np.random.default_rng([seed, number]))
        rows[purpose], train = train[mask], train[~mask]
        if not len(train):
            raise PartitionError(f"nothing is left to train on of {len(y)} samples", purpose)
    return {**rows, "train": train}


def _completed(
    arrays: Arrays,
    train: np.ndarray,
    missing: str,
    standardize: bool,
    dtype: np.dtype,
    names: tuple[str, ...] | None,
) -> Arrays:
    """Features without blanks and on one scale, all by statistics of the training samples; targets as `dtype`."""
    s = statistics(arrays.x, train, missing, standardize, names)
    x, x_test = (
        None if part is None else completed(part, s, dtype) for part in (arrays.x, arrays.x_test)
    )
    assert x is not None
    return checked(arrays._replace(x=x, x_test=x_test), dtype)[0]


def _without_blanks(arrays: Arrays) -> Arrays:
    """Samples, and test samples, whose features are all there."""
    x, y, x_test, y_test = (
        None if part is None else np.asarray(part)
        for part in (arrays.x, arrays.y, arrays.x_test, arrays.y_test)
    )
    for names, one, other in (
        (("x", "y", "client"), x, y),
        (("x_test", "y_test", "client_test"), x_test, y_test),
    ):
        if (
            one is None
            or other is None
            or one.dtype.kind != "f"
            or one.shape[:1] != other.shape[:1]
        ):
            continue
        kept = ~np.isnan(one.reshape(len(one), -1)).any(axis=1)
        parts = {name: getattr(arrays, name) for name in names}
        arrays = arrays._replace(
            **{n: None if part is None else np.asarray(part)[kept] for n, part in parts.items()}
        )
        if "x" in names and arrays.columns:
            arrays = arrays._replace(
                columns={n: np.asarray(part)[kept] for n, part in arrays.columns.items()}
            )
    return arrays


def stratified(labels: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Mask `[n]` of about `share` of the rows, the same share of every label (largest remainders)."""
    held = np.zeros(len(labels), bool)
    if not share:
        return held
    members, counts = by_label(labels)
    take = apportion(counts * share, round(len(labels) * share))
    for rows, k in zip(members, take, strict=True):
        held[rng.permutation(rows)[:k]] = True
    return held


def by_label(labels: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Rows of every label, in their order, and how many they are."""
    counts = np.bincount(labels)
    return np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1]), counts


def apportion(quota: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers that sum to `total`, each within one of its quota (largest remainders, ties to the lowest index)."""
    floor = np.floor(quota).astype(np.int64)
    missing = total - int(floor.sum())
    order = np.argsort(-(quota - floor), kind="stable")
    floor[order[: max(missing, 0)]] += 1
    while (
        missing < 0
    ):  # quotas that sum to more than `total` after rounding errors: give back, largest first
        floor[np.argmax(floor)] -= 1
        missing += 1
    return floor


def apportion_within(
    weight: np.ndarray, total: int, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Whole numbers in [low, high] that sum to `total` and are proportional to `weight` where the bounds allow it.

    One λ with Σ clip(λ·weight, low, high) = total, found by bisection; then largest remainders. Needs Σ low ≤ total ≤ Σ high.
    """
    weight = np.maximum(weight, weight.max() * 1e-12)  # nobody is out of λ's reach
    below, above = 0.0, float((high / weight).max())
    for _ in range(200):
        middle = (below + above) / 2
        if middle in (below, above):
            break
        below, above = (
            (middle, above)
            if np.clip(middle * weight, low, high).sum() <= total
            else (below, middle)
        )
    quota = np.clip(below * weight, low, high)
    floor = np.floor(quota).astype(np.int64)
    room = np.flatnonzero(floor < high)
    order = room[np.argsort(-(quota - floor)[room], kind="stable")]
    floor[order[: total - int(floor.sum())]] += 1
    return floor
