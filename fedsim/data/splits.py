"""What clients do not get: the test set, the validation set, and the server's own samples."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.data.apportionment import apportion, count_of
from fedsim.data.completion import (
    Completion,
    Statistics,
    as_numbers,
    completed,
    statistics_of,
    statistics_of_clients,
    without_blanks,
)
from fedsim.errors import DataError, PartitionError, near_miss
from fedsim.sources.arrays import Arrays, Names, TableColumn, encode_labels, is_per_token, validate
from fedsim.sources.cells import Task
from fedsim.sources.ids import number_ids
from fedsim.sources.targets import with_task, without_objects

# What draws by the data's seed are for; a number is never reused for another purpose.
TEST = 1
VALIDATION = 2
SERVER = 3
TEST_CLIENTS = 4

MAX_NAMED = 8  # clients that an error lists

HeldOut = float | Sequence[str | int]  # a share of the clients, or their names


class Samples(NamedTuple):
    """A set of samples, row by row."""

    x: np.ndarray  # features `[n, ...]`
    y: np.ndarray  # labels `[n]`, labels of tokens `[n, T]`, or targets `[n, ...]`


class Sets(NamedTuple):
    """Checked samples by purpose; sets that were not asked for are empty.

    `owners` counts the clients that ids name, also those whose samples were all set apart.
    """

    train: Samples  # what clients may train on
    owner: np.ndarray | None  # client number of every training row; None: no ids
    owners: int
    test: Samples
    validation: Samples
    server: Samples  # the server's own
    names: Names = Names()  # of classes, clients and features
    scale: float = 1.0  # features are the stored numbers, times this
    vocabulary: int = 0  # number of tokens, if features are tokens
    columns: Mapping[str, np.ndarray] = {}  # further columns of the training rows
    rows: np.ndarray | None = None  # number of every training row among all; None: the same
    rows_read: int = 0  # how many rows were read
    owner_test: np.ndarray | None = None  # client number of every test row; None: no ids
    # clients that never train `[owners]`, whose rows are among the training rows, if any
    held_out: np.ndarray | None = None
    statistics: Statistics | None = None  # what became of each feature; None: nothing
    channels_first: bool = False  # how images, which have their channels last, were read
    remarks: tuple[str, ...] = ()  # what was changed, and what seems wrong, a line for each


class SplitSizes(NamedTuple):
    """How much is set apart; see `prepare`."""

    test: float
    validation: float
    server: int


class SplitRows(NamedTuple):
    """Rows by purpose; `train` is what the others leave."""

    train: np.ndarray
    test: np.ndarray
    validation: np.ndarray
    server: np.ndarray


class Owners(NamedTuple):
    """Whose the samples are; see `Sets`."""

    owner: np.ndarray | None
    owner_test: np.ndarray | None
    ids: list[Any]  # by client number


def prepare(
    arrays: Arrays,
    *,
    test: float,
    test_clients: HeldOut = 0.0,
    seed: int,
    dtype: np.dtype,
    validation: float = 0.0,
    server: int = 0,
    task: Task = None,
    **completes: Any,
) -> tuple[Sets, int]:
    """Check the samples and set apart what clients do not get -> (sets, classes).

    Args:
      arrays: the samples.
      test: share of the samples in the test set, stratified by label; ignored if the samples bring
        a test set.
      test_clients: share of the clients, by the samples' ids, that never train, or their ids.
        Nothing that is drawn or computed from the training samples looks at theirs, which stay
        among the training rows; but statistics of each client are, of such a client, of its own.
      seed: seed of all these splits, which do not depend on the run's seed.
      dtype: float type of the features.
      validation: share of the other samples in the validation set, stratified by label.
      server: samples of the rest that the server gets, stratified by label.
      task: whether labels are classes or numbers; None: as their type says.
      **completes: what is done to features, by statistics of the samples that clients get: the
        fields of `Completion`.

    Raises:
      DataError: for samples that cannot be learned from.
      PartitionError: if nothing is left to train on.
    """
    completion = Completion(**completes)
    arrays = with_task(without_objects(arrays), task)

    # Names, and faults that can be seen without statistics.
    arrays = arrays._replace(scale=1.0 if arrays.scale is None else float(arrays.scale))
    if completion.missing == "drop":
        arrays = without_blanks(arrays)
    arrays, labels = encode_labels(arrays)
    features = None if arrays.features is None else tuple(arrays.features)
    table = _table_of(arrays)
    if completion.changes_features:
        arrays = as_numbers(arrays)
    first_dtype = np.dtype(np.float64) if completion.changes_features else dtype
    arrays, classes = validate(arrays, first_dtype, blanks=completion.fills)

    # Who has which rows, and which rows are for what.
    owners = _owners(arrays)
    owner = owners.owner
    held_out = None
    held_out_rows = None
    if test_clients and owner is not None:
        present = np.bincount(owner, minlength=len(owners.ids)) > 0
        held_out = clients_to_test(present, test_clients, seed, owners.ids)
        held_out_rows = held_out[owner]
    sizes = SplitSizes(test, validation, server)
    rows = _split(arrays, classes, sizes, seed, held_out_rows)

    statistics = None
    if completion.changes_features:
        statistics = _statistics(arrays, rows.train, completion, owners, held_out_rows)
        arrays = completed(arrays, statistics, dtype, owner, owners.owner_test)
        features = None if arrays.features is None else tuple(arrays.features)

    # Clients that never train keep their rows.
    if held_out is not None:
        train = np.sort(np.concatenate([rows.train, rows.test]))
        rows = rows._replace(train=train, test=train[:0])

    assert arrays.scale is not None
    are_numbers = owners.ids == list(range(len(owners.ids)))
    client_names = None if are_numbers else tuple(owners.ids)
    sets = Sets(
        train=Samples(arrays.x, arrays.y),
        owner=owner,
        owners=len(owners.ids),
        test=_test_set(arrays, rows.test),
        validation=_samples_of(arrays, rows.validation),
        server=_samples_of(arrays, rows.server),
        names=Names(labels, client_names, features, table),
        scale=arrays.scale,
        vocabulary=int(arrays.vocabulary),
        columns=_columns(arrays, rows.train),
        rows_read=len(arrays.y),
        owner_test=owners.owner_test,
        held_out=held_out,
        statistics=statistics,
    )
    if len(rows.train) < len(arrays.y):
        sets = _restricted(sets, rows.train)
    return sets, classes


def _statistics(
    arrays: Arrays,
    train: np.ndarray,
    completion: Completion,
    owners: "Owners",
    held_out_rows: np.ndarray | None,
) -> Statistics:
    x = np.asarray(arrays.x)
    features = None if arrays.features is None else tuple(arrays.features)
    statistics = statistics_of(x, train, completion, features)
    if completion.indicators and x.ndim == 2:
        with_blanks = np.flatnonzero(np.isnan(x).any(axis=0))
        statistics = statistics._replace(indicators=with_blanks)
    if completion.statistics == "all" or owners.owner is None:
        return statistics
    counted = np.zeros(len(x), bool)
    counted[train] = True
    if held_out_rows is not None:
        counted |= held_out_rows
    own = [np.flatnonzero(counted & (owners.owner == client)) for client in range(len(owners.ids))]
    return statistics_of_clients(x, own, statistics, completion)


def _table_of(arrays: Arrays) -> tuple[TableColumn, ...] | None:
    if arrays.table is None and arrays.features is not None and np.ndim(arrays.x) == 2:
        return tuple(TableColumn(name, "numbers") for name in arrays.features)
    return None if arrays.table is None else tuple(arrays.table)


def _samples_of(arrays: Arrays, rows: np.ndarray) -> Samples:
    return Samples(arrays.x[rows], arrays.y[rows])


def _test_set(arrays: Arrays, rows: np.ndarray) -> Samples:
    """Return the rows that were drawn to test on, or else the test set that the samples bring."""
    if len(rows):
        return _samples_of(arrays, rows)
    assert arrays.x_test is not None and arrays.y_test is not None
    return Samples(arrays.x_test, arrays.y_test)


def _restricted(sets: Sets, rows: np.ndarray) -> Sets:
    x, y = sets.train
    return sets._replace(
        train=Samples(x[rows], y[rows]),
        rows=rows,
        owner=None if sets.owner is None else sets.owner[rows],
    )


def drawn_clients(present: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Draw a share of the clients that have samples `[N]` to never train: at least one, not all."""
    count = int(present.sum())
    if count < 2:
        raise PartitionError(
            f"{count} client has samples, and none would be left to train; remove test.clients",
            "test",
        )
    order = np.random.default_rng([seed, TEST_CLIENTS]).permutation(len(present))
    candidates = order[present[order]]
    wanted = max(count_of(share, count), 1)
    drawn = np.zeros(len(present), bool)
    drawn[candidates[: min(wanted, count - 1)]] = True
    return drawn


