"""The run: one seed of one method as a loop of rounds, a server, a store and a list of meters."""

import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from fedsim import tree
from fedsim.disk.checkpoint import Snapshot, digest, leaves_by_name, restore_tree
from fedsim.engine.clock import Stopwatch
from fedsim.engine.feedback import FEEDBACK, feedback_of
from fedsim.engine.forms import OneModel
from fedsim.engine.frozen import without_frozen
from fedsim.engine.meters import Meter, Since
from fedsim.engine.own_work import OwnTraining
from fedsim.engine.program import Program
from fedsim.engine.recording import RoundUpdates, round_updates
from fedsim.engine.records import DispatchedRound
from fedsim.engine.scoring.clients import columns_of_clients
from fedsim.engine.scoring.rows import Tests
from fedsim.engine.scoring.scorer import Moment, Scorer
from fedsim.engine.server_records import RoundStart, ServerState
from fedsim.engine.store import OnDisk, Resident, Store
from fedsim.engine.tuning import Tuner
from fedsim.fleet import Plan, Planner
from fedsim.types import Client, Shared

# A run that ended so has done all its rounds; with more of them it can be prolonged.
COMPLETED = ("done", "not_run")
# A run that ended so has a result: after its last round, or earlier, as the scenario asks.
WITH_RESULT = ("done", "ended")

# Attributes of a run that a checkpoint stores by these names.
STORED_ATTRIBUTES = ("round", "status", "reason", "first")

M = TypeVar("M", bound=Meter)


class Row(NamedTuple):
    """An evaluated round: its lines of `rounds.csv` and `timing.csv`, and the server after it."""

    values: dict[str, Any]
    timing: dict[str, float]
    server: ServerState  # after the round
    status: str  # as that of the run
    extra: bool = False  # the last round, which a longer run would not have evaluated


class CommitPoint(NamedTuple):
    """No round is on its way to or from the device: the moment for a commit."""

    round: int
    runs: "list[Run]"  # that continue after it


class RunOptions(NamedTuple):
    """How long a run is, and where it keeps what does not fit."""

    rounds: int  # the last round
    every: int  # rounds between two evaluations
    folder: Path | None = None  # for client memory that does not fit; None: a temporary one
    resident_bytes: int = 0  # of client memory that fit on the device
    # clients that are scored in evaluated rounds, as `evaluate.clients`; None: only at the end
    scored_clients: int | str | None = None


