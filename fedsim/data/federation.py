"""A federation: the samples, and who holds what."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedsim.data.partition import Parts, parts_of
from fedsim.data.splits import Samples, Sets
from fedsim.sources.arrays import Names, per_token
from fedsim.sources.mapped import chunks


class Holders(NamedTuple):
    """Who holds which rows, as CSR index lists.

    Client k holds the rows `indices[offsets[k]:offsets[k + 1]]`.
    """

    indices: np.ndarray  # int32
    offsets: np.ndarray  # [N + 1] int64

    def of(self, client: int) -> np.ndarray:
        """Rows of a client."""
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
    """Five sets of samples, and the clients that hold them; a set that was not asked for is empty.

    A client trains on its rows of `train`, by `holders`. It is scored on its rows of `train`
    followed by `test`, by `test_holders`, which it never trains on.
    """

    train: Samples
    test: Samples
    validation: Samples
    server: Samples  # the server's own
    holders: Holders
    test_holders: Holders
    classes: int  # 0: regression
    named: bool  # the samples brought client ids
    names: Names = Names()  # of classes, clients and features
    scale: float = 1.0  # features are what x holds, times this
    vocabulary: int = 0  # above 0: x holds tokens, integers below this
    # what every client has `[N]` of each skew, by column of partition.csv
    skews: Mapping[str, np.ndarray] = {}
    # labels of training and own test samples move on by a class every so many rounds, for each
    moves: tuple[int, ...] = ()
    source: str = ""  # SHA-256 of the samples before they were skewed or poisoned
    # test samples of other labels than the attacker's target, with its trigger; the target of each
    triggered: Samples = Samples(np.empty(0), np.empty(0))

    @property
    def per_token(self) -> bool:
        """Whether every token has a label of its own, and a sample none."""
        return self.classes > 0 and per_token(self.train.y)

    @property
    def N(self) -> int:
        """Clients in all."""
        return len(self.holders.offsets) - 1

    @property
    def sizes(self) -> np.ndarray:
        """Training samples per client `[N]`."""
        return self.holders.sizes

    @property
    def client_names(self) -> np.ndarray:
        """What tables call the clients, by number `[N]`: their ids, or the numbers."""
        return np.arange(self.N) if self.names.clients is None else np.array(self.names.clients)

    @property
    def label_names(self) -> list[Any]:
        """What tables call the classes, by number."""
        return list(range(self.classes) if self.names.labels is None else self.names.labels)

    @property
    def scored(self) -> dict[str, Samples]:
        """The sets that models are scored on in evaluated rounds, by name, empty ones included."""
        return {"test": self.test, "validation": self.validation, "triggered": self.triggered}

    @property
    def of_server(self) -> "Federation":
        """The server's own samples, as those of a single client."""
        n, nothing = len(self.server.y), self.test_holders.indices[:0]
        return self._replace(
            train=self.server,
            holders=Holders(np.arange(n, dtype=np.int32), np.array([0, n])),
            test_holders=Holders(nothing, np.zeros(2, np.int64)),
            moves=(),
        )

    @property
    def unused(self) -> int:
        """Samples beside the test set that nobody trains on, and no client is scored on."""
        n = len(self.train.x)
        return n - len(self.holders.indices) - int((self.test_holders.indices < n).sum())

    @property
    def held_out(self) -> np.ndarray:
        """Clients that never train and have samples of their own to be tested on `[N]`."""
        return (self.sizes == 0) & (self.test_holders.sizes > 0)

    def label_counts(self) -> np.ndarray:
        """Training samples per client and class `[N, classes]`; not for labels of tokens."""
        flat = self.holders.owner * self.classes + self.train.y[self.holders.indices]
        return np.bincount(flat, minlength=self.N * self.classes).reshape(self.N, self.classes)

    def label_shift(self, round: int) -> int:
        """Classes that the clients' labels have moved on by in a round, modulo their number."""
        return sum((max(round, 1) - 1) // every for every in self.moves) % max(self.classes, 1)

    def labels_in(self, round: int) -> np.ndarray:
        """Labels of the clients' samples in a round `[n]`, training and own test samples alike."""
        shift = self.label_shift(round)
        y = self.train.y
        return ((y + shift) % self.classes).astype(y.dtype) if shift else y

    def fingerprint(self) -> dict[str, str]:
        """SHA-256 of the samples and of the partition, names of classes and clients included.

        Where samples were skewed or poisoned, that of the samples is the one from before, and what
        they are now is part of the other.
        """
        plain = self.scale == 1.0 and not self.vocabulary
        read = self.names.labels if plain else (self.names.labels, self.scale, self.vocabulary)
        sets = (*self.train, *self.test, *self.validation, *self.server)
        skewed = self.train if self.source else ()
        return {
            "data": self.source or _sha256(read, *sets),
            "partition": _sha256(self.names.clients, *self.holders, *self.test_holders, *skewed),
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
    """Prepared samples and the parts of the clients -> a federation.

    Args:
      sets: what `prepare` made.
      classes: as it counted them.
      parts: index lists of the clients.
      client_test: share of every client's samples kept for its own scores, rounded; at least one
        stays to train on.
      rng: draws them; not needed for a share of 0.
      by_id: whether client k is the k-th id of the samples; test rows of that id are its own.
      held_out: clients that never train `[N]`: all their samples are their own to be tested on.
    """
    tested = np.zeros(len(parts.indices), bool)
    if client_test:
        assert rng is not None
        tested = _drawn_per_client(parts, client_test, rng)
    if held_out is not None:
        tested |= np.repeat(held_out, np.diff(parts.offsets))
    holders, test_holders = (_holders(parts, kept) for kept in (~tested, tested))
    if by_id and sets.owner_test is not None:
        rows = np.arange(len(sets.train.x), len(sets.train.x) + len(sets.test.x))
        tests = parts_of(rows, sets.owner_test, len(parts.offsets) - 1)
        test_holders = Holders(tests.indices, tests.offsets)
    return Federation(
        train=sets.train,
        test=sets.test,
        validation=sets.validation,
        server=sets.server,
        holders=holders,
        test_holders=test_holders,
        classes=classes,
        named=sets.owner is not None,
        names=sets.names._replace(clients=parts.names),
        scale=sets.scale,
        vocabulary=sets.vocabulary,
    )


def _holders(parts: Parts, kept: np.ndarray) -> Holders:
    """Of the rows of all clients, those that are kept (a mask over `parts.indices`)."""
    before = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
    return Holders(parts.indices[kept], before[parts.offsets])


def _drawn_per_client(parts: Parts, share: float, rng: np.random.Generator) -> np.ndarray:
    """Mask over `parts.indices`: of every client, at random, its share."""
    sizes = np.diff(parts.offsets)
    take = np.minimum(np.rint(sizes * share).astype(np.int64), np.maximum(sizes - 1, 0))
    owner = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    order = rng.permutation(len(owner))
    # clients one after another, each shuffled
    order = order[np.argsort(owner[order], kind="stable")]
    rank = np.arange(len(owner)) - parts.offsets[:-1][owner]
    drawn = np.zeros(len(owner), bool)
    drawn[order] = rank < take[owner]
    return drawn


def _sha256(names: tuple[Any, ...] | None, *arrays: np.ndarray) -> str:
    digest = hashlib.sha256(b"" if names is None else json.dumps(names).encode())
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        for part in chunks(array):
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()
