"""The run: what one seed of one method holds and counts, and the rows that its rounds give."""

import functools
import math
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from fedsim import tree
from fedsim.clients.nodes import NODE_MODEL
from fedsim.disk.checkpoint import Snapshot, digest, leaves_by_name, restore_tree
from fedsim.engine.bank import GROUPS, models_of, one_model
from fedsim.engine.clock import compile_seconds
from fedsim.engine.cloud import RECEIVED, SENT
from fedsim.engine.counters import Counters, add_round
from fedsim.engine.downlink import downlink
from fedsim.engine.evaluation import (
    Scores,
    Stack,
    evaluation_stacks,
    mean_of_models,
    metrics,
    scores,
    scores_by_row,
    scores_of_model,
    stacks_on_device,
)
from fedsim.engine.feedback import FEEDBACK
from fedsim.engine.frozen import with_frozen, without_frozen
from fedsim.engine.memory import CLIENT
from fedsim.engine.moves import Moves
from fedsim.engine.node_scores import NODES, node_columns, node_scores
from fedsim.engine.program import Program
from fedsim.engine.recording import RoundUpdates, round_updates
from fedsim.engine.records import DispatchedRound, RunState
from fedsim.engine.server_records import RoundReport, ServerState
from fedsim.engine.server_samples import ServerTraining, server_samples
from fedsim.engine.store import OnDisk, Resident, Store
from fedsim.engine.tuning import Tuner
from fedsim.engine.versions import Versions
from fedsim.fleet import Plan, Planner, RoundPlan
from fedsim.fleet.plan import UncountedClients

EMPTY_ROUNDS = 10  # a run ends when in this many rounds in a row no update could be used

# Columns where a fleet leaves clients out.
WASTED = ("clients_late", "clients_left", "steps_wasted", "bytes_wasted")


class Row(NamedTuple):
    """An evaluated round: its lines of `rounds.csv` and `timing.csv`, and the server after it."""

    values: dict[str, Any]
    timing: dict[str, float]
    server: ServerState  # after the round
    status: str  # running | done | not_run | diverged | stopped
    extra: bool = False  # the last round, which a longer run would not have evaluated


class CommitPoint(NamedTuple):
    """No round is on its way to or from the device: the moment for a commit."""

    round: int
    runs: "list[Run]"  # that continue after it


class Policy(NamedTuple):
    """When a run ends before its last round, and when it counts as not run."""

    stop_on_nonfinite: bool = False  # end at the first message that is not finite
    stop_on_skipped: bool = False  # end at the first round with too few messages for the rule
    needs_aggregation: bool = True  # a run without an aggregated round counts as not run


class RunOptions(NamedTuple):
    """How long a run is, and where it keeps what does not fit."""

    rounds: int  # the last round
    every: int  # rounds between two evaluations
    policy: Policy = Policy()
    folder: Path | None = None  # for client memory that does not fit; None: a temporary one
    resident_bytes: int = 0  # of client memory that fit on the device
    # of a private run: rounds done -> ε that they have spent
    spent: Callable[[int], float] | None = None
    # of a run with DP-SGD: (steps, samples) of a client -> ε of its samples
    samples_spent: Callable[[int, int], float] | None = None
    # (run, server, round) -> columns of every client's scores; None: only the final ones count
    clients_scores: "Callable[[Run, ServerState, int], dict[str, float | None]] | None" = None


# A run that ended so has done all its rounds; with more of them it can be prolonged.
COMPLETED = ("done", "not_run")

# Attributes of a run that a checkpoint stores by these names.
STORED_ATTRIBUTES = (
    "round",
    "status",
    "reason",
    "first",
    "empty",
    "trained",
    "usable",
    "aggregated",
)