def clients_to_test(
    present: np.ndarray, chosen: HeldOut, seed: int, names: Sequence[Any]
) -> np.ndarray:
    """Return the clients that never train `[N]`: a share of those with samples, or by name."""
    if isinstance(chosen, float | int):
        return drawn_clients(present, chosen, seed)
    numbers = {str(name): number for number, name in enumerate(names) if present[number]}
    held_out = np.zeros(len(present), bool)
    for name in map(str, chosen):
        if name not in numbers:
            there = ", ".join(list(numbers)[:MAX_NAMED])
            hint = near_miss(name, numbers) or f"there are {there}"
            raise PartitionError(f"no client {name[:40]!a}; {hint}", "test.clients")
        held_out[numbers[name]] = True
    if held_out[present].all():
        raise PartitionError("names all clients, and none would be left to train", "test.clients")
    return held_out


def _owners(arrays: Arrays) -> Owners:
    client = arrays.client
    client_test = arrays.client_test
    if client_test is None or not len(client_test):
        if client is None:
            return Owners(None, None, [])
        number, ids = number_ids(client)
        return Owners(number, None, ids)

    if client is None:
        raise DataError(
            "client_test names the clients of the test samples; "
            "give client, which names those of the other samples, as well"
        )
    if (client.dtype.kind in "biuf") != (client_test.dtype.kind in "biuf"):
        raise DataError(
            f"client_test: ids of {client_test.dtype}, those of client are {client.dtype}"
        )
    number, ids = number_ids(np.concatenate([client, client_test]))
    return Owners(number[: len(client)], number[len(client) :], ids)


