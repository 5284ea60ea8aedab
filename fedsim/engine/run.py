"""The run: what one seed of one method holds, what it counts, and the rows that come of its rounds."""

import math
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim import tree
from fedsim.disk.checkpoint import Snapshot, digest, fitted, named
from fedsim.engine.clock import compile_seconds
from fedsim.engine.diagnosis import Diagnosis
from fedsim.engine.downlink import downlink
from fedsim.engine.evaluation import Scores, Stack, gathered, held_out, lent, metrics, scores
from fedsim.engine.feedback import MEASURES
from fedsim.engine.own_samples import ServerTraining, own_samples
from fedsim.engine.records import Played, Program, RunState
from fedsim.engine.serving import ServerState
from fedsim.engine.store import OnDisk, Resident, Store
from fedsim.engine.versions import Versions
from fedsim.fleet import Plan, Planner, RoundPlan

EMPTY_ROUNDS = 10  # so many rounds running whose updates were all unusable end a run


WASTED = (
    "clients_late",
    "clients_left",
    "steps_wasted",
    "bytes_wasted",
)  # columns where a fleet leaves clients out


class Row(NamedTuple):
    """An evaluated round: its line of `rounds.csv`, its line of `timing.csv`, and the server after it."""

    values: dict[str, Any]
    timing: dict[str, float]
    server: ServerState  # after it
    status: str  # running | done | not_run | diverged | stopped
    extra: bool = False  # the last round, which a longer run would not have evaluated


class CommitPoint(NamedTuple):
    """Nothing is on its way to or from the device: the moment for a commit."""

    round: int
    runs: "list[Run]"  # that go on after it


class Policy(NamedTuple):
    """When a run ends before its last round."""

    nonfinite: bool = False  # at the first message that is not finite
    impossible: bool = False  # at the first round that too few clients survive
    aggregates: bool = True  # by design: at its end one without an aggregated round has not run


DEFAULT = Policy()
COMPLETED = ("done", "not_run")  # ends after the last round, from which more rounds go on

# from one process to the next
CARRIED = ("round", "status", "reason", "first", "empty", "trained", "usable", "aggregated")


class Counters(NamedTuple):
    """What happened since the last evaluated round."""

    sampled: int = 0
    reported: int = 0
    nonfinite: int = 0
    skipped: int = 0
    loss: float = 0.0  # Σ batch loss · valid rows, one slot after another
    seen: float = 0.0  # Σ valid rows
    useful: int = 0
    lane_steps: int = 0
    diagnosed: int = 0  # rounds whose updates were measured
    update_norm: float = 0.0  # Σ over these rounds
    drift: float = 0.0
    cosine: float = 0.0
    info: dict[str, Any] = {}  # noqa: RUF012 (read only); what links reported: sums of integers, last floats