class Run:
    """One seed of one method, which can be interrupted and resumed after any round.

    Args:
      program: the compiled half.
      plan: the host's half.
      shared: variables at the start of the run, frozen leaves included.
      key: root key of all the run's device randomness.
      options: how long the run is, and where it keeps what does not fit.

    Attributes:
      server: after the last round that is over.
      initial: its variables at the start of the run, with which client memory begins.
      frozen: leaves of the model that nobody trains.
      round: the last round that is over; −1: the run has not begun.
      status: running | done | not_run | diverged | stopped.
      reason: why it ended, where it is not done.
      first: digest of the server after round 1.
      empty: rounds in a row in which clients reported, but no update could be used.
      trained: updates so far, of clients that trained.
      usable: trained updates that the rule could use.
      aggregated: usable updates that a round aggregated; the others were too few for the rule.
      totals: columns that count from the start of the run.
      since: counts since the last evaluated round.
      open_since: the counts of a longer run, which would not have evaluated this run's last round.
      joined: rounds in which each client took part `[N]`.
      sent: bytes that each client sent `[N]`.
      late: rounds in which each client was late `[N]`.
      left: rounds in which each client left `[N]`.
      released: local steps behind the messages that each client sent `[N]`, which ε of its samples
        depends on.
      ages: messages by their age, of an asynchronous server.
      moves: which model every client trained, of a server with several.
      keep_updates: called with the updates of every round; None: nobody keeps them.
    """

    def __init__(
        self,
        program: Program,
        plan: Plan,
        shared,
        key,
        options: RunOptions,
    ):
        self.program = program
        self.plan = plan
        self.planner = Planner(plan)
        self.key = key
        self.rounds = options.rounds
        self.every = options.every
        self.policy = options.policy
        self.spent = options.spent
        self.samples_spent = options.samples_spent
        self._clients_scores = options.clients_scores

        # Samples that nobody trains on, in batches, and the rows of each set. Without a shared
        # model, there is nothing to score on them.
        f = plan.federation
        client = program.server.client
        threads = program.evaluation_threads
        self.stacks: dict[str, list[Stack]] = {}
        stacks, self.rows_of_set, self.evaluation_batch = evaluation_stacks(f, threads)
        if not client.isolated:
            self.stacks = stacks_on_device(stacks, f, threads)

        # The server, and the models that clients of an asynchronous one train from.
        shared, self.frozen = without_frozen(shared)
        self.server: ServerState = program.server.init(shared, plan.present)
        self.initial = self.server.shared
        self.versions = Versions(0, self.initial) if plan.timetable.asynchronous else None

        # What rules may know about the clients.
        dtype = program.dtype.type
        self.clients: Any = dtype(len(plan.eligible))
        self.samples: Any = dtype(plan.sizes.sum())
        self.expected: Any = np.array(plan.expected, dtype)

        # The server's own samples, where a rule asks for losses on them or for an update.
        self.server_samples = None
        if program.server.needs_server_loss:
            self.server_samples = jax.device_put(server_samples(f))
        self.server_training = None
        if program.server_mesh is not None:
            self.server_training = ServerTraining(
                program.server_mesh, plan, program.dtype, key, self.frozen
            )

        # Losses come with the training; these take a program.
        self.feedback_names = tuple(name for name in plan.cohort.feedback if name in FEEDBACK)

        self.folder = options.folder
        fits = self.row_bytes() * program.capacity.members <= options.resident_bytes
        self.store = self._make_store(on_disk=not fits)

        self.round = -1
        self.status = "running"
        self.reason = ""
        self.first = ""
        self.empty = 0
        self.trained = 0
        self.usable = 0
        self.aggregated = 0

        self.totals = {"virtual_seconds": 0.0, "bytes_up": 0, "bytes_down": 0}
        if plan.edge_times is not None:
            self.totals |= {"cloud_bytes_up": 0, "cloud_bytes_down": 0}
        self.since = Counters()
        self.open_since = Counters()
        sent = one_model(client, shared)
        self.downlink = downlink(
            client, program.server.sender.codec, sent, f.N, left_out=plan.left_out
        )
        self.joined = np.zeros(f.N, np.int64)
        self.sent = np.zeros(f.N, np.int64)
        self.late = np.zeros(f.N, np.int64)
        self.left = np.zeros(f.N, np.int64)
        self.released = np.zeros(f.N, np.int64)
        self.ages = np.zeros(1, np.int64)
        self.moves = None if client.bank is None else Moves(f.N)
        self.keep_updates: Callable[[RoundUpdates], None] | None = None

        # Wall and compile seconds: of this process up to the last row, and of earlier processes.
        self.seconds = (0.0, 0.0)
        self.earlier_seconds = (0.0, 0.0)

    @functools.cached_property
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

    def _make_store(self, on_disk: bool) -> Store:
        """Return an empty store of the clients' memory."""
        memories = self.program.server.memories
        capacity = self.program.capacity
        N = self.plan.federation.N
        if not on_disk:
            return Resident(
                memories, self.initial, self.plan.members, capacity=capacity.members, N=N
            )

        if self.folder is None:  # a run that writes nothing: the folder is deleted with the run
            self.folder = Path(tempfile.mkdtemp(prefix="fedsim-"))
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        cohort = capacity.blocks * self.program.width.block
        if self.plan.network is not None:  # all nodes mix, whoever trains
            cohort = max(cohort, N)
        return OnDisk(memories, self.initial, capacity=cohort, N=N, folder=self.folder)

    def _first_rows(self, ids: np.ndarray) -> Any:
        """Return the rows that clients start with `[len(ids), ...]`."""
        return self.program.server.memories.fresh(self.initial, self.key, ids)

    def state(self, server: ServerState, plays: bool) -> RunState:
        """Return what the run brings to a round.

        Args:
          server: the server at the start of the round; it may be ahead of what the host has read.
          plays: whether the run takes part.
        """
        return RunState(
            server=server,
            server_programs=self.program.server,
            initial=self.initial,
            store=self.store,
            root=self.key,
            clients=self.clients,
            samples=self.samples,
            expected=self.expected,
            versions=self.versions,
            server_samples=self.server_samples,
            server_training=self.server_training,
            feedback_names=self.feedback_names,
            plays=plays,
            frozen=self.frozen,
            keeps_updates=self.keep_updates is not None,
        )

    def start(self, share: float) -> Iterator[Row]:
        """Start the clock, and yield the row of round 0 if the run has not begun.

        Args:
          share: share of the process's time that this run counts.
        """
        self.started = (time.perf_counter(), compile_seconds())
        self.share = share
        if self.round < 0:
            self.round = 0
            if self.plan.network is not None:
                self.store.fill(self._first_rows)
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
        tests: dict[str, Scores] | None,
        own: dict[str, float | None],
    ) -> Iterator[Row]:
        """Count a round when the device has finished it, and yield its row if it is evaluated.

        Args:
          dispatched: the round.
          tests: scores of its evaluation; None: it is not evaluated, unless the run ends with it.
          own: columns of the clients' scores, where it is evaluated.
        """
        # Raises where reading would abort, as when the device's memory is exhausted.
        cohort = dispatched.cohort
        report = dispatched.report
        feedback = dispatched.feedback
        jax.block_until_ready((report, dispatched.stats, tests, dispatched.diagnosis, feedback))

        if self.keep_updates is not None:
            before = self.server.shared
            after = dispatched.server.shared
            self.keep_updates(round_updates(cohort, dispatched.arrived, before, after))

        self.round = cohort.round
        self.server = dispatched.server
        self._count_updates(report)
        self.totals["virtual_seconds"] += cohort.seconds
        self._count_sent(dispatched)
        self._count_moves(dispatched)
        wasted = self._count_received(dispatched)
        self.downlink.merge(int(report.info.get(self.program.server.pipeline.merged_column, 0)))
        if not self.plan.pure:
            self._advance_plan(dispatched)

        self._count_cloud(report)
        reports = {**report.info, **self._malicious_reports(cohort), **wasted}
        if self.plan.local.poisson:
            reports["batches_cut"] = self.plan.cut_batches(cohort)
        columns = self.plan.staleness_columns(cohort)
        self.since = add_round(self.since, dispatched, reports, columns)
        if self.round == 1:
            self.first = digest(self.server)

        self._update_status(report)
        if self.status != "running" and tests is None:
            tests = self.evaluate(self.server)
            own = self.score_clients(self.server, self.round)
        if tests is not None:
            yield self._row(tests, own)

    def _count_updates(self, report: RoundReport) -> None:
        """Count the updates of a round."""
        reported = int(report.reported)
        usable = int(report.usable)
        self.trained += reported
        self.usable += usable
        if not report.skipped:
            self.aggregated += usable
        if reported:  # a round in which nobody reported says nothing
            self.empty = 0 if usable else self.empty + 1

    def _count_sent(self, dispatched: DispatchedRound) -> None:
        """Count the bytes that the clients of a round sent, lost messages included."""
        ids = dispatched.cohort.ids
        if self.plan.network is not None:
            self._count_exchanged(dispatched)
            np.add.at(self.joined, ids, 1)
            return
        sent = np.full(len(ids), dispatched.loss_bytes, np.int64)
        for by_slot in dispatched.sent_bytes:
            sent += np.asarray(by_slot, np.int64)[: len(ids)]
        self.totals["bytes_up"] += int(sent.sum())
        np.add.at(self.joined, ids, 1)
        np.add.at(self.sent, ids, sent)
        np.add.at(self.released, ids, dispatched.cohort.steps)

    def _count_moves(self, dispatched: DispatchedRound) -> None:
        """Note which models the clients of a round trained, where the server has several."""
        if self.moves is None:
            return
        ids = dispatched.cohort.ids
        if GROUPS in self.server.state:
            cluster = np.asarray(self.server.state[GROUPS].cluster)[ids]
        else:
            by_block = [np.asarray(block) for block in dispatched.choices]
            cluster = np.concatenate(by_block)[: len(ids)]
        self.moves.add(self.round, ids, cluster)

    def _count_cloud(self, report: RoundReport) -> None:
        """Count the bytes between edges and their cloud, which send whole models."""
        if self.plan.edge_times is None:
            return
        model = int(self.plan.cost.down)
        self.totals["cloud_bytes_up"] += model * int(report.info[SENT])
        self.totals["cloud_bytes_down"] += model * int(report.info[RECEIVED])

    def _count_exchanged(self, dispatched: DispatchedRound) -> None:
        """Count the bytes that nodes sent each other: a message for every link of the round."""
        plan = self.plan
        assert plan.network is not None
        cohort = dispatched.cohort
        source, target = plan.network.traffic(cohort.round, plan.active_nodes(cohort)).T
        size = np.asarray(dispatched.report.bytes, np.int64)[source]  # of each link's message
        self.totals["bytes_up"] += int(size.sum())
        self.totals["bytes_down"] += int(size.sum())
        np.add.at(self.sent, source, size)
        np.add.at(self.downlink.received, target, size)

    def _count_received(self, dispatched: DispatchedRound) -> dict[str, int]:
        """Count what everybody received whom the round drew, and the work of those who dropped out.

        Returns:
          The WASTED columns, where the fleet leaves clients out.
        """
        cohort = dispatched.cohort
        uncounted = cohort.uncounted
        if self.plan.network is not None:  # nodes that are away receive nothing
            return self._away(uncounted)
        size = None if dispatched.received_bytes is None else int(dispatched.received_bytes)
        if uncounted is None:
            received = self.downlink.deliver(cohort.ids, size)
            self.totals["bytes_down"] += int(received.sum())
            selective = self.plan.machines.fleet.selective
            return dict.fromkeys(WASTED, 0) if selective else {}

        reached = uncounted.ids[uncounted.reached]
        received = self.downlink.deliver(np.concatenate([cohort.ids, reached]), size)
        received_by_uncounted = int(received[len(cohort.ids) :].sum())
        self.totals["bytes_down"] += int(received.sum())

        # The exact size of a message that does not count is unknown: take the largest one.
        senders = uncounted.ids[uncounted.sent]
        message = np.broadcast_to(self.plan.cost.up, len(self.sent))[senders]
        sent_by_uncounted = int(message.sum())
        self.totals["bytes_up"] += sent_by_uncounted
        np.add.at(self.sent, senders, message)
        np.add.at(self.released, senders, uncounted.steps[uncounted.sent])
        np.add.at(self.late, uncounted.ids[uncounted.late], 1)
        np.add.at(self.left, uncounted.ids[uncounted.left], 1)
        return {
            "clients_late": int(uncounted.late.sum()),
            "clients_left": int(uncounted.left.sum()),
            "steps_wasted": int(uncounted.steps.sum()),
            "bytes_wasted": received_by_uncounted + sent_by_uncounted,
        }

    def _away(self, uncounted: UncountedClients | None) -> dict[str, int]:
        """Return the WASTED columns of a round of nodes, some of which may be away."""
        if not self.plan.machines.fleet.selective:
            return {}
        wasted: dict[str, int] = dict.fromkeys(WASTED, 0)
        if uncounted is not None:
            np.add.at(self.late, uncounted.ids[uncounted.late], 1)
            np.add.at(self.left, uncounted.ids[uncounted.left], 1)
            wasted["clients_late"] = int(uncounted.late.sum())
            wasted["clients_left"] = int(uncounted.left.sum())
            wasted["steps_wasted"] = int(uncounted.steps.sum())
        return wasted

    def _malicious_reports(self, cohort: RoundPlan) -> dict[str, int]:
        """Return how many clients that reported are malicious; nothing in a run without them."""
        if not self.plan.malicious.any():
            return {}
        malicious = self.plan.malicious_in(cohort.round)[cohort.ids]
        return {"malicious_reported": int((malicious & (cohort.weight > 0)).sum())}

    def _advance_plan(self, dispatched: DispatchedRound) -> None:
        """Tell the plan what its later rounds depend on."""
        cohort = dispatched.cohort

        def of_cohort(blocks: list[Array]) -> np.ndarray:  # [block, ...] each -> [K, ...]
            rows = np.concatenate([np.asarray(block) for block in blocks])
            return rows[: len(cohort.ids)]

        feedback = {}
        for name in self.feedback_names:
            feedback[name] = of_cohort([block[name] for block in dispatched.feedback])
        if "loss" in self.plan.cohort.needs:
            loss = of_cohort([block.loss for block in dispatched.stats])
            seen = of_cohort([block.seen for block in dispatched.stats])
            with np.errstate(invalid="ignore", divide="ignore"):
                feedback["loss"] = loss.astype(np.float64) / seen
        self.planner.complete(cohort, feedback)

        if self.versions is not None:
            self.versions.add(cohort.round, dispatched.server.shared)
            self.ages = _add_occurrences(self.ages, cohort.age[cohort.weight > 0])
            self.versions.release(cohort.round, self.plan.versions_in_flight(self.planner.state))

    def _update_status(self, report: RoundReport) -> None:
        """End the run if the round that is over says so."""
        nonfinite = int(report.nonfinite)
        if not bool(report.finite):
            self._end_early("diverged", "the shared model is no longer finite")
        elif self.empty >= EMPTY_ROUNDS:
            reason = f"{EMPTY_ROUNDS} rounds running, no client's update could be used"
            self._end_early("diverged", reason)
        elif self.policy.stop_on_nonfinite and nonfinite:
            self._end_early("stopped", f"{nonfinite} messages were not finite")
        elif self.policy.stop_on_skipped and bool(report.skipped):
            usable = int(report.reported) - nonfinite
            least = self.program.server.pipeline.least
            self._end_early("stopped", f"{usable} usable messages, the rule needs {least}")
        elif self.round == self.rounds:
            self._end()

    def _end_early(self, status: str, reason: str) -> None:
        """End the run before its last round."""
        self.status = status
        self.reason = f"round {self.round}: {reason}"

    def _end(self) -> None:
        """End the run after its last round: done, unless its model is not a result."""
        not_aggregated = self.policy.needs_aggregation and not self.aggregated
        if not_aggregated and self.trained and not self.usable and not self.reason:
            self.reason = (
                f"round {self.round}: none of the {self.trained} updates of all rounds could be "
                "used, and the model never moved"
            )
        if self.reason:
            self.status = "diverged"
        elif not_aggregated:
            self.status = "not_run"
            self.reason = f"no round was aggregated: {self._shortage()}"
        else:
            self.status = "done"

    def _shortage(self) -> str:
        """Return why no round of the run was aggregated, and what to do."""
        if not self.trained:
            return (
                "no client reported in any round; change cohort, fleet or schedule so that some do"
            )
        least = self.program.server.pipeline.least
        most = self.program.server.pipeline.rule.most
        needed = f"at least {least}" if most is None else f"{least} to {most}"
        return (
            f"the rule needs {needed} usable updates, and no round had that many; change the rule, "
            "or who reports"
        )

    def evaluates(self, round: int) -> bool:
        """Return whether a round has a row."""
        return round % self.every == 0 or round == self.rounds

    def evaluate(self, server: ServerState, together: bool = True) -> dict[str, Scores]:
        """Dispatch the evaluation of a server; the device may still be computing the scores.

        Args:
          server: the server to evaluate.
          together: use all threads together, instead of this one alone.
        """
        tests = {
            name: self.scores(server, stacks, together=together)
            for name, stacks in self.stacks.items()
        }
        if self.program.evaluate_nodes is not None and "test" in self.stacks:
            tests[NODES] = self._node_scores(server)
        return tests

    def _node_scores(self, server: ServerState) -> Scores:
        """Dispatch the evaluation of every node's own model on the test set."""
        evaluate = self.program.evaluate_nodes
        assert evaluate is not None
        memory, _ = self.store.load(self.plan.members)
        nodes = self.plan.federation.N
        params = jax.tree.map(lambda leaf: leaf[:nodes], memory.rows[CLIENT][NODE_MODEL])
        return node_scores(
            evaluate,
            params,
            server.shared["stats"],
            stacks=self.stacks["test"],
            rows=self.rows_of_set["test"],
        )

    def score_clients(self, server: ServerState, round: int) -> dict[str, float | None]:
        """Score the clients on samples of their own -> columns; none unless the scenario asks.

        Their memory is read as it is: call it when the round has been dispatched, and no later one.

        Args:
          server: the server to evaluate.
          round: after which round.
        """
        if self._clients_scores is None:
            return {}
        return self._clients_scores(self, server, round)

    def scores(
        self,
        server: ServerState,
        stacks: Iterable[Stack],
        wait: bool = False,
        together: bool = True,
    ) -> Scores:
        """Return the scores of stacks of batches, as `evaluation.scores`."""
        program = self.program
        threads = program.evaluation_threads if together else 1
        shown = with_frozen(program.server.sender.shown(server), self.frozen)
        return scores(program.evaluate, threads, shown, stacks=stacks, wait=wait)

    def _row(self, tests: dict[str, Scores], own: dict[str, float | None]) -> Row:
        """Return the row of a round, and count from zero again."""
        values = {**self._values(tests), **own}
        self._check_losses(values)

        extra = self.status in COMPLETED and self.round % self.every > 0
        timing = self._timing()
        self.open_since = self.since if extra else Counters()
        self.since = Counters()
        return Row(values, timing, self.server, status=self.status, extra=extra)

    def _check_losses(self, values: dict[str, Any]) -> None:
        """A loss that is not finite, or has no square, means that the run has diverged."""
        largest = math.sqrt(np.finfo(self.program.dtype).max)
        if self.round > 0 and not self.reason:
            for name, value in values.items():
                if name.endswith("_loss") and value is not None and not abs(value) < largest:
                    self.reason = f"round {self.round}: {name} is {value:.4g}"
                    if math.isfinite(value):
                        self.reason += f", more than {self.program.dtype} can square"
                    break
        if self.status == "done" and self.reason:
            self.status = "diverged"

    def _values(self, tests: dict[str, Scores]) -> dict[str, Any]:
        """Return the line of `rounds.csv`."""
        counters = self.since
        values = {
            "round": self.round,
            **self.totals,
            "clients_sampled": counters.sampled,
            "clients_reported": counters.reported,
            "n_nonfinite": counters.nonfinite,
            "skipped": counters.skipped,
            "train_loss": counters.train_loss,
        }
        if self.program.server.client.pools is not None:
            # No client takes part, sends anything, or takes time on its device.
            values |= dict.fromkeys((*self.totals, "clients_sampled", "clients_reported"))
        if self.program.diagnostics:
            values |= counters.diagnosis()
        if self.spent is not None:
            values["epsilon"] = self.spent(self.round)
        values |= counters.info

        if self.plan.network is not None:
            values.setdefault("consensus", 0.0)  # before round 1, all nodes have one model
        for name, results in tests.items():
            if name == NODES:
                values |= node_columns(results, self.plan.federation.scored["test"][1])
                continue
            _, y = self.plan.federation.scored[name]
            means = metrics(self.row_scores(results, self.rows_of_set[name]), y)
            if name == "triggered":  # samples with a backdoor's trigger
                values["attack_success"] = means.get("accuracy")
            else:
                values |= {f"{name}_{metric}": value for metric, value in means.items()}
                values |= self._scores_by_model(name, results)
        return values

    def row_scores(self, results: Scores, n: int) -> dict[str, np.ndarray]:
        """Return the scores of n rows; of several models the means, and those of each as well."""
        by_row = scores_by_row(results, n)
        if self.program.server.client.bank is None:
            return by_row
        return {**by_row, **mean_of_models(by_row, self.models)}

    @property
    def models(self) -> int:
        """The models of the server that are in use: the first ones."""
        groups = self.server.state.get(GROUPS)
        if groups is not None:
            return int(groups.clusters)
        return models_of(self.program.server.client)

    def _scores_by_model(self, name: str, results: Scores) -> dict[str, Any]:
        """Return the scores of every model on a set, where the server has several."""
        if models_of(self.program.server.client) == 1:
            return {}
        _, y = self.plan.federation.scored[name]
        by_row = scores_by_row(results, self.rows_of_set[name])
        values = {}
        for model in range(self.models):
            means = metrics(scores_of_model(by_row, model), y)
            values |= {f"model{model}/{name}_{metric}": value for metric, value in means.items()}
        return values

    def _timing(self) -> dict[str, float]:
        """Return the line of `timing.csv`, and remember the time for the next one."""
        began, began_compiling = self.started
        wall = self.share * (time.perf_counter() - began)
        compiling = self.share * (compile_seconds() - began_compiling)

        last_wall, last_compiling = self.seconds
        working = wall - last_wall - (compiling - last_compiling)
        self.seconds = (wall, compiling)

        earlier_wall, earlier_compiling = self.earlier_seconds
        useful = self.since.useful
        return {
            "round": self.round,
            "wall_seconds": earlier_wall + wall,
            "compile_seconds": earlier_compiling + compiling,
            "steps_per_second": useful / working if working > 0 else 0.0,
            "lane_efficiency": self.since.lane_efficiency,
            "local_steps": useful,
        }

    def release(self) -> None:
        """Free the samples of a run that has ended; there may be many such runs."""
        self.stacks = {}
        self.server_samples = None
        self.server_training = None

    def snapshot(self, portable: bool = False) -> Snapshot:
        """Return the state that the run resumes from, between two rounds or after the last.

        Args:
          portable: refer to no file.
        """
        values = {name: getattr(self, name) for name in STORED_ATTRIBUTES}
        values["totals"] = self.totals
        values["since"] = self.since._asdict()
        values["open_since"] = self.open_since._asdict()
        values["before"] = [
            earlier + seconds
            for earlier, seconds in zip(self.earlier_seconds, self.seconds, strict=True)
        ]

        arrays = leaves_by_name("server", self.server)
        for name in self._client_counters():
            arrays[name] = getattr(self, name)
        arrays |= self.downlink.arrays()
        arrays |= self.store.arrays(portable)
        if self.moves is not None:
            arrays |= self.moves.arrays()
        if not self.plan.pure:
            arrays |= self.planner.arrays()
        if self.versions is not None:
            needed = self.plan.versions_in_flight(self.planner.state)
            arrays["ages"] = self.ages
            arrays |= self.versions.arrays(self.planner.completed, needed)
        return Snapshot(values, arrays)

    def _client_counters(self) -> tuple[str, ...]:
        """Return the names of the counters by client that a checkpoint stores."""
        names = ("joined", "sent")
        if self.plan.machines.fleet.selective:
            names += ("late", "left")
        if self.samples_spent is not None:
            names += ("released",)
        return names

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from a snapshot, perhaps of a run that ended earlier than this one is to.

        Raises:
          CheckpointError: when it does not fit this run.
        """
        values, arrays = snapshot
        self.server = jax.device_put(restore_tree("server", arrays, self.server))
        for name in self._client_counters():
            setattr(self, name, restore_tree(name, arrays, getattr(self, name)).copy())
        self.downlink.restore(arrays)
        if "memory.file" in arrays and isinstance(self.store, Resident):
            self.store = self._make_store(on_disk=True)
        self.store.restore(arrays)
        if self.moves is not None:
            self.moves.restore(arrays)

        # Checkpoints of 0.5.0 did not count the aggregated updates: the usable ones are the
        # nearest number.
        values = {"aggregated": values["usable"], **values}
        for name in (*STORED_ATTRIBUTES, "totals"):
            setattr(self, name, values[name])

        if not self.plan.pure:
            self.planner.restore(arrays, self.round)
        if self.versions is not None:
            needed = self.plan.versions_in_flight(self.planner.state)
            self.ages = np.array(arrays["ages"])
            self.versions.restore(arrays, self.round, self.server.shared, needed)

        self.earlier_seconds = tuple(values["before"])
        self.since = Counters(**values["since"])
        self.open_since = Counters(**values["open_since"])

        # A run that had ended is prolonged.
        if self.status in COMPLETED and self.round < self.rounds:
            self.since = self.open_since
            self.status = "running"
            self.reason = ""


def _add_occurrences(counts: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return how often each number occurs, with the occurrences counted before."""
    occurrences = np.bincount(numbers, minlength=len(counts))
    occurrences[: len(counts)] += counts
    return occurrences