def _columns(arrays: Arrays, rows: np.ndarray) -> dict[str, np.ndarray]:
    n = len(arrays.y)
    columns = {name: np.asarray(values) for name, values in (arrays.columns or {}).items()}
    for name, values in columns.items():
        if values.shape != (n,):
            raise DataError(
                f"column {name[:40]!a} has shape {values.shape}, but there are {n} samples"
            )
    return {name: values[rows] for name, values in columns.items()}


def _split(
    arrays: Arrays,
    classes: int,
    sizes: SplitSizes,
    seed: int,
    held_out: np.ndarray | None,
) -> SplitRows:
    """Set rows apart: first those of the test set, then those for validation, then the server's.

    All rows of clients that never train, `held_out` `[n]`, are test rows, and no others then.
    """
    n = len(arrays.y)
    has_labels = classes and not is_per_token(arrays.y)
    labels = arrays.y if has_labels else np.zeros(n, np.int32)

    def drawn(rows: np.ndarray, share: float, purpose: int) -> np.ndarray:
        return stratified(labels[rows], share, np.random.default_rng([seed, purpose]))

    def set_apart(rows: np.ndarray, mask: np.ndarray, key: str) -> tuple[np.ndarray, np.ndarray]:
        if mask.all():
            raise PartitionError(f"none of {n} samples is left to train on", key)
        return rows[mask], rows[~mask]

    rest = np.arange(n)
    brings_test = arrays.y_test is not None and len(arrays.y_test)
    if held_out is not None:
        mask = held_out
    else:
        mask = drawn(rest, 0.0 if brings_test else sizes.test, TEST)
    test, rest = set_apart(rest, mask, "test")

    mask = drawn(rest, sizes.validation, VALIDATION)
    validation, rest = set_apart(rest, mask, "validation")

    if sizes.server >= len(rest):
        raise PartitionError(
            f"{sizes.server} samples, but only {len(rest)} are left for training", "server"
        )
    mask = drawn(rest, sizes.server / len(rest), SERVER)
    server, rest = set_apart(rest, mask, "server")
    return SplitRows(train=rest, test=test, validation=validation, server=server)


def stratified(labels: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Draw about a share of the rows, the same share of every label `[n]` (largest remainders)."""
    drawn = np.zeros(len(labels), bool)
    if not share:
        return drawn
    members, counts = by_label(labels)
    numbers = apportion(counts * share, count_of(share, len(labels)))
    for rows, number in zip(members, numbers, strict=True):
        drawn[rng.permutation(rows)[:number]] = True
    return drawn


def by_label(labels: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the rows of every label, in order, and their numbers."""
    counts = np.bincount(labels)
    grouped = np.argsort(labels, kind="stable")
    return np.split(grouped, np.cumsum(counts)[:-1]), counts
