"""The run: rounds one after another, evaluated where asked, two rounds ahead of what the host has read."""

import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.engine.clock import compile_seconds
from fedsim.engine.lanes import Rows
from fedsim.engine.round import Pieces, Played, Program, play, train_loss
from fedsim.engine.serve import Server
from fedsim.engine.task import in_batches
from fedsim.fleet import Plan

AHEAD = 2  # rounds in flight: the host plans while the device works, and never runs away from it
EMPTY_ROUNDS = 10  # so many skipped rounds running end a run
BATCH = 2048  # rows of an evaluation batch, at most


class Row(NamedTuple):
    """An evaluated round: its line of `rounds.csv`, its line of `timing.csv`, and the server after it."""

    values: dict[str, Any]
    timing: dict[str, float]
    status: str  # running | done | diverged | stopped
    server: Server


class Run:
    """One seed of one method: an iterator over its evaluated rounds.

    Args:
      program: the pure functions.
      plan: the host's half.
      shared: start variables.
      key: root of all device randomness of the run.
      rounds: the last round.
      every: evaluate every so many rounds.
      stop: end the run at the first non-finite message.
      calls: device calls per block (None: as long as a call takes about a second); changes no bit.
    """

    def __init__(self, program: Program, plan: Plan, shared, key, rounds: int, every: int, stop=False, calls=None):
        self.program, self.plan, self.key = program, plan, key
        self.rounds, self.every, self.stop = rounds, every, stop
        self.pieces = Pieces(calls)
        f = plan.federation
        self.data = jax.device_put((f.x, f.y))
        self.batch = min(len(f.x_test) or len(f.x), BATCH)
        held = {"test": (f.x_test, f.y_test), "validation": (f.x_validation, f.y_validation)}
        self.held = {name: jax.device_put(in_batches(x, y, self.batch)) for name, (x, y) in held.items() if len(x)}
        self.sizes = {name: len(x) for name, (x, _) in held.items()}
        self.server = program.serve.init(shared)
        self.memory = program.memories.empty(self.server.bank, program.room.members)
        self.message_bytes = {"up": 0, "down": tree.payload_bytes(shared)}
        self.totals = {"virtual_seconds": 0.0, "bytes_up": 0, "bytes_down": 0}
        self.joined = np.zeros(f.N, np.int64)  # rounds in which each client took part

    def __iter__(self) -> Iterator[Row]:
        self.started, self.last = (time.perf_counter(), compile_seconds()), (0.0, 0.0)
        yield self._row(0, self.server, [], "done" if self.rounds == 0 else "running", self._evaluate(self.server))
        since, empty = [], 0
        for played, tests in self._played():
            since.append(played)
            empty = empty + 1 if bool(played.outcome.skipped) else 0
            status = self._judge(played, empty)
            if tests is not None or status != "running":
                self.server = played.server
                tests = self._evaluate(played.server) if tests is None else tests
                yield self._row(played.work.round, played.server, since, status, tests)
                since = []
            if status != "running":
                return

    def _played(self) -> Iterator[tuple[Played, dict[str, list] | None]]:
        """Rounds with their test results (None: not evaluated), handed to the device AHEAD of the one that is yielded."""
        server, rows, flying = self.server, None, deque()
        for r in range(1, self.rounds + 1):
            played, self.memory, rows = play(
                self.program, self.plan, server, self.memory, rows, self.data, self.key, r, self.pieces
            )
            server = played.server
            assert rows is not None
            self._weigh(rows)
            evaluated = r % self.every == 0 or r == self.rounds
            flying.append((played, self._evaluate(server) if evaluated else None))
            if len(flying) > AHEAD:
                yield flying.popleft()
        yield from flying

    def _judge(self, played: Played, empty: int) -> str:
        if not bool(played.outcome.finite) or empty >= EMPTY_ROUNDS:
            return "diverged"
        if self.stop and int(played.outcome.nonfinite):
            return "stopped"
        return "done" if played.work.round == self.rounds else "running"

    def _weigh(self, rows: Rows) -> None:
        """Bytes of one message, from the shapes of the stack."""
        sent = rows.message
        self.message_bytes["up"] = tree.payload_bytes((sent.delta, sent.state, sent.aux)) // rows.loss.shape[0]

    def _evaluate(self, server: Server) -> dict[str, list]:
        """Hand the samples held out to the device; whoever needs the numbers waits for them."""
        return {name: [self.program.evaluate(server.bank, x, y) for x, y in sets] for name, sets in self.held.items()}

    def _row(self, r: int, server: Server, since: list[Played], status: str, tests: dict[str, list]) -> Row:
        for p in since:
            self.totals["virtual_seconds"] += p.work.seconds
            self.totals["bytes_up"] += self.message_bytes["up"] * len(p.work.ids)  # lost messages included
            self.totals["bytes_down"] += self.message_bytes["down"] * len(p.work.ids)
            self.joined[p.work.ids] += 1
        outcomes = [p.outcome for p in since]
        values = {
            "round": r,
            **self.totals,
            "clients_sampled": sum(len(p.work.ids) for p in since),
            "clients_reported": sum(int(o.reported) for o in outcomes),
            "n_nonfinite": sum(int(o.nonfinite) for o in outcomes),
            "skipped": sum(int(o.skipped) for o in outcomes),
            "train_loss": train_loss(since) if since else None,
        }
        for name, results in tests.items():
            loss, hit = gathered(results, self.sizes[name])
            values[f"{name}_loss"] = float(np.cumsum(loss)[-1] / len(loss))  # cumsum: one order of summation everywhere
            if self.plan.federation.classes:
                values[f"{name}_accuracy"] = float(hit.sum() / len(hit))
        return Row(values, self._timing(r, since), status, server)

    def _timing(self, r: int, since: list[Played]) -> dict[str, float]:
        wall, compiling = time.perf_counter() - self.started[0], compile_seconds() - self.started[1]
        working = wall - self.last[0] - (compiling - self.last[1])
        self.last = (wall, compiling)
        useful, lane_steps = sum(p.useful for p in since), sum(p.lane_steps for p in since)
        return {
            "round": r,
            "wall_seconds": wall,
            "compile_seconds": compiling,
            "steps_per_second": useful / working if working > 0 else 0.0,
            "lane_efficiency": useful / lane_steps if lane_steps else 0.0,
        }


