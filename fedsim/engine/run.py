"""The run: what one seed of one method holds, what it counts, and the rows that come of its rounds."""

import itertools
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
from fedsim.data import Federation
from fedsim.disk.checkpoint import Snapshot, digest, fitted, named
from fedsim.engine.clock import compile_seconds
from fedsim.engine.diagnosis import Found
from fedsim.engine.machine import platform
from fedsim.engine.round import Hand, Played, Program
from fedsim.engine.server import Server
from fedsim.engine.store import OnDisk, Resident, Store
from fedsim.engine.task import even, gathered, in_batches
from fedsim.engine.threads import side_by_side
from fedsim.fleet import Plan

EMPTY_ROUNDS = 10  # so many rounds running whose updates were all unusable end a run
BATCH_BYTES = 800_000  # of the samples in an evaluation batch on a CPU: what a core's cache holds beside the model
WIDE = 4096  # rows of an evaluation batch, at most


class Row(NamedTuple):
    """An evaluated round: its line of `rounds.csv`, its line of `timing.csv`, and the server after it."""

    values: dict[str, Any]
    timing: dict[str, float]
    server: Server  # after it
    status: str  # running | done | diverged | stopped
    extra: bool = False  # the last round, which a longer run would not have evaluated


class Rest(NamedTuple):
    """Nothing is in flight: the moment for a commit."""

    round: int
    runs: "list[Run]"  # that go on after it


class Policy(NamedTuple):
    """When a run ends before its last round."""

    nonfinite: bool = False  # at the first message that is not finite
    impossible: bool = False  # at the first round that too few clients survive
    still: bool = False  # a learning rate is 0: a model that never moves is what was asked for


DEFAULT = Policy()
CARRIED = ("round", "status", "reason", "first", "empty", "trained", "usable")  # from one process to the next


