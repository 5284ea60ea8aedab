"""A federation: the samples, and which client has which."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedsim.data.completion import Statistics
from fedsim.data.partition import Parts, parts_of
from fedsim.data.splits import Samples, Sets
from fedsim.sources.arrays import Names, is_per_token


class Holders(NamedTuple):
    """Which client has which rows, as CSR index lists.

    Client k has the rows `indices[offsets[k]:offsets[k + 1]]`.
    """

    indices: np.ndarray  # int32
    offsets: np.ndarray  # where each client's rows begin, and the end `[N + 1]` int64

    def of(self, client: int) -> np.ndarray:
        """Return the rows of a client."""
        return self.indices[self.offsets[client] : self.offsets[client + 1]]

    @property
    def sizes(self) -> np.ndarray:
        """Rows per client `[N]`."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """Client of every entry of `indices`."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.sizes)


class Federation(NamedTuple):
    """Five sets of samples, and the clients that have them.

    A client trains on its rows of `train`, given by `holders`. It is scored on its rows of `train`
    followed by `test`, given by `test_holders`, which it never trains on. Sets that were not asked
    for are empty.

    `class_counts` are the samples of each class `[C]` among those of all clients, as they were
    read; test clients are left out where the ids of samples name the clients. Empty: regression.
    """

    train: Samples  # of the clients
    test: Samples
    validation: Samples
    server: Samples  # the server's own
    holders: Holders
    test_holders: Holders
    classes: int  # 0: regression
    has_client_ids: bool  # whether samples came with ids
    names: Names = Names()  # of classes, clients and features
    scale: float = 1.0  # features are what x holds, times this
    vocabulary: int = 0  # number of tokens, if x holds tokens
    skews: Mapping[str, np.ndarray] = {}  # numbers of clients `[N]`, by column of partition.csv
    # numbers of rounds after each of which the clients' labels move on by one class
    label_shift_periods: tuple[int, ...] = ()
    source: str = ""  # SHA-256 of the samples before they were changed, if they were
    # samples labelled as somebody wants them taken, by the column of how often they are
    aims: Mapping[str, Samples] = {}
    origin: "Federation | None" = None  # whose samples were pooled
    adapting: Holders | None = None  # rows that clients which never train tune their own models on
    # rows of each client that are scored while the run lasts
    validation_holders: Holders | None = None
    statistics: Statistics | None = None  # what became of each feature; None: nothing
    channels_first: bool = False  # how images, which have their channels last, were read
    class_counts: np.ndarray | tuple[()] = ()
    remarks: tuple[str, ...] = ()  # what was changed, and what seems wrong, a line for each

    @property
    def given_shape(self) -> tuple[int, ...]:
        """The shape of a sample as it was read."""
        shape = self.train.x.shape[1:]
        return (shape[-1], *shape[:-1]) if self.channels_first else shape

    @property
    def per_token(self) -> bool:
        """Whether every token has a label, instead of every sample."""
        return self.classes > 0 and is_per_token(self.train.y)

    @property
    def N(self) -> int:
        """Number of clients."""
        return len(self.holders.offsets) - 1

    @property
    def sizes(self) -> np.ndarray:
        """Training samples per client `[N]`."""
        return self.holders.sizes

    @property
    def client_names(self) -> np.ndarray:
        """What tables call the clients `[N]`: their ids, or their numbers."""
        return np.arange(self.N) if self.names.clients is None else np.array(self.names.clients)

    @property
    def label_names(self) -> list[Any]:
        """What tables call the classes: their names, or their numbers."""
        return list(range(self.classes) if self.names.labels is None else self.names.labels)

    @property
    def scored(self) -> dict[str, Samples]:
        """The sets, empty or not, that models are scored on in evaluated rounds, by name."""
        return {"test": self.test, "validation": self.validation, **self.aims}

    @property
    def pooled(self) -> "Federation":
        """The training samples of all clients, client after client, as those of a single one."""
        rows = self.holders.indices
        nothing = self.test_holders.indices[:0]
        return self._replace(
            holders=Holders(rows, np.array([0, len(rows)])),
            test_holders=Holders(nothing, np.zeros(2, np.int64)),
            names=self.names._replace(clients=None),
            skews={},
            origin=self,
        )

    @property
    def tuned(self) -> "Federation":
        """The clients with the samples that their own models are tuned on before a score."""
        if self.adapting is None:
            return self
        rows = np.concatenate([self.holders.indices, self.adapting.indices])
        owner = np.concatenate([self.holders.owner, self.adapting.owner])
        parts = parts_of(rows, owner, self.N)
        return self._replace(holders=Holders(parts.indices, parts.offsets))

    @property
    def unpooled(self) -> "Federation":
        """The federation of the clients, whose samples may have been pooled."""
        return self if self.origin is None else self.origin

    @property
    def unused(self) -> int:
        """Number of samples in `train` that no client trains on, and none is scored on."""
        n = len(self.train.x)
        scored = int((self.test_holders.indices < n).sum())
        if self.validation_holders is not None:
            scored += int((self.validation_holders.indices < n).sum())
        adapting = 0 if self.adapting is None else len(self.adapting.indices)
        return n - len(self.holders.indices) - adapting - scored

    @property
    def tests_own(self) -> bool:
        """Whether any client that trains has test samples of its own."""
        return not self.held_out[self.test_holders.owner].all()

    @property
    def held_out(self) -> np.ndarray:
        """Clients that never train, but are tested on their samples `[N]`."""
        return (self.sizes == 0) & (self.test_holders.sizes > 0)

    def label_counts(self) -> np.ndarray:
        """Return the training samples per client and class `[N, C]`; not for labels of tokens."""
        client_and_class = self.holders.owner * self.classes + self.train.y[self.holders.indices]
        counts = np.bincount(client_and_class, minlength=self.N * self.classes)
        return counts.reshape(self.N, self.classes)

    def label_shift(self, round: int) -> int:
        """Return how many classes the clients' labels have moved on by in a round, modulo all."""
        rounds_before = max(round, 1) - 1
        return sum(rounds_before // period for period in self.label_shift_periods) % max(
            self.classes, 1
        )

    def labels_in(self, round: int) -> np.ndarray:
        """Return the labels of the clients' training and test samples in a round `[n]`."""
        y = self.train.y
        shift = self.label_shift(round)
        if not shift:
            return y
        return ((y + shift) % self.classes).astype(y.dtype)

    def fingerprint(self) -> dict[str, str]:
        """Return the SHA-256 of the samples and of the partition, both with names.

        If samples were changed, `data` is the hash of the samples before, and `partition` includes
        what they are now.
        """
        as_stored = self.scale == 1.0 and not self.vocabulary
        if as_stored:
            metadata = self.names.labels
        else:
            metadata = (self.names.labels, self.scale, self.vocabulary)
        sets = (*self.train, *self.test, *self.validation, *self.server)
        changed = self.train if self.source else ()
        lists = (*self.holders, *self.test_holders, *changed)
        for more in (self.adapting, self.validation_holders):
            if more is not None:
                lists = (*lists, *more)
        return {
            "data": self.source or _sha256(metadata, *sets),
            "partition": _sha256(self.names.clients, *lists),
        }