def client_scores(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How the shared model does on every client's own samples: mean loss, accuracy, number of samples, `[N]` each.

    The samples are those that clients keep for testing (`client_test`), or else the ones they train on.
    """
    f = run.plan.federation
    kept = len(f.test_indices) > 0
    rows, owner = (f.test_indices, f.test_owner) if kept else (f.indices, f.owner)
    batches = map(jax.device_put, in_batches(f.x, f.y, run.batch))
    results = [run.program.evaluate(run.server.bank, x, y) for x, y in batches]
    counts = np.bincount(owner, minlength=f.N)
    with np.errstate(invalid="ignore"):
        loss, hit = (np.bincount(owner, v[rows], f.N) / counts for v in gathered(results, len(f.x)))
    return loss, hit, counts


def gathered(results: list, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Per-row losses and hits of evaluation batches as float64 `[n]`, the filling cut off."""
    loss, hit = (
        np.concatenate([np.asarray(part, np.float64) for part in parts])[:n] for parts in zip(*results, strict=True)
    )
    return loss, hit


def final_state(run: Run) -> dict[str, dict[str, Any]]:
    """What server and clients remember, by name, as NumPy arrays; client rows `[N, ...]` in the order of ids."""
    server = tree.take(run.server, 0)
    members, N = run.plan.members, run.plan.federation.N
    seen = np.zeros(N, bool)
    seen[members] = np.asarray(run.memory.seen)[: len(members)]
    fresh = run.program.memories.fresh(run.server.bank, run.key, np.arange(N, dtype=np.int32))
    client = tree.select(jnp.asarray(seen), tree.take(run.memory.rows, run.plan.place), fresh)
    named = {**server.bank["aux"], **_fields(server.carry)}
    return {"server": jax.tree.map(np.asarray, named), "client": jax.tree.map(np.asarray, client or {})}


def _fields(state: Any) -> dict[str, Any]:
    """The named fields of all named tuples inside a state (optax names its states so)."""
    found = {}
    if hasattr(state, "_fields"):
        for name, value in zip(state._fields, state, strict=True):
            found |= _fields(value) or {name: value}
    elif isinstance(state, dict | tuple | list):
        for value in state.values() if isinstance(state, dict) else state:
            found |= _fields(value)
    return {name: value for name, value in found.items() if jax.tree.leaves(value)}