class Run:
    """One seed of one method, which can be left and taken up again after any round.

    Args:
      program: the pure functions.
      plan: the host's half.
      shared: start variables.
      key: root of all device randomness of the run.
      rounds: the last round.
      every: evaluate every so many rounds.
      policy: when to end early.
      folder: where client memory goes that would not fit on the device (None: to a folder of its own).
      resident: bytes of client memory that fit.
    """

    def __init__(
        self,
        program: Program,
        plan: Plan,
        shared,
        key,
        rounds: int,
        every: int,
        policy: Policy = DEFAULT,
        folder: Path | None = None,
        resident: int = 0,
    ):
        self.program, self.plan, self.planner, self.key = program, plan, Planner(plan), key
        self.rounds, self.every, self.policy = rounds, every, policy
        f = plan.federation
        stacks, self.sizes, self.batch = held_out(f, program.evaluators)
        self.held: dict[str, list[Stack]] = lent(stacks, f, program.evaluators)
        self.server: ServerState = program.server.init(shared, plan.present)
        self.start = (
            self.server.shared
        )  # clients' memory starts from it, whenever they first take part
        self.versions = Versions(0, self.start) if plan.timetable.asynchronous else None
        dtype = program.dtype.type
        self.clients: Any = dtype(len(plan.eligible))
        self.samples: Any = dtype(plan.sizes.sum())
        self.expected: Any = np.array(plan.expected, dtype)
        self.own = jax.device_put(own_samples(f)) if program.server.scores else None
        self.training = (
            None if program.own is None else ServerTraining(program.own, plan, program.dtype, key)
        )
        self.asks = tuple(name for name in plan.cohort.feedback if name in MEASURES)
        self.folder = folder
        self.store = self._store(self.row_bytes() * program.room.members > resident)
        self.round, self.status, self.reason, self.first = -1, "running", "", ""
        self.empty, self.since, self.open_since = 0, Counters(), Counters()
        self.trained, self.usable = (
            0,
            0,
        )  # updates so far: of clients that trained, and those that the rule could use
        self.aggregated = 0  # of the usable ones those that a round aggregated: the others were too few for the rule
        self.downlink = downlink(program.server.client, program.server.sender.codec, shared, f.N)
        self.totals = {"virtual_seconds": 0.0, "bytes_up": 0, "bytes_down": 0}
        self.joined = np.zeros(f.N, np.int64)  # rounds in which each client took part
        self.sent = np.zeros(f.N, np.int64)  # bytes that each client sent
        self.late, self.left = (
            np.zeros(f.N, np.int64),
            np.zeros(f.N, np.int64),
        )  # rounds in which it was, or did so
        self.ages = np.zeros(1, np.int64)  # messages by their age, of an asynchronous server
        self.last = (0.0, 0.0)  # wall and compile seconds of this process at the last row
        self.before = (0.0, 0.0)  # wall and compile seconds of the processes before this one

    def row_bytes(self) -> int:
        """Bytes that a client remembers."""
        memory = jax.eval_shape(
            lambda start: self.program.server.memories.empty(start, 1), self.start
        )
        return tree.nbytes(memory.rows)

    def _store(self, large: bool) -> Store:
        memories, start, N = self.program.server.memories, self.start, self.plan.federation.N
        if large:
            if (
                self.folder is None
            ):  # nothing is to be written: a folder that goes when the run does
                self.folder = Path(tempfile.mkdtemp(prefix="fedsim-"))
                weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
            return OnDisk(
                memories, start, self.program.room.blocks * self.program.width.block, N, self.folder
            )
        return Resident(memories, start, self.plan.members, self.program.room.members, N)

    def state(self, server: ServerState, plays: bool) -> RunState:
        """What the run brings to a round; `server` may be ahead of what the host has read."""
        return RunState(
            server=server,
            programs=self.program.server,
            start=self.start,
            store=self.store,
            root=self.key,
            clients=self.clients,
            samples=self.samples,
            expected=self.expected,
            versions=self.versions,
            own=self.own,
            training=self.training,
            asks=self.asks,
            plays=plays,
        )

    def begin(self, share: float) -> Iterator[Row]:
        """Start the clock, of which this run counts its share, and give the row of round 0 if nothing was played yet."""
        self.started, self.share = (time.perf_counter(), compile_seconds()), share
        if self.round < 0:
            self.round = 0
            self.status = "done" if self.rounds == 0 else "running"
            yield self._row(self.evaluate(self.server))
        elif (
            self.status == "running" and self.round == self.rounds
        ):  # it was left there, on its way to more rounds
            self._end()
            yield self._row(self.evaluate(self.server))

    def close(self) -> bool:
        """End a run that was left, on its way to more rounds, where it is to end by now and was evaluated -> whether it was."""
        if self.status != "running" or self.round != self.rounds or self.round % self.every:
            return False
        self._end()
        return True

    def settle(self, played: Played, tests: dict[str, Scores] | None) -> Iterator[Row]:
        """A round is over on the device as well: count it, judge it, and give its row where there is one."""
        jax.block_until_ready(
            (played.outcome, played.stats, tests, played.diagnosis, played.feedback)
        )  # raises where reading would abort: device full
        cohort, outcome = played.cohort, played.outcome
        self.round, self.server = cohort.round, played.server
        reported, usable = int(outcome.reported), int(outcome.usable)
        self.trained, self.usable = self.trained + reported, self.usable + usable
        self.aggregated += 0 if outcome.skipped else usable
        if reported:  # else nobody was there, which says nothing
            self.empty = 0 if usable else self.empty + 1
        self.totals["virtual_seconds"] += cohort.seconds
        sent = played.extra + np.sum(
            [np.asarray(part, np.int64)[: len(cohort.ids)] for part in played.sent], axis=0
        )
        self.totals["bytes_up"] += int(sent.sum())  # lost messages included
        missing = self._settle_others(cohort, None if played.got is None else int(played.got))
        np.add.at(self.joined, cohort.ids, 1)
        np.add.at(self.sent, cohort.ids, sent)
        if not self.plan.pure:
            self._settle_plan(played)
        s = self.since
        self.since = s._replace(
            sampled=s.sampled
            + len(cohort.ids)
            + (0 if cohort.others is None else len(cohort.others.ids)),
            reported=s.reported + reported,
            nonfinite=s.nonfinite + int(outcome.nonfinite),
            skipped=s.skipped + int(outcome.skipped),
            loss=_continued(s.loss, [block.loss for block in played.stats]),
            seen=_continued(s.seen, [block.seen for block in played.stats]),
            useful=s.useful + played.steps,
            lane_steps=s.lane_steps + played.lane_steps,
            info=_reported(s.info, outcome.info | self._malicious(cohort) | missing)
            | self.plan.columns(cohort),
            **_diagnosed(s, played),
        )
        if self.round == 1:
            self.first = digest(self.server)
        self._judge(played)
        if tests is not None or self.status != "running":
            yield self._row(self.evaluate(self.server) if tests is None else tests)

    def _settle_others(self, cohort: RoundPlan, got: int | None) -> dict[str, int]:
        """Count what everybody that the round drew was sent, and what those did whose messages do not count."""
        others, K = cohort.others, len(cohort.ids)
        if others is None:
            self.totals["bytes_down"] += int(self.downlink.deliver(cohort.ids, got).sum())
            return {} if not self.plan.machines.fleet.selective else dict.fromkeys(WASTED, 0)
        reached, senders = others.ids[others.reached], others.ids[others.sent]
        down = self.downlink.deliver(np.concatenate([cohort.ids, reached]), got)
        up = int(self.plan.cost.up)  # of each: what it would have sent is not known beyond its most
        self.totals["bytes_down"] += int(down.sum())
        self.totals["bytes_up"] += up * len(senders)
        np.add.at(self.sent, senders, up)
        np.add.at(self.late, others.ids[others.late], 1)
        np.add.at(self.left, others.ids[others.left], 1)
        counts = (
            others.late.sum(),
            others.left.sum(),
            others.steps.sum(),
            down[K:].sum() + up * len(senders),
        )
        return dict(zip(WASTED, map(int, counts), strict=True))

    def _malicious(self, cohort: RoundPlan) -> dict[str, int]:
        """How many of those that reported the attacker controls; nothing where it controls nobody."""
        if not self.plan.malicious.any():
            return {}
        controlled = self.plan.malicious_in(cohort.round)[cohort.ids]
        return {"malicious_reported": int((controlled & (cohort.weight > 0)).sum())}

    def _settle_plan(self, played: Played) -> None:
        """What later rounds of the plan depend on."""
        cohort = played.cohort
        whole = lambda parts: np.concatenate([np.asarray(part) for part in parts])[
            : len(cohort.ids)
        ]
        feedback = {name: whole([block[name] for block in played.feedback]) for name in self.asks}
        if "loss" in self.plan.cohort.needs:
            loss, seen = (
                whole([getattr(block, name) for block in played.stats]) for name in ("loss", "seen")
            )
            with np.errstate(invalid="ignore", divide="ignore"):
                feedback["loss"] = loss.astype(np.float64) / seen
        self.planner.complete(cohort, feedback)
        if self.versions is not None:
            self.ages = _counted_on(self.ages, cohort.age[cohort.weight > 0])
            self.versions.release(cohort.round, self.plan.flown(self.planner.state))

    def _row(self, tests: dict[str, Scores]) -> Row:
        """The row of a round; a loss in it that is not finite, or has no square, means that the run has diverged."""
        values, most = self._values(tests), math.sqrt(np.finfo(self.program.dtype).max)
        losses = {
            name: value
            for name, value in values.items()
            if name.endswith("_loss") and value is not None
        }
        lost = [name for name, value in losses.items() if not abs(value) < most]
        if lost and self.round > 0 and not self.reason:
            beyond = f", more than {self.program.dtype} can square" * math.isfinite(values[lost[0]])
            self.reason = f"round {self.round}: {lost[0]} is {values[lost[0]]:.4g}{beyond}"
        if self.status == "done" and self.reason:
            self.status = "diverged"
        s, extra = self.since, self.status in COMPLETED and self.round % self.every > 0
        self.since, self.open_since = Counters(), s if extra else Counters()
        return Row(values, self._timing(s), self.server, self.status, extra)

    def _judge(self, played: Played) -> None:
        outcome, r = played.outcome, played.cohort.round
        if not bool(outcome.finite):
            self.status, self.reason = (
                "diverged",
                f"round {r}: the shared model is no longer finite",
            )
        elif self.empty >= EMPTY_ROUNDS:
            reason = f"{EMPTY_ROUNDS} rounds running, no client's update could be used"
            self.status, self.reason = "diverged", f"round {r}: {reason}"
        elif self.policy.nonfinite and int(outcome.nonfinite):
            self.status, self.reason = (
                "stopped",
                f"round {r}: {int(outcome.nonfinite)} messages were not finite",
            )
        elif self.policy.impossible and bool(outcome.skipped):
            reason = f"{int(outcome.reported) - int(outcome.nonfinite)} usable messages"
            self.status, self.reason = (
                "stopped",
                f"round {r}: {reason}, the rule needs {self.program.server.pipeline.least}",
            )
        elif r == self.rounds:
            self._end()

    def _end(self) -> None:
        """The last round is over: done, unless there is a reason why its model is no result."""
        idle = self.policy.aggregates and not self.aggregated
        if not self.reason and idle and self.trained and not self.usable:
            unusable = f"none of the {self.trained} updates of all rounds could be used, and the model never moved"
            self.reason = f"round {self.round}: {unusable}"
        if self.reason:
            self.status = "diverged"
        elif idle:
            self.status = "not_run"
            self.reason = f"no round was aggregated: {self._shortage()}"
        else:
            self.status = "done"

    def _shortage(self) -> str:
        """Why no round of a run was aggregated, and what to do."""
        if not self.trained:
            return (
                "no client reported in any round; change cohort, fleet or schedule so that some do"
            )
        pipeline = self.program.server.pipeline
        least, most = pipeline.least, pipeline.rule.most
        needed = f"at least {least}" if most is None else f"{least} to {most}"
        return f"the rule needs {needed} usable updates, and no round had so many; change the rule, or who reports"

    def evaluates(self, r: int) -> bool:
        """Whether a round has a row."""
        return r % self.every == 0 or r == self.rounds

    def evaluate(self, server: ServerState, together: bool = True) -> dict[str, Scores]:
        """Hand the samples held out to the device, by all threads together or by this one; who needs the numbers waits."""
        return {
            name: self.scores(server, stacks, together=together)
            for name, stacks in self.held.items()
        }

    def scores(
        self,
        server: ServerState,
        stacks: Iterable[Stack],
        wait: bool = False,
        together: bool = True,
    ) -> Scores:
        """Scores of stacks of batches, as `evaluation.scores`."""
        program = self.program
        threads = program.evaluators if together else 1
        return scores(program.evaluate, threads, program.server.sender.shown(server), stacks, wait)

    def _values(self, tests: dict[str, Scores]) -> dict[str, Any]:
        s, r = self.since, self.round
        values = {
            "round": r,
            **self.totals,
            "clients_sampled": s.sampled,
            "clients_reported": s.reported,
            "n_nonfinite": s.nonfinite,
            "skipped": s.skipped,
            "train_loss": s.loss / s.seen if s.seen else None,
        }
        if self.program.diagnoses:
            values |= {
                name: getattr(s, name) / s.diagnosed if s.diagnosed else None
                for name in Diagnosis._fields
            }
        values |= s.info
        for name, results in tests.items():
            means = metrics(
                gathered(results, self.sizes[name]), self.plan.federation.scored[name][1]
            )
            if name == "triggered":
                values["attack_success"] = means.get("accuracy")
            else:
                values |= {f"{name}_{metric}": value for metric, value in means.items()}
        return values

    def _timing(self, s: Counters) -> dict[str, float]:
        wall, compiling = time.perf_counter() - self.started[0], compile_seconds() - self.started[1]
        wall, compiling = self.share * wall, self.share * compiling
        working = wall - self.last[0] - (compiling - self.last[1])
        self.last = (wall, compiling)
        return {
            "round": self.round,
            "wall_seconds": self.before[0] + wall,
            "compile_seconds": self.before[1] + compiling,
            "steps_per_second": s.useful / working if working > 0 else 0.0,
            "lane_efficiency": s.useful / s.lane_steps if s.lane_steps else 0.0,
        }

    def release(self) -> None:
        """Let go of the samples: what is asked of a run that has ended needs none, and there may be many such runs."""
        self.held, self.own, self.training = {}, None, None

    def snapshot(self, portable: bool = False) -> Snapshot:
        """Everything the run goes on from (at rest, or when it has ended); `portable`: without files beside it."""
        values = {
            **{name: getattr(self, name) for name in CARRIED},
            "totals": self.totals,
            "since": self.since._asdict(),
            "open_since": self.open_since._asdict(),
            "before": [b + now for b, now in zip(self.before, self.last, strict=True)],
        }
        arrays = {
            **{name: getattr(self, name) for name in self._counted()},
            **self.downlink.arrays(),
            **self.store.arrays(portable),
        }
        if not self.plan.pure:
            arrays |= self.planner.arrays()
        if self.versions is not None:
            arrays["ages"] = self.ages
            arrays |= self.versions.arrays(
                self.planner.completed, self.plan.flown(self.planner.state)
            )
        return Snapshot(values, {**named("server", self.server), **arrays})

    def _counted(self) -> tuple[str, ...]:
        """Counters of every client that a commit keeps."""
        return ("joined", "sent", *(("late", "left") if self.plan.machines.fleet.selective else ()))

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot, perhaps of a run that ended earlier than this one is to.

        Raises:
          CheckpointError: when it does not fit this run.
        """
        values, arrays = snapshot
        self.server = jax.device_put(fitted("server", arrays, self.server))
        for name in self._counted():
            setattr(self, name, fitted(name, arrays, getattr(self, name)).copy())
        self.downlink.restore(arrays)
        if "memory.file" in arrays and isinstance(self.store, Resident):
            self.store = self._store(True)
        self.store.restore(arrays)
        # Commits of 0.5.0 did not count the aggregated updates: those that the rule could use are the nearest.
        values = {"aggregated": values["usable"], **values}
        for name in (*CARRIED, "totals"):
            setattr(self, name, values[name])
        if not self.plan.pure:
            self.planner.restore(arrays, self.round)
        if self.versions is not None:
            self.ages = np.array(arrays["ages"])
            self.versions.restore(
                arrays, self.round, self.server.shared, self.plan.flown(self.planner.state)
            )
        self.before = tuple(values["before"])
        self.since, self.open_since = Counters(**values["since"]), Counters(**values["open_since"])
        if self.status in COMPLETED and self.round < self.rounds:
            self.since, self.status, self.reason = self.open_since, "running", ""


def _diagnosed(s: Counters, played: Played) -> dict[str, float]:
    """Rounds that were measured, and the sums over them; one with too few clients says nothing."""
    diagnosis = {} if played.diagnosis is None else played.diagnosis._asdict()
    values = {name: float(np.asarray(value)[played.place]) for name, value in diagnosis.items()}
    if not values or not all(map(math.isfinite, values.values())):
        return {}
    return {
        "diagnosed": s.diagnosed + 1,
        **{name: getattr(s, name) + value for name, value in values.items()},
    }


def _reported(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What links report in `rounds.csv`: integers are summed since the row before, floats are those of the row's round.

    A float that is not a number says nothing of the round: None.
    """
    values = {name: np.asarray(value).item() for name, value in now.items()}
    summed = {
        name: before.get(name, 0) + v for name, v in values.items() if isinstance(v, int | bool)
    }
    return {name: summed.get(name, None if v != v else v) for name, v in values.items()}


def _counted_on(counts: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """How often each number occurs, with those counted before."""
    more = np.bincount(numbers, minlength=len(counts))
    more[: len(counts)] += counts
    return more


def _continued(total: float, parts: list) -> float:
    """A float64 sum goes on, slot after slot."""
    return float(
        np.cumsum(np.concatenate([[total], *(np.asarray(part, np.float64) for part in parts)]))[-1]
    )