class Since(NamedTuple):
    """What happened since the last evaluated round."""

    sampled: int = 0
    reported: int = 0
    nonfinite: int = 0
    skipped: int = 0
    loss: float = 0.0  # Σ batch loss · valid rows, one slot after another
    seen: float = 0.0  # Σ valid rows
    useful: int = 0
    lane_steps: int = 0
    diagnosed: int = 0  # rounds whose updates were looked at
    update_norm: float = 0.0  # Σ over these rounds
    drift: float = 0.0
    cosine: float = 0.0


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
        self.program, self.plan, self.key = program, plan, key
        self.rounds, self.every, self.policy = rounds, every, policy
        f = plan.federation
        held, self.sizes, self.batch = held_out(f, program.crews)
        self.held: dict[str, list] = _lent(held, f, program.crews)
        self.server: Server = program.serve.init(shared, plan.present)
        self.start = self.server.bank  # clients' memory starts from it, whenever they first take part
        dtype = program.dtype.type
        self.clients, self.samples = dtype(len(plan.eligible)), dtype(plan.sizes.sum())
        self.folder = folder
        self.store = self._store(self.row_bytes() * program.room.members > resident)
        self.round, self.status, self.reason, self.first = -1, "running", "", ""
        self.empty, self.since, self.open_since = 0, Since(), Since()
        self.trained, self.usable = 0, 0  # updates so far: of clients that trained, and those that the rule could use
        self.message_bytes = {"up": 0, "down": tree.payload_bytes(shared)}
        self.totals = {"virtual_seconds": 0.0, "bytes_up": 0, "bytes_down": 0}
        self.joined = np.zeros(f.N, np.int64)  # rounds in which each client took part
        self.last = (0.0, 0.0)  # wall and compile seconds of this process at the last row
        self.before = (0.0, 0.0)  # wall and compile seconds of the processes before this one

    def row_bytes(self) -> int:
        """Bytes that a client remembers."""
        one = jax.eval_shape(lambda bank: self.program.memories.empty(bank, 1), self.server.bank)
        return tree.payload_bytes(one.rows)

    def _store(self, large: bool) -> Store:
        memories, bank, N = self.program.memories, self.server.bank, self.plan.federation.N
        if large:
            if self.folder is None:  # nothing is to be written: a folder that goes when the run does
                self.folder = Path(tempfile.mkdtemp(prefix="fedsim-"))
                weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
            return OnDisk(memories, bank, self.program.room.blocks * self.program.width.block, N, self.folder)
        return Resident(memories, bank, self.plan.members, self.program.room.members, N)

    def hand(self) -> Hand:
        """What the run brings to a round of several runs."""
        about = (self.start, self.store, self.key, self.clients, self.samples)
        return Hand(self.program.serve, self.server, *about, plays=False)

    def begin(self, share: float) -> Iterator[Row]:
        """Start the clock, of which this run counts its share, and give the row of round 0 if nothing was played yet."""
        self.started, self.share = (time.perf_counter(), compile_seconds()), share
        if self.round < 0:
            self.round = 0
            self.status = "done" if self.rounds == 0 else "running"
            yield self._row(self.evaluate(self.server))

    def settle(self, played: Played, tests: dict[str, list] | None) -> Iterator[Row]:
        """A round is over on the device as well: count it, judge it, and give its row where there is one."""
        jax.block_until_ready(
            (played.outcome, played.met, tests, played.found)
        )  # raises where reading would abort: device full
        work, outcome = played.work, played.outcome
        self.round, self.server = work.round, played.server
        reported, usable = int(outcome.reported), int(outcome.usable)
        self.trained, self.usable = self.trained + reported, self.usable + usable
        if reported:  # else nobody was there, which says nothing
            self.empty = 0 if usable else self.empty + 1
        self.totals["virtual_seconds"] += work.seconds
        self.totals["bytes_up"] += self.message_bytes["up"] * len(work.ids)  # lost messages included
        self.totals["bytes_down"] += self.message_bytes["down"] * len(work.ids)
        self.joined[work.ids] += 1
        s = self.since
        self.since = Since(
            s.sampled + len(work.ids),
            s.reported + reported,
            s.nonfinite + int(outcome.nonfinite),
            s.skipped + int(outcome.skipped),
            _continued(s.loss, [m.loss for m in played.met]),
            _continued(s.seen, [m.seen for m in played.met]),
            s.useful + played.useful,
            s.lane_steps + played.lane_steps,
            *_diagnosed(s, played.found),
        )
        if self.round == 1:
            self.first = digest(self.server)
        self._judge(played)
        if tests is not None or self.status != "running":
            yield self._row(self.evaluate(self.server) if tests is None else tests)

    def _row(self, tests: dict[str, list]) -> Row:
        """The row of a round; a loss in it that is not finite, or has no square, means that the run has diverged."""
        values, most = self._values(tests), math.sqrt(np.finfo(self.program.dtype).max)
        losses = {name: value for name, value in values.items() if name.endswith("_loss") and value is not None}
        lost = [name for name, value in losses.items() if not abs(value) < most]
        if lost and self.round > 0 and not self.reason:
            beyond = f", more than {self.program.dtype} can square" * math.isfinite(values[lost[0]])
            self.reason = f"round {self.round}: {lost[0]} is {values[lost[0]]:.4g}{beyond}"
        if self.status == "done" and self.reason:
            self.status = "diverged"
        s, extra = self.since, self.status == "done" and self.round % self.every > 0
        self.since, self.open_since = Since(), s if extra else Since()
        return Row(values, self._timing(s), self.server, self.status, extra)

    def _judge(self, played: Played) -> None:
        outcome, r = played.outcome, played.work.round
        if not bool(outcome.finite):
            self.status, self.reason = "diverged", f"round {r}: the shared model is no longer finite"
        elif self.empty >= EMPTY_ROUNDS:
            what = f"{EMPTY_ROUNDS} rounds running, no client's update could be used"
            self.status, self.reason = "diverged", f"round {r}: {what}"
        elif self.policy.nonfinite and int(outcome.nonfinite):
            self.status, self.reason = "stopped", f"round {r}: {int(outcome.nonfinite)} messages were not finite"
        elif self.policy.impossible and bool(outcome.skipped):
            what = f"{int(outcome.reported) - int(outcome.nonfinite)} usable messages"
            self.status, self.reason = "stopped", f"round {r}: {what}, the rule needs {self.program.serve.least}"
        elif r == self.rounds:
            self.status = "done"
            if self.trained and not self.usable and not self.policy.still:
                what = f"none of the {self.trained} updates of all rounds could be used, and the model never moved"
                self.reason = self.reason or f"round {r}: {what}"

    def evaluate(self, server: Server) -> dict[str, list]:
        """Hand the samples held out to the device; whoever needs the numbers waits for them."""
        return {name: self.score(server, parts) for name, parts in self.held.items()}

    def score(self, server: Server, stacks: Iterable[tuple], wait: bool = False) -> list:
        """(losses, hits) of stacks of batches, the crews side by side.

        Args:
          server: whose model is evaluated.
          stacks: (x, y) each.
          wait: for the results before more stacks are taken, so that few are held at a time.
        """
        stacks, results, shown = iter(stacks), [], self.program.serve.shown(server)
        while together := [(shown, *stack) for stack in itertools.islice(stacks, self.program.crews)]:
            results += side_by_side(self.program.evaluate, together)
            if wait:
                jax.block_until_ready(results)
        return results

    def _values(self, tests: dict[str, list]) -> dict[str, Any]:
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
            values |= {name: getattr(s, name) / s.diagnosed if s.diagnosed else None for name in Found._fields}
        for name, results in tests.items():
            loss, hit = gathered(results, self.sizes[name])
            values[f"{name}_loss"] = float(np.cumsum(loss)[-1] / len(loss))  # cumsum: one order of summation everywhere
            if self.plan.federation.classes:
                values[f"{name}_accuracy"] = float(hit.sum() / len(hit))
        return values

    def _timing(self, s: Since) -> dict[str, float]:
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
        self.held = {}

    def snapshot(self, portable: bool = False) -> Snapshot:
        """Everything the run goes on from (at rest, or when it has ended); `portable`: without files beside it."""
        values = {
            **{name: getattr(self, name) for name in CARRIED},
            **{name: getattr(self, name) for name in ("totals", "message_bytes")},
            "since": self.since._asdict(),
            "open_since": self.open_since._asdict(),
            "before": [b + now for b, now in zip(self.before, self.last, strict=True)],
        }
        return Snapshot(values, {**named("server", self.server), "joined": self.joined, **self.store.arrays(portable)})

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot, perhaps of a run that ended earlier than this one is to.

        Raises:
          CheckpointError: when it does not fit this run.
        """
        values, arrays = snapshot
        self.server = jax.device_put(fitted("server", arrays, self.server))
        self.joined = fitted("joined", arrays, self.joined).copy()
        if "memory.file" in arrays and isinstance(self.store, Resident):
            self.store = self._store(True)
        self.store.restore(arrays)
        for name in (*CARRIED, "totals", "message_bytes"):
            setattr(self, name, values[name])
        self.before = tuple(values["before"])
        self.since, self.open_since = Since(**values["since"]), Since(**values["open_since"])
        if self.status == "done" and self.round < self.rounds:
            self.since, self.status = self.open_since, "running"


class Lent(dict):
    """Samples on the device for as long as some run asks for them."""

    of: tuple = ()  # the arrays, whose ids are the key


_lent_before: weakref.WeakValueDictionary[tuple, Lent] = weakref.WeakValueDictionary()


def _lent(held: dict[str, list], f: Federation, crews: int) -> Lent:
    """The samples held out, on the device once for all runs over the same arrays: many are played side by side."""
    of = (f.x_test, f.y_test, f.x_validation, f.y_validation)
    key = (*map(id, of), crews, str(jax.config.values["jax_default_device"]))
    found = _lent_before.get(key)
    if found is None:
        found = Lent(jax.device_put(held))
        found.of = of
        _lent_before[key] = found
    return found


def held_out(f: Federation, crews: int) -> tuple[dict[str, list], dict[str, int], int]:
    """The samples that nobody trains on, as the crews evaluate them -> (stacks of batches, rows, rows of a batch)."""
    narrow = BATCH_BYTES * len(f.x) // f.x.nbytes if platform() == "cpu" else WIDE
    E = even(len(f.x_test) or len(f.x), min(max(narrow, 1), WIDE))
    apart = {"test": (f.x_test, f.y_test), "validation": (f.x_validation, f.y_validation)}
    stacks = {name: list(in_batches(x, y, E, -(-len(x) // (E * crews)))) for name, (x, y) in apart.items() if len(x)}
    return stacks, {name: len(x) for name, (x, _) in apart.items()}, E


def _diagnosed(s: Since, found: Found | None) -> tuple[int, float, float, float]:
    """Rounds that were looked at, and the sums over them; one with too few clients says nothing."""
    said = [float(value) for value in found or ()]
    if not said or not all(map(math.isfinite, said)):
        return s.diagnosed, s.update_norm, s.drift, s.cosine
    return s.diagnosed + 1, s.update_norm + said[0], s.drift + said[1], s.cosine + said[2]


def _continued(total: float, parts: list) -> float:
    """A float64 sum goes on, slot after slot."""
    return float(np.cumsum(np.concatenate([[total], *(np.asarray(part, np.float64) for part in parts)]))[-1])
