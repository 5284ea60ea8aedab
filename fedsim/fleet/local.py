"""Local training: how many steps a client takes, and how its epochs are cut into batches."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedsim.types import LocalPhase


def asked_phase(phases: tuple[LocalPhase, ...]) -> int:
    """Return the index of the phase that takes the steps that the scenario asks for."""
    return [phase.steps for phase in phases].index(None)


class Local(NamedTuple):
    """How much a client trains in a round, and in which order it visits its samples.

    Attributes:
      batch: samples in a batch, the expected number in a Poisson batch; None: all samples of the
        client.
      epochs: passes over the samples; exactly one of `epochs` and `steps` is given.
      steps: local steps, one number for all clients or a list with one per client.
      shuffle: whether every epoch visits the samples in a new random order.
      drop_last: whether an incomplete last batch is left out.
      lr: round, from 1 -> the clients' learning rate.
      rate: local step, from 0 -> learning rate, which then replaces `lr`; None: `lr` counts.
      poisson: whether batches are Poisson batches: each of the n samples is in one by itself,
        with probability batch / n.
      cap: samples of a Poisson batch at most, of more so many are drawn; None: no bound.
      phases: the phases of a client method that has several, in order.
    """

    batch: int | None
    epochs: int | None
    steps: int | list[int] | None
    shuffle: bool
    drop_last: bool
    lr: Callable[[int], float]
    rate: Callable[[int], float] | None = None
    poisson: bool = False
    cap: int | None = None
    phases: tuple[LocalPhase, ...] = ()

    @property
    def held_out(self) -> float:
        """Share of a client's samples that only one phase is dealt; 0: none."""
        return max((phase.held_out for phase in self.phases), default=0.0)

    @property
    def asked(self) -> int:
        """Index of the phase that takes the steps that the scenario asks for."""
        return asked_phase(self.phases)

    def widest(self, sizes: np.ndarray) -> int:
        """Return the rows B of the widest batch of clients with these sample counts `[N]`.

        No batch holds more samples than a client has.
        """
        largest = int(sizes.max(initial=1))
        bound = self.cap if self.poisson else self.batch
        return largest if bound is None else min(bound, largest)

    def nominal_rows(self, samples: int, clients: int) -> int:
        """Return the rows of a batch that no partition decides: of a full one, the mean client's.

        Args:
          samples: training samples of all clients.
          clients: how many clients there are.
        """
        bound = self.cap if self.poisson else self.batch
        rows = -(-samples // clients) if bound is None else min(bound, samples)
        return max(rows, 1)

    def chance(self, n: int) -> float:
        """Return the probability of each of n samples to be in a Poisson batch."""
        return 1.0 if self.batch is None else min(self.batch / n, 1.0)


def batches_per_epoch(n, local: Local):
    """Return the batches in one pass over n samples (a number or an array).

    With `drop_last`, a client that has less than one full batch still trains on its only one.
    """
    at_most_one = np.minimum(n, 1)
    if local.batch is None:
        return at_most_one
    if local.drop_last:
        return np.maximum(n // local.batch, at_most_one)
    return -(-n // local.batch)


def planned_steps(sizes: np.ndarray, local: Local) -> np.ndarray:
    """Return the local steps of every client `[N]`; 0 for a client without samples."""
    if local.steps is None:
        assert local.epochs is not None
        return local.epochs * batches_per_epoch(sizes, local)
    steps = np.broadcast_to(np.asarray(local.steps, np.int64), sizes.shape)
    return np.where(sizes > 0, steps, 0)


def poisson_sizes(n: int, steps: int, local: Local, rng: np.random.Generator) -> np.ndarray:
    """Draw how many of n samples are in each Poisson batch `[steps]`, before any is cut."""
    return rng.binomial(n, local.chance(n), steps)


def poisson_batches(
    rows: np.ndarray, steps: int, local: Local, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw Poisson batches: for each of them a number of rows, and then so many of the rows.

    Where each row is in a batch by itself, the number of rows is binomial, and all sets of as many
    rows are equally likely. Of more rows than the cap, as many as the cap are drawn.

    Args:
      rows: the client's sample rows `[n]`.
      steps: batches to draw.

    Returns:
      Sample rows and how many are valid, as of `cut_into_batches`.
    """
    n = len(rows)
    bound = n if local.cap is None else min(local.cap, n)
    valid = np.minimum(poisson_sizes(n, steps, local, rng), bound).astype(np.int32)
    batches = np.zeros((steps, bound), np.int32)
    for step, count in enumerate(valid.tolist()):
        batches[step, :count] = rng.choice(rows, count, replace=False)
    return batches, valid


def held_out_sizes(sizes: np.ndarray, local: Local) -> np.ndarray:
    """Return how many samples of every client a phase holds out `[N]`; 0 of a single one."""
    if not local.held_out:
        return np.zeros_like(sizes)
    share = np.floor(local.held_out * sizes).astype(sizes.dtype)
    return np.where(sizes > 1, np.maximum(share, 1), 0)


def phase_gradients(
    steps: np.ndarray, trained: np.ndarray, held_out: np.ndarray, local: Local
) -> np.ndarray:
    """Return the gradients of every phase of every client `[N, P]`; P = 0 without phases.

    Args:
      steps: local steps that the scenario asks for `[N]`; a client without any has no phases.
      trained: samples of every client that no phase holds out `[N]`.
      held_out: samples of every client that a phase holds out `[N]`.
    """
    gradients = np.zeros((len(steps), len(local.phases)), np.int64)
    for index, phase in enumerate(local.phases):
        taken = steps if phase.steps is None else np.where(steps > 0, phase.steps, 0)
        if phase.held_out:
            taken = taken * batches_per_epoch(held_out, local)
        if phase.whole:
            taken = taken * batches_per_epoch(trained, local)
        gradients[:, index] = taken * phase.substeps
    return gradients


def cut_into_batches(order: np.ndarray, steps: int, local: Local) -> tuple[np.ndarray, np.ndarray]:
    """Cut epochs into batches.

    Args:
      order: sample rows in the order in which each epoch visits them `[epochs, n]`.
      steps: batches to return, at most those of all epochs.
      local: says how large a batch is, and whether an incomplete one is dropped.

    Returns:
      Sample rows `[steps, B]` (int32, 0 where padded), and how many of each step are valid
      `[steps]`.
    """
    epochs, n = order.shape
    B = n if local.batch is None else local.batch
    per_epoch = int(batches_per_epoch(n, local))
    width = per_epoch * B
    used = min(n, width)  # below n where an incomplete batch is dropped

    rows = np.zeros((epochs, width), np.int32)
    rows[:, :used] = order[:, :used]

    # Every batch is full, except perhaps the last one of each epoch.
    valid = np.full(epochs * per_epoch, B, np.int32)
    valid[per_epoch - 1 :: per_epoch] = used - (per_epoch - 1) * B
    return rows.reshape(-1, B)[:steps], valid[:steps]


def joined_batches(
    parts: list[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the batches of several phases one after another, padded to the widest.

    Args:
      parts: sample rows and how many are valid, of each phase, as of `cut_into_batches`.
    """
    widest = max(index.shape[1] for index, _ in parts)
    padded = [np.pad(index, ((0, 0), (0, widest - index.shape[1]))) for index, _ in parts]
    return np.concatenate(padded), np.concatenate([valid for _, valid in parts])
