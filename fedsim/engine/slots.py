"""The slot table: what is planned for every client of a block, from the plan to the rule."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim.fleet import Plan, RoundPlan
from fedsim.types import Work


class Slots(NamedTuple):
    """A row for every slot of a block: NumPy arrays on the host, traced arrays in a program.

    With several runs side by side, the slots of run i begin at i · block. An empty slot is all
    zeros. A program receives only the columns that it reads.
    """

    # what the client's hooks know: id, samples, steps, learning rates, labels, malicious
    work: Work
    steps: Any  # planned steps of its lane, of all phases
    weight: Any  # n_k; 0: nothing arrives
    count: Any  # times drawn
    share: Any  # messages of the client that a round has on average; 0: unknown
    marked: Any  # whether a rule replaces the client's row by its own
    start: Any  # index of the start model in the bank
    # draw whose batches and noise the client uses, where a run has several start models; else
    # those of the round
    draw: Any
    age: Any  # steps that the server took since it sent the start model
    shift: Any  # [slots, S] classes that labels have moved by; S = 0 unless they move
    memory_row: Any  # row of the client's memory
    seat: Any  # row that a shard writes: shard · R + its number there; the slot if one shard


class RunCohort(NamedTuple):
    """The cohort of one of the runs that train side by side; a run that has ended has none."""

    plan: Plan
    cohort: RoundPlan
    is_probe: bool = False  # the pass at the global model, over all samples in stored order

    @property
    def jobs(self) -> RoundPlan:
        """The work of this pass."""
        return self.plan.probe_plan(self.cohort) if self.is_probe else self.cohort

    @property
    def start_versions(self) -> list[int]:
        """Versions of the model that clients train from, in order."""
        return np.unique(self.cohort.start).tolist()

    @property
    def asked_steps(self) -> np.ndarray:
        """The planned steps that the scenario asks for `[K]`."""
        if self.is_probe:
            return self.jobs.steps
        return self.plan.work.asked_steps(self.cohort.ids, self.cohort.steps)

    def batches(self, draw: int, client: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a client's batches, as `Plan.batches` does."""
        if self.is_probe:
            return self.plan.work.single_pass(client)
        return self.plan.work.batches(draw, client)


def slots_of(
    cohorts: Sequence[RunCohort | None],
    first_slot: int,
    block: int,
    dtype: np.dtype,
    models_per_run: int,
) -> Slots:
    """Return a block's slots: `first_slot … first_slot + block` of the cohort of every run.

    Seats are filled in when the block is packed on lanes, memory rows when memory is loaded.

    Args:
      cohorts: the cohort of every run; None: it takes no part.
      block: slots of each run.
      models_per_run: start models of every run in the bank.
    """
    planned = {}
    for run, run_cohort in enumerate(cohorts):
        if run_cohort is not None:
            planned[run] = _planned_slots(
                run_cohort, first_slot, block, dtype, first_model=run * models_per_run
            )

    def empty(column: np.ndarray) -> np.ndarray:
        return np.zeros((len(cohorts) * block, *column.shape[1:]), column.dtype)

    slots = jax.tree.map(empty, next(iter(planned.values())))
    for run, rows in planned.items():
        begin = run * block
        for column, values in zip(jax.tree.leaves(slots), jax.tree.leaves(rows), strict=True):
            column[begin : begin + len(values)] = values
    return slots


def _planned_slots(
    run_cohort: RunCohort, first_slot: int, block: int, dtype: np.dtype, first_model: int
) -> Slots:
    """Return the slots of ONE run, as many as its cohort has left.

    Args:
      first_model: index of the run's first start model in the bank.
    """
    plan = run_cohort.plan
    jobs = run_cohort.jobs
    rows = slice(first_slot, first_slot + block)
    ids = jobs.ids[rows]
    K = len(ids)

    def integers(column: Any) -> Any:
        return np.asarray(column, np.int32)

    def floats(column: Any) -> Any:
        return np.asarray(column, dtype)

    malicious: Any = np.asarray(plan.malicious_in(jobs.round)[ids], bool)
    work = Work(
        id=integers(ids),
        samples=floats(jobs.samples[rows]),
        steps=integers(run_cohort.asked_steps[rows]),
        lr=floats(np.broadcast_to(jobs.lr, len(jobs.ids))[rows]),
        lr_sum=floats(jobs.lr_sum[rows]),
        labels=floats(np.roll(plan.labels[ids], jobs.shift, axis=1)),
        malicious=malicious,
        phase_ends=integers(plan.phase_ends[ids]),
    )
    if plan.level is not None:
        work = work._replace(level=integers(plan.level[ids]), round=integers(jobs.start[rows]))
    share = np.zeros(K) if plan.shares is None else plan.shares[ids]
    return Slots(
        work=work,
        steps=integers(jobs.steps[rows]),
        weight=floats(jobs.weight[rows]),
        count=floats(jobs.count[rows]),
        share=floats(share),
        marked=np.asarray(plan.marked[ids], bool),
        start=integers(first_model + np.searchsorted(run_cohort.start_versions, jobs.start[rows])),
        draw=integers(jobs.draw[rows]),
        age=integers(jobs.age[rows]),
        shift=integers(np.full((K, int(plan.labels_shift)), jobs.shift)),
        memory_row=integers(np.zeros(K)),
        seat=integers(np.zeros(K)),
    )


def with_memory_rows(slots: Slots, memory_rows: Sequence[np.ndarray], block: int) -> Slots:
    """Return the table with the rows of memory of every run's clients."""
    column = np.zeros_like(slots.memory_row)
    for run, rows in enumerate(memory_rows):
        begin = run * block
        column[begin : begin + len(rows)] = rows
    return slots._replace(memory_row=column)


def by_run(slots: Slots, runs: int) -> list[Slots]:
    """Return the table of every run."""
    block = len(slots.weight) // runs
    tables = []
    for run in range(runs):
        rows = slice(run * block, (run + 1) * block)
        tables.append(jax.tree.map(lambda column, rows=rows: column[rows], slots))
    return tables


def shapes_of_slots(slots: int, dtype: np.dtype, plan: Plan) -> Slots:
    """Return the shapes of a table with `slots` slots of a plan."""
    shape: Any = jax.ShapeDtypeStruct
    integer = shape((slots,), np.int32)
    number = shape((slots,), dtype)
    return Slots(
        work=Work(
            id=integer,
            samples=number,
            steps=integer,
            lr=number,
            lr_sum=number,
            labels=shape((slots, plan.labels.shape[1]), dtype),
            malicious=shape((slots,), np.bool_),
            phase_ends=shape((slots, plan.phase_ends.shape[1]), np.int32),
            level=() if plan.level is None else integer,
            round=() if plan.level is None else integer,
        ),
        steps=integer,
        weight=number,
        count=number,
        share=number,
        marked=shape((slots,), np.bool_),
        start=integer,
        draw=integer,
        age=integer,
        shift=shape((slots, int(plan.labels_shift)), np.int32),
        memory_row=integer,
        seat=integer,
    )