def federate(
    sets: Sets,
    classes: int,
    parts: Parts,
    client_test: float = 0.0,
    rng: np.random.Generator | None = None,
    by_id: bool = False,
    held_out: np.ndarray | None = None,
) -> Federation:
    """Combine prepared samples and a partition into a federation.

    Args:
      sets: the samples, from `prepare`.
      classes: number of classes, from `prepare`.
      parts: the partition.
      client_test: share of every client's samples that it is tested on instead (rounded); at least
        one sample stays for training.
      rng: draws these samples; not needed if the share is 0.
      by_id: whether client k is the k-th id of the samples; it is then tested on the test rows with
        its id.
      held_out: clients that never train `[N]`. They are tested on all their samples or, with
        `client_test`, on their share, and tune their own models on the others.
    """
    tested = np.zeros(len(parts.indices), bool)
    trained = ~tested
    if client_test:
        assert rng is not None
        tested = _drawn_per_client(parts, client_test, rng)
        trained = ~tested
    adapting = None
    if held_out is not None:
        is_held_out = np.repeat(held_out, np.diff(parts.offsets))
        if client_test:
            adapting = _selected(parts, trained & is_held_out)
        else:
            tested = is_held_out
        trained &= ~is_held_out

    holders = _selected(parts, trained)
    test_holders = _selected(parts, tested)
    if by_id and sets.owner_test is not None:
        n = len(sets.train.x)  # test rows follow the training rows
        rows = np.arange(n, n + len(sets.test.x))
        tests = parts_of(rows, sets.owner_test, len(parts.offsets) - 1)
        test_holders = Holders(tests.indices, tests.offsets)

    counted = parts.indices
    if by_id and held_out is not None:
        counted = counted[~np.repeat(held_out, np.diff(parts.offsets))]

    return Federation(
        train=sets.train,
        test=sets.test,
        validation=sets.validation,
        server=sets.server,
        holders=holders,
        test_holders=test_holders,
        classes=classes,
        has_client_ids=sets.owner is not None,
        names=sets.names._replace(clients=parts.names),
        scale=sets.scale,
        vocabulary=sets.vocabulary,
        statistics=sets.statistics,
        channels_first=sets.channels_first,
        class_counts=_class_counts(sets.train.y[counted], classes),
        remarks=sets.remarks,
        adapting=adapting,
    )


