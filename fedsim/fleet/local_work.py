"""The local work of one seed: the steps of every client, and the batches that they visit."""

from functools import cached_property

import numpy as np

from fedsim.data import Federation
from fedsim.fleet.local import (
    Local,
    batches_per_epoch,
    cut_into_batches,
    held_out_sizes,
    joined_batches,
    phase_gradients,
    planned_steps,
    poisson_batches,
)
from fedsim.fleet.streams import Draws, Stream, generator

Batches = tuple[np.ndarray, np.ndarray]
"""Sample rows `[steps, B]` (int32, 0 where padded), and how many of each step are valid
`[steps]`."""


class LocalWork:
    """How much every client trains, on which samples, in which order.

    Args:
      sizes: training samples of every client `[N]`.
      stream: the random stream that orders the batches.

    Attributes:
      local: with a batch that is no larger than any client: it would only be padded.
      steps: planned local steps of every client `[N]`, one for each gradient where a method has
        several phases.
      phase_ends: one beyond the last of these steps in each phase `[N, P]`; P = 0 without phases.
    """

    def __init__(
        self,
        federation: Federation,
        sizes: np.ndarray,
        local: Local,
        seed: int,
        stream: Stream = Stream.BATCHES,
    ):
        if local.batch is not None:
            local = local._replace(batch=min(local.batch, int(sizes.max(initial=1))))
        self.federation = federation
        self.sizes = sizes
        self.local = local
        self.seed = seed

        self.held_out = held_out_sizes(sizes, local)
        trained = sizes - self.held_out
        self.steps = planned_steps(trained, local)
        gradients = phase_gradients(self.steps, trained, self.held_out, local)
        self.phase_ends = gradients.cumsum(axis=1)
        if local.phases:
            self.steps = self.phase_ends[:, -1]

        self._batch_draws = Draws(seed, stream)
        self._phase_draws = Draws(seed, Stream.PHASES)

    def asked_steps(self, ids: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return how many of the steps that the scenario asks for clients complete `[K]`.

        Args:
          steps: their planned steps, of all phases.
        """
        if not self.local.phases:
            return steps
        begin, end = self._asked_span(ids, steps)
        return (end - begin) // self.local.phases[self.local.asked].substeps

    def _asked_span(self, ids: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where the phase that the scenario asks for begins and ends `[K]` each."""
        asked = self.local.asked
        ends = self.phase_ends[ids]  # [K, P]
        begin = ends[:, asked - 1] if asked else np.zeros(len(ids), np.int64)
        return begin, np.clip(steps, begin, ends[:, asked])

    def lr_sum(self, ids: np.ndarray, steps: np.ndarray, lr: float | np.ndarray) -> np.ndarray:
        """Return Σ of the learning rates of the steps that the scenario asks for `[K]`.

        Args:
          steps: their planned steps, of all phases.
          lr: their learning rate, where it is the same in all steps.
        """
        if self.local.rate is None:
            return lr * self.asked_steps(ids, steps)
        if not self.local.phases:
            return self._rate_sums[steps]
        begin, end = self._asked_span(ids, steps)
        substeps = self.local.phases[self.local.asked].substeps
        return (self._rate_sums[end] - self._rate_sums[begin]) / substeps

    @cached_property
    def _rate_sums(self) -> np.ndarray:
        """Σ of a client's first t learning rates, for t = 0 … the most steps of any client."""
        assert self.local.rate is not None
        longest = int(self.steps.max(initial=0))
        rates = [self.local.rate(t) for t in range(longest)]
        return np.concatenate([[0.0], np.cumsum(rates)])

    @cached_property
    def key(self) -> tuple:
        """A key: work with equal keys gives every client the same batches."""
        return (
            id(self.federation),
            self.seed,
            self.local.batch,
            self.local.shuffle,
            self.local.drop_last,
            self.local.poisson,
            self.local.cap,
            self.local.phases,
            hash(self.steps.tobytes()),
        )

    def batches(self, r: int, client: int) -> Batches:
        """Return the batches of a client's training.

        Args:
          r: number of the draw, which is the round unless the client trains from an older model.
        """
        if not self.local.phases:
            rows = self.federation.holders.of(client)
            rng = self._batch_draws.at(r, client)
            return self._drawn_batches(rows, int(self.steps[client]), rng)

        # The phase that the scenario asks for has the batches that it has in any method. The others
        # draw theirs one after another.
        trained, held_out = self._divided(client)
        gradients = np.diff(self.phase_ends[client], prepend=0)  # [P]
        others = self._phase_draws.at(r, client)
        drawn = []
        for number, phase in enumerate(self.local.phases):
            rng = self._batch_draws.at(r, client) if number == self.local.asked else others
            rows = held_out if phase.held_out else trained
            repeats = phase.substeps if phase.same_batch else 1
            if gradients[number]:
                index, valid = self._drawn_batches(rows, int(gradients[number]) // repeats, rng)
                drawn.append((index.repeat(repeats, axis=0), valid.repeat(repeats)))
        return joined_batches(drawn)

    def _divided(self, client: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a client's rows that are not held out, and those that are, in every round."""
        rows = self.federation.holders.of(client)
        held_out = int(self.held_out[client])
        if not held_out:
            return rows, rows[:0]
        order = generator(self.seed, Stream.HELD_OUT, client=client).permutation(rows)
        return np.sort(order[held_out:]), np.sort(order[:held_out])

    def _drawn_batches(self, rows: np.ndarray, steps: int, rng: np.random.Generator) -> Batches:
        n = len(rows)
        if self.local.poisson:
            return poisson_batches(rows, steps, self.local, rng)
        epochs = -(-steps // batches_per_epoch(n, self.local))  # rounded up

        order = rows[None].repeat(epochs, 0)  # [epochs, n]
        if self.local.shuffle and self.local.batch is not None and n > self.local.batch:
            rng.permuted(order, axis=1, out=order)
        return cut_into_batches(order, steps, self.local)

    def single_pass(self, client: int) -> Batches:
        """Return one unshuffled pass over a client's samples.

        It serves what is measured at the global model.
        """
        rows = self.federation.holders.of(client)
        steps = int(batches_per_epoch(len(rows), self.local))
        return cut_into_batches(rows[None], steps, self.local)
