"""The slot table: what is planned of every client of a block, from the plan to the rule."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim.fleet import Plan, RoundPlan
from fedsim.types import Work


class Slots(NamedTuple):
    """A row for every slot of a block: NumPy on the host, the same columns inside a program.

    Slots from i · block on are those of run i, where several are trained side by side. An empty
    slot is all zeros. A column that a program does not read is not handed to the device with it.
    """

    # what the client's hooks know: id, samples, steps, learning rates, labels, malicious
    work: Work
    weight: Any  # n_k; 0 = nothing arrives
    count: Any  # times drawn
    share: Any  # times that a round has a message of the client, on average; 0: unknown
    start: Any  # which start model of the bank
    # of batches and noise, where start models are several of a run: else that of the round
    draw: Any
    age: Any  # steps that the server took since it sent the start model
    shift: Any  # [slots, S] classes that labels have moved on by; S = 0 unless they move
    place: Any  # row of the client's memory
    # row that a shard writes: shard · R + its own number; = slot where there is one shard
    seat: Any


class RunCohort(NamedTuple):
    """A run's part of a round of several; a run that has ended has none."""

    plan: Plan
    cohort: RoundPlan
    probe: bool = False  # the pass at the global model, over all samples as they stand

    @property
    def jobs(self) -> RoundPlan:
        """What is done in this pass."""
        return self.plan.probe_plan(self.cohort) if self.probe else self.cohort

    @property
    def versions(self) -> list[int]:
        """Versions of the model that clients train from, in order."""
        return np.unique(self.cohort.start).tolist()

    def batches(self, draw: int, client: int) -> tuple[np.ndarray, np.ndarray]:
        """As `Plan.batches` gives them."""
        return self.plan.single_pass(client) if self.probe else self.plan.batches(draw, client)


def slots_of(
    parts: Sequence[RunCohort | None], first: int, block: int, dtype: np.dtype, versions: int
) -> Slots:
    """The slots `first … first + block` of a round of every run.

    Seats are known when the block is packed on lanes, places when memory is lent.

    Args:
      parts: of the runs.
      first: slot of each cohort.
      block: slots of each run.
      dtype: of the floats.
      versions: start models of every run in the bank.
    """
    rows = {}
    for run, part in enumerate(parts):
        if part is not None:
            rows[run] = _planned(part, first, block, dtype, run * versions)
    empty = lambda column: np.zeros((len(parts) * block, *column.shape[1:]), column.dtype)
    slots = jax.tree.map(empty, next(iter(rows.values())))
    for run, planned in rows.items():
        jax.tree.map(lambda whole, own, run=run: _write(whole, own, run * block), slots, planned)
    return slots


def _planned(part: RunCohort, first: int, block: int, dtype: np.dtype, bank: int) -> Slots:
    """The rows of ONE run, as many as its cohort has left; row `bank` is its first start model."""
    plan, jobs = part.plan, part.jobs
    cut = slice(first, first + block)
    ids = jobs.ids[cut]
    K = len(ids)

    def integers(column: Any) -> Any:
        return np.asarray(column, np.int32)

    def floats(column: Any) -> Any:
        return np.asarray(column, dtype)

    work = Work(
        id=integers(ids),
        samples=floats(jobs.samples[cut]),
        steps=integers(jobs.steps[cut]),
        lr=floats(np.broadcast_to(jobs.lr, len(jobs.ids))[cut]),
        lr_sum=floats(jobs.lr_sum[cut]),
        labels=floats(np.roll(plan.labels[ids], jobs.shift, axis=1)),
        malicious=np.asarray(plan.malicious_in(jobs.round)[ids], bool),  # type: ignore[arg-type]
    )
    return Slots(
        work=work,
        weight=floats(jobs.weight[cut]),
        count=floats(jobs.count[cut]),
        share=floats(np.zeros(K) if plan.shares is None else plan.shares[ids]),
        start=integers(bank + np.searchsorted(part.versions, jobs.start[cut])),
        draw=integers(jobs.draw[cut]),
        age=integers(jobs.age[cut]),
        shift=integers(np.full((K, int(plan.moves)), jobs.shift)),
        place=integers(np.zeros(K)),
        seat=integers(np.zeros(K)),
    )


def _write(whole: np.ndarray, own: np.ndarray, first: int) -> None:
    whole[first : first + len(own)] = own


def placed(slots: Slots, places: Sequence[np.ndarray], block: int) -> Slots:
    """The table with the rows of memory of every run's clients."""
    place = np.zeros_like(slots.place)
    for run, rows in enumerate(places):
        _write(place, rows, run * block)
    return slots._replace(place=place)


def of_runs(slots: Slots, runs: int) -> list[Slots]:
    """The table of every run."""
    block = len(slots.weight) // runs
    return [
        jax.tree.map(lambda column, i=i: column[i * block : (i + 1) * block], slots)
        for i in range(runs)
    ]


def shapes_of_slots(slots: int, dtype: np.dtype, plan: Plan) -> Slots:
    """The shapes of a table of so many slots of such a plan."""
    shape: Any = jax.ShapeDtypeStruct
    integer, number = shape((slots,), np.int32), shape((slots,), dtype)
    return Slots(
        work=Work(
            id=integer,
            samples=number,
            steps=integer,
            lr=number,
            lr_sum=number,
            labels=shape((slots, plan.labels.shape[1]), dtype),
            malicious=shape((slots,), np.bool_),
        ),
        weight=number,
        count=number,
        share=number,
        start=integer,
        draw=integer,
        age=integer,
        shift=shape((slots, int(plan.moves)), np.int32),
        place=integer,
        seat=integer,
    )
