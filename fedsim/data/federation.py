"""A federation: the samples, and who holds what."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedsim.data.partition import Parts, parts_of
from fedsim.data.splits import Sets
from fedsim.sources.arrays import Names, per_token
from fedsim.sources.mapped import chunks


class Federation(NamedTuple):
    """Training samples and the clients that hold them, as CSR index lists, and the sets that no client trains on.

    Client k trains on the rows `indices[offsets[k]:offsets[k + 1]]` of `x` and `y`, and is scored on the rows
    `test_indices[test_offsets[k]:test_offsets[k + 1]]` of `x` followed by `x_test`, which it never trains on.
    """

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    indices: np.ndarray  # [n] int32
    offsets: np.ndarray  # [N + 1] int64
    classes: int  # 0: regression
    x_validation: np.ndarray  # empty: none
    y_validation: np.ndarray
    x_server: np.ndarray  # empty: the server has no samples of its own
    y_server: np.ndarray
    test_indices: np.ndarray  # int32
    test_offsets: np.ndarray  # [N + 1] int64
    named: bool  # the samples brought client ids
    names: Names = Names()  # of classes, clients and features
    scale: float = 1.0  # features are what x holds, times this
    vocabulary: int = 0  # above 0: x holds tokens, integers below this
    skews: Mapping[str, np.ndarray] = {}  # what every client has `[N]` of each skew, by column of partition.csv
    moves: tuple[
        int, ...
    ] = ()  # labels of training and own test samples move on by a class every so many rounds, for each
    source: str = ""  # SHA-256 of the samples before they were skewed or poisoned
    x_triggered: np.ndarray = np.empty(0)  # test samples of other labels than the attacker's target, with its trigger
    y_triggered: np.ndarray = np.empty(0)  # the target, for each

    @property
    def per_token(self) -> bool:
        """Whether every token has a label of its own, and a sample none."""
        return self.classes > 0 and per_token(self.y)

    @property
    def N(self) -> int:
        """Clients in all."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> np.ndarray:
        """Training samples per client `[N]`."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """Client of every entry of `indices`, `[n]`."""
        return np.repeat(np.arange(self.N), self.sizes)

    @property
    def test_owner(self) -> np.ndarray:
        """Client of every entry of `test_indices`."""
        return np.repeat(np.arange(self.N), np.diff(self.test_offsets))

    @property
    def client_names(self) -> np.ndarray:
        """What tables call the clients, by number `[N]`: their ids, or the numbers."""
        return np.arange(self.N) if self.names.clients is None else np.array(self.names.clients)

    @property
    def label_names(self) -> list[Any]:
        """What tables call the classes, by number."""
        return list(range(self.classes) if self.names.labels is None else self.names.labels)

    @property
    def scored(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The sets that models are scored on in evaluated rounds, by name, empty ones included."""
        test, validation = (self.x_test, self.y_test), (self.x_validation, self.y_validation)
        return {"test": test, "validation": validation, "triggered": (self.x_triggered, self.y_triggered)}

    @property
    def of_server(self) -> "Federation":
        """The server's own samples, as those of a single client."""
        n, none = len(self.y_server), self.test_indices[:0]
        return self._replace(
            x=self.x_server,
            y=self.y_server,
            indices=np.arange(n, dtype=np.int32),
            offsets=np.array([0, n]),
            test_indices=none,
            test_offsets=np.zeros(2, np.int64),
            moves=(),
        )

    @property
    def unused(self) -> int:
        """Samples beside the test set that nobody trains on, and no client is scored on."""
        return len(self.x) - len(self.indices) - int((self.test_indices < len(self.x)).sum())

    @property
    def held_out(self) -> np.ndarray:
        """Clients that never train and have samples of their own to be tested on `[N]`."""
        return (self.sizes == 0) & (np.diff(self.test_offsets) > 0)

    def label_counts(self) -> np.ndarray:
        """Training samples per client and class `[N, classes]`; not where tokens have the labels."""
        flat = self.owner * self.classes + self.y[self.indices]
        return np.bincount(flat, minlength=self.N * self.classes).reshape(self.N, self.classes)

    def label_shift(self, round: int) -> int:
        """How many classes the clients' labels have moved on by in a round, modulo the number of classes."""
        return sum((max(round, 1) - 1) // every for every in self.moves) % max(self.classes, 1)

    def labels_in(self, round: int) -> np.ndarray:
        """Labels of the clients' samples in a round `[n]`, training and own test samples alike."""
        shift = self.label_shift(round)
        return ((self.y + shift) % self.classes).astype(self.y.dtype) if shift else self.y

    def fingerprint(self) -> dict[str, str]:
        """SHA-256 of the samples and of the partition, names of classes and clients included.

        Where samples were skewed or poisoned, that of the samples is the one from before, and what they are now is part of
        the other.
        """
        others = (self.x_validation, self.y_validation, self.x_server, self.y_server)
        plain = self.scale == 1.0 and not self.vocabulary
        read = self.names.labels if plain else (self.names.labels, self.scale, self.vocabulary)
        dealt = (self.indices, self.offsets, self.test_indices, self.test_offsets)
        skewed = (self.x, self.y) if self.source else ()
        return {
            "data": self.source or _sha256(read, self.x, self.y, self.x_test, self.y_test, *others),
            "partition": _sha256(self.names.clients, *dealt, *skewed),
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
      client_test: share of every client's samples kept for its own scores, rounded; at least one stays to train on.
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
    starts = [np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[parts.offsets] for kept in (~tested, tested)]
    test_indices = parts.indices[tested]
    if by_id and sets.owner_test is not None:
        rows = np.arange(len(sets.x), len(sets.x) + len(sets.x_test))
        tests = parts_of(rows, sets.owner_test, len(parts.offsets) - 1)
        test_indices, starts[1] = tests.indices, tests.offsets
    return Federation(
        x=sets.x,
        y=sets.y,
        x_test=sets.x_test,
        y_test=sets.y_test,
        indices=parts.indices[~tested],
        offsets=starts[0],
        classes=classes,
        x_validation=sets.x_validation,
        y_validation=sets.y_validation,
        x_server=sets.x_server,
        y_server=sets.y_server,
        test_indices=test_indices,
        test_offsets=starts[1],
        named=sets.owner is not None,
        names=sets.names._replace(clients=parts.names),
        scale=sets.scale,
        vocabulary=sets.vocabulary,
    )


def _drawn_per_client(parts: Parts, share: float, rng: np.random.Generator) -> np.ndarray:
    """Mask over `parts.indices`: of every client, at random, its share."""
    sizes = np.diff(parts.offsets)
    take = np.minimum(np.rint(sizes * share).astype(np.int64), np.maximum(sizes - 1, 0))
    owner = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    order = rng.permutation(len(owner))
    order = order[np.argsort(owner[order], kind="stable")]  # clients one after another, each shuffled
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
