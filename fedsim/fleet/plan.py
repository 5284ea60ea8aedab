"""The plan: everything about a round that does not depend on the value of a parameter, decided on the host.

A round's plan is a pure function of `(scenario, seed, round)` and not of the method: whatever is compared, is compared
under the same cohorts, batches and failures.
"""

from typing import NamedTuple

import numpy as np

from fedsim.data import Federation
from fedsim.fleet.selection import Cohort
from fedsim.fleet.streams import Stream, generator


class Local(NamedTuple):
    """How much a client trains in a round, and in which order it visits its samples."""

    batch: int | None  # None: all samples of the client
    epochs: int | None
    steps: int | list[int] | None  # exactly one of `epochs` and `steps`
    shuffle: bool
    drop_last: bool
    lr: float


class RoundPlan(NamedTuple):
    """Who trains in a round; arrays `[K]` over slots, in the order of client ids."""

    round: int
    ids: np.ndarray  # int64
    count: np.ndarray  # times drawn
    samples: np.ndarray  # n_k
    weight: np.ndarray  # n_k, 0 where nothing arrives
    steps: np.ndarray  # planned local steps
    lr: float
    seconds: float  # virtual duration of the round


class Plan:
    """The rounds of one run of one seed."""

    def __init__(self, federation: Federation, cohort: Cohort, local: Local, seed: int):
        self.federation, self.cohort, self.local, self.seed = federation, cohort, local, seed
        self.eligible = np.flatnonzero(federation.sizes > 0)  # a client without samples cannot train
        self.steps = planned_steps(federation.sizes, local)

    def round(self, r: int) -> RoundPlan:
        """Cohort, weights and work of round r ≥ 1."""
        drawn = self.cohort.draw(self.eligible, r, generator(self.seed, Stream.COHORT, r))
        ids, count = np.unique(drawn, return_counts=True)
        n, steps = self.federation.sizes[ids], self.steps[ids]
        weight = np.where(steps > 0, n, 0)
        seconds = float(steps.max()) if len(ids) else 0.0  # one virtual second a local step, infinite links
        return RoundPlan(r, ids, count, n, weight, steps, self.local.lr, seconds)

    def batches(self, r: int, client: int) -> tuple[np.ndarray, np.ndarray]:
        """Sample rows `[steps, B]` (int32, 0 where padded) and valid rows per step `[steps]` of a client in round r."""
        f, local = self.federation, self.local
        rows = f.indices[f.offsets[client] : f.offsets[client + 1]]
        n, steps = len(rows), int(self.steps[client])
        B = n if local.batch is None else local.batch
        per_epoch = batches_per_epoch(n, local)
        epochs = -(-steps // per_epoch)
        order = np.broadcast_to(np.arange(n), (epochs, n))
        if local.shuffle and n > B:
            order = generator(self.seed, Stream.BATCHES, r, client).permuted(order, axis=1)
        width = per_epoch * B
        index = np.zeros((epochs, width), np.int32)
        index[:, : min(n, width)] = rows[order[:, : min(n, width)]]
        valid = np.full((epochs, per_epoch), B, np.int32)
        valid[:, -1] = min(n, width) - (per_epoch - 1) * B
        return index.reshape(-1, B)[:steps], valid.reshape(-1)[:steps]


def batches_per_epoch(n, local: Local):
    """Batches in a pass over n samples (a number or an array); `drop_last` keeps the first batch of a small client."""
    if local.batch is None:
        return np.minimum(n, 1)
    return np.maximum(n // local.batch, np.minimum(n, 1)) if local.drop_last else -(-n // local.batch)


def planned_steps(sizes: np.ndarray, local: Local) -> np.ndarray:
    """Local steps of every client `[N]`; none for a client without samples."""
    if local.steps is None:
        assert local.epochs is not None
        return local.epochs * batches_per_epoch(sizes, local)
    return np.where(sizes > 0, np.broadcast_to(np.asarray(local.steps, np.int64), sizes.shape), 0)