def _class_counts(y: np.ndarray, classes: int) -> np.ndarray:
    """Samples, or tokens, of each class `[C]`."""
    if not classes:
        return np.zeros(0, np.int64)
    return np.bincount(y[y >= 0], minlength=classes)


def with_client_validation(f: Federation, rng: np.random.Generator) -> Federation:
    """Return the federation with half of each client's test samples for validation."""
    parts = Parts(*f.test_holders)
    chosen = _drawn_per_client(parts, 0.5, rng, round=np.floor)
    return f._replace(
        test_holders=_selected(parts, ~chosen), validation_holders=_selected(parts, chosen)
    )


def _selected(parts: Parts, mask: np.ndarray) -> Holders:
    """Return the selected rows of all clients (a mask over `parts.indices`)."""
    selected_before = np.concatenate([[0], np.cumsum(mask, dtype=np.int64)])
    return Holders(parts.indices[mask], selected_before[parts.offsets])


def _drawn_per_client(
    parts: Parts,
    share: float,
    rng: np.random.Generator,
    round: Callable[[np.ndarray], np.ndarray] = np.rint,
) -> np.ndarray:
    """Draw a share of every client's rows (a mask over `parts.indices`), never all of them."""
    sizes = np.diff(parts.offsets)
    wanted = round(sizes * share).astype(np.int64)
    numbers = np.minimum(wanted, np.maximum(sizes - 1, 0))

    # Shuffle each client's rows: shuffle all rows, then sort them by client.
    owner = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    order = rng.permutation(len(owner))
    order = order[np.argsort(owner[order], kind="stable")]

    # Take the first ones of each client.
    rank = np.arange(len(owner)) - parts.offsets[:-1][owner]
    drawn = np.zeros(len(owner), bool)
    drawn[order] = rank < numbers[owner]
    return drawn


def _sha256(metadata: tuple[Any, ...] | None, *arrays: np.ndarray) -> str:
    digest = hashlib.sha256(b"" if metadata is None else json.dumps(metadata).encode())
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