class Run:
    """One seed of one method, which can be interrupted and resumed after any round.

    Args:
      shared: variables at the start of the run, frozen leaves included.
      key: root key of all the run's device randomness.
      options: how long the run is, and where it keeps what does not fit.
      meters: what the run counts, and what may end it.
      form_of: (the method, the plan, variables at the start) -> what a round asks of the server.

    Attributes:
      server: after the last round that is over.
      chosen: the server that a meter chose as the run's result; None: that of the last round.
      initial: its variables at the start of the run, with which client memory begins.
      own_training: the server's own training, where the rule asks for its update.
      feedback_names: what the cohorts ask about every update.
      round: the last round that is over; −1: the run has not begun.
      status: running | done | ended (early, as the scenario asks) | not_run | diverged | stopped.
      reason: why it ended, where it is not done.
      first: digest of the server after round 1.
      since: counts since the last evaluated round.
      open_since: the counts of a longer run, which would not have evaluated this run's last round.
      keep_updates: called with the updates of every round; None: nobody keeps them.
    """

    def __init__(
        self,
        program: Program,
        plan: Plan,
        shared,
        key,
        options: RunOptions,
        meters: list[Meter],
        form_of: Callable[[Client, Plan, Shared], OneModel],
    ):
        self.program = program
        self.plan = plan
        self.planner = Planner(plan)
        self.key = key
        self.rounds = options.rounds
        self.every = options.every
        self.meters = meters
        self.scored_clients = options.scored_clients

        shared, self.frozen = without_frozen(shared)
        self.server: ServerState = program.server.init(shared, plan.present)
        self.chosen: ServerState | None = None
        self.initial = self.server.shared
        self.form = form_of(program.server.client, plan, self.initial)
        self.form.measures = program.measures
        self.scorer = Scorer(program, plan.federation, self.frozen, self.form)

        self.folder = options.folder
        fits = self.row_bytes() * program.capacity.members <= options.resident_bytes
        self.store = _empty_store(self, on_disk=not fits)
        self._common_start = _common_start(self)
        self.own_training: OwnTraining | None = None
        if program.own_work is not None:
            self.own_training = program.own_work.training(self)
        # Losses come with the training; these take a program.
        self.feedback_names = tuple(name for name in plan.cohort.feedback if name in FEEDBACK)

        self.round = -1
        self.status = "running"
        self.reason = ""
        self.first = ""
        self.since = Since()
        self.open_since = Since()
        self.keep_updates: Callable[[RoundUpdates], None] | None = None
        self.stopwatch = Stopwatch()

    def round_start(self, server: ServerState, round: int) -> RoundStart:
        """Return the start of a round.

        Args:
          server: the server then; it may be ahead of what the host has read.
          round: the round, from 1.
        """
        return self._common_start._replace(server=server, round=round)

    def meter(self, kind: type[M]) -> M:
        """Return the run's meter of a kind."""
        return next(meter for meter in self.meters if isinstance(meter, kind))

    @cached_property
    def tuner(self) -> Tuner | None:
        """The training before a score, for methods that have one."""
        if self.program.tuning_mesh is None:
            return None
        return Tuner(self.program, self.plan, self.key, self.frozen)

    def row_bytes(self) -> int:
        """Return the bytes of a client's memory."""
        memories = self.program.server.memories
        memory = jax.eval_shape(lambda initial: memories.empty(initial, 1), self.initial)
        return tree.nbytes(memory.rows)

    def start(self, share: float) -> Iterator[Row]:
        """Start the clock, and yield the row of round 0 if the run has not begun.

        Args:
          share: share of the process's time that this run counts.
        """
        self.stopwatch.start(share)
        if self.round < 0:
            self.round = 0
            self.form.begin(self)
            self.status = "done" if self.rounds == 0 else "running"
            yield self._row(self.evaluate(self.server), self.score_clients(self.server, 0))
        elif self.status == "running" and self.round == self.rounds:
            # It was interrupted on its way to more rounds than it has now.
            self._end()
            own = self.score_clients(self.server, self.round)
            yield self._row(self.evaluate(self.server), own)

    def end_if_complete(self) -> bool:
        """End an interrupted run that now ends with its last round, if that was evaluated.

        Returns:
          Whether it has ended.
        """
        if self.status != "running" or self.round != self.rounds or self.round % self.every:
            return False
        self._end()
        return True

    def finish_round(
        self,
        dispatched: DispatchedRound,
        tests: Tests | None,
        own: dict[str, float | None],
    ) -> Iterator[Row]:
        """Count a round when the device has finished it, and yield its row if it is evaluated.

        Args:
          tests: scores of its evaluation; None: it is not evaluated, unless the run ends with it.
          own: columns of the clients' scores, where it is evaluated.
        """
        # Raises where reading would abort, as when the device's memory is exhausted.
        cohort = dispatched.cohort
        read = (dispatched.report, dispatched.stats, dispatched.observed, dispatched.feedback)
        jax.block_until_ready((read, tests))

        if self.keep_updates is not None:
            before = self.server.shared
            after = dispatched.server.shared
            self.keep_updates(round_updates(cohort, dispatched.arrived, before, after))

        self.round = cohort.round
        self.server = dispatched.server
        self.planner.complete(cohort, feedback_of(dispatched, self.plan.cohort))
        self.form.over(self.planner, self.round, self.server.shared)
        for meter in self.meters:
            meter.after(dispatched, self.since)
        if self.round == 1:
            self.first = digest(self.server)

        self._end_if_due(dispatched)
        if self.status != "running" and tests is None:
            tests = self.evaluate(self.server)
            own = self.score_clients(self.server, self.round)
        if tests is not None:
            yield self._row(tests, own)

    def may_end_with(self, round: int) -> bool:
        """Return whether a round may end the run, so that the host must read it first."""
        evaluated = self.evaluates(round)
        return any(meter.may_end or (evaluated and meter.reads_rows) for meter in self.meters)

    @property
    def result(self) -> ServerState:
        """The server that the run results in."""
        return self.server if self.chosen is None else self.chosen

    def _end_if_due(self, dispatched: DispatchedRound) -> None:
        """End the run if a meter says so, or the round was the last."""
        for meter in self.meters:
            ending = meter.ending(dispatched)
            if ending is not None:
                self.status, reason = ending
                self.reason = f"round {self.round}: {reason}"
                return
        if self.round == self.rounds:
            self._end()

    def _end(self) -> None:
        """End the run after its last round: done, unless its model is not a result."""
        self.status = "diverged" if self.reason else "done"
        if self.reason:
            return
        for meter in self.meters:
            verdict = meter.verdict(self.round)
            if verdict is not None:
                self.status, self.reason = verdict
                return

    def evaluates(self, round: int) -> bool:
        """Return whether a round has a row."""
        return round % self.every == 0 or round == self.rounds

    def evaluate(self, server: ServerState, together: bool = True) -> Tests:
        """Dispatch the evaluation of a server; arguments as of `Scorer.evaluate`."""
        return self.scorer.evaluate(self, server, together)

    def score_clients(self, server: ServerState, round: int) -> dict[str, float | None]:
        """Score the clients on samples of their own -> columns; none unless the scenario asks.

        Their memory is read as it is: call it when the round has been dispatched, and no later one.
        """
        if self.scored_clients is None:
            return {}
        return columns_of_clients(Moment(self, server, round), self.scored_clients)

    def _row(self, tests: Tests, own: dict[str, float | None]) -> Row:
        """Return the row of a round, and count from zero again."""
        since = self.since
        values = {"round": self.round}
        for meter in self.meters:
            values |= meter.row(self.round, since)
        scores = self.form.columns(self.server, self.scorer.sets, tests)
        scores |= self.scorer.columns_beside(tests)
        values |= {**since.columns, **scores, **own}
        if self.round % self.every == 0:  # a longer run has no other rows
            self._consider(values)
        if self.round > 0 and not self.reason:
            self.reason = _unusable_loss(self.round, values, self.program.dtype)
        if self.status in WITH_RESULT and self.reason:
            self.status = "diverged"

        extra = self.status in COMPLETED and self.round % self.every > 0
        timing = self.stopwatch.row(self.round, since["useful"], since["lane_steps"])
        self.open_since = since if extra else Since()
        self.since = Since()
        return Row(values, timing, self.server, status=self.status, extra=extra)

    def _consider(self, row: dict[str, Any]) -> None:
        """Let the meters choose the server after an evaluated round, and end the run with it."""
        for meter in self.meters:
            is_last = meter.ends_with(row)
            if meter.chooses(row):
                self.chosen = self.server
            if is_last and self.status == "running":
                self.status = "ended"

    def reopen(self) -> None:
        """Go on with a run that had ended early, as another one that may end later."""
        if self.status == "ended":
            self.status = "running"

    def release(self) -> None:
        """Free the samples of a run that has ended; there may be many such runs."""
        self.scorer.release()
        self._common_start = self._common_start._replace(server_loss=None)
        self.own_training = None

    def snapshot(self, portable: bool = False) -> Snapshot:
        """Return the state that the run resumes from, between two rounds or after the last.

        Args:
          portable: refer to no file.
        """
        values = {name: getattr(self, name) for name in STORED_ATTRIBUTES}
        values["since"] = self.since.state()
        values["open_since"] = self.open_since.state()
        values["before"] = self.stopwatch.total()

        arrays = leaves_by_name("server", self.server)
        if self.chosen is not None:
            arrays |= leaves_by_name("chosen", self.chosen)
        for meter in self.meters:
            counted = meter.snapshot()
            values |= counted.values
            arrays |= counted.arrays
        arrays |= self.store.arrays(portable)
        arrays |= self.planner.arrays()
        arrays |= self.form.arrays(self.planner)
        return Snapshot(values, arrays)

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from a snapshot, perhaps of a run that ended earlier than this one is to.

        Raises:
          CheckpointError: when it does not fit this run.
        """
        values, arrays = snapshot
        self.server = jax.device_put(restore_tree("server", arrays, self.server))
        for meter in self.meters:
            meter.restore(snapshot)
        if "memory.file" in arrays and isinstance(self.store, Resident):
            self.store = _empty_store(self, on_disk=True)
        self.store.restore(arrays)
        for name in STORED_ATTRIBUTES:
            setattr(self, name, values[name])
        chooses = any(meter.reads_rows for meter in self.meters)
        if chooses and any(name.startswith("chosen") for name in arrays):
            self.chosen = jax.device_put(restore_tree("chosen", arrays, self.server))

        self.planner.restore(arrays, self.round)
        self.form.restore(arrays, self.planner, self.server.shared)

        self.stopwatch.earlier = tuple(values["before"])
        self.since = Since.restored(values["since"])
        self.open_since = Since.restored(values["open_since"])

        # A run that had ended is prolonged.
        if self.status in COMPLETED and self.round < self.rounds:
            self.since = Since.restored(values["open_since"])
            self.status = "running"
            self.reason = ""


def _common_start(run: Run) -> RoundStart:
    """Return what the starts of all rounds of a run have in common."""
    program = run.program
    plan = run.plan
    dtype = program.dtype.type
    expected: Any = np.array(plan.expected, dtype)
    own = program.own_work
    return RoundStart(
        server=ServerState(run.initial, {}),  # a round has its own; this one would stay in memory
        root=run.key,
        round=0,
        clients=dtype(len(plan.eligible)),
        samples=dtype(plan.sizes.sum()),
        expected=expected,
        server_loss=None if own is None else own.server_loss(plan),
        frozen=run.frozen,
    )


def _empty_store(run: Run, on_disk: bool) -> Store:
    memories = run.program.server.memories
    capacity = run.program.capacity
    plan = run.plan
    N = plan.federation.N
    if not on_disk:
        members = plan.survey.members
        return Resident(memories, run.initial, members, capacity=capacity.members, N=N)

    if run.folder is None:  # a run that writes nothing: the folder is deleted with the run
        run.folder = Path(tempfile.mkdtemp(prefix="fedsim-"))
        weakref.finalize(run, shutil.rmtree, run.folder, ignore_errors=True)
    rows = run.form.rows_of_round(capacity.blocks * run.program.width.block, N)
    return OnDisk(memories, run.initial, capacity=rows, N=N, folder=run.folder)


def _unusable_loss(round: int, values: dict[str, Any], dtype: np.dtype) -> str:
    """Return why a row has no result: a loss that is not finite, or has no square; else nothing."""
    largest = math.sqrt(np.finfo(dtype).max)
    for name, value in values.items():
        if name.endswith("_loss") and value is not None and not abs(value) < largest:
            reason = f"round {round}: {name} is {value:.4g}"
            return f"{reason}, more than {dtype} can square" if math.isfinite(value) else reason
    return ""
