"""The plan: everything about a round that does not depend on the value of a parameter, decided on the host.

A round's plan is a pure function of `(scenario, seed, round)` and not of the method: whatever is compared, is compared
under the same cohorts, batches and failures. Some plans go on from what was before: an asynchronous server's from who trains
at the moment, that of a cohort that looks at losses from the losses so far, or at who was drawn from the draws so far.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedsim.data import Federation
from fedsim.fleet.adversary import Adversary
from fedsim.fleet.clients import Clients
from fedsim.fleet.clock import Cost
from fedsim.fleet.flights import Flight, Flights, State, nobody
from fedsim.fleet.machines import Fleet, Machines
from fedsim.fleet.selection import HISTORY, Cohort, Drawn, Population
from fedsim.fleet.selection import all as everybody
from fedsim.fleet.shares import shares
from fedsim.fleet.streams import Draws, Stream, generator
from fedsim.fleet.timetables import SYNC, Timetable

SURVEYED = 1000  # rounds whose cohorts are drawn before the run, for shapes and memory
FLOWN = 100_000  # flights that are: they come one by one
KEPT = (
    1 << 13
)  # clients of first rounds that are kept: shapes, memory and the run ask for the same ones


class Local(NamedTuple):
    """How much a client trains in a round, and in which order it visits its samples."""

    batch: int | None  # None: all samples of the client
    epochs: int | None
    steps: int | list[int] | None  # exactly one of `epochs` and `steps`
    shuffle: bool
    drop_last: bool
    lr: Callable[[int], float]  # round, from 1 -> client learning rate
    rate: Callable[[int], float] | None = None  # local step, from 0 -> learning rate instead

    def widest(self, sizes: np.ndarray) -> int:
        """Rows of the widest batch B of clients with so many samples: no batch holds more than a client has."""
        largest = int(sizes.max(initial=1))
        return largest if self.batch is None else min(self.batch, largest)


class RoundPlan(NamedTuple):
    """Who trains in a round; arrays `[K]` over slots, in the order of client ids."""

    round: int
    ids: np.ndarray  # int64
    count: np.ndarray  # times drawn, or the factor of each
    samples: np.ndarray  # n_k
    weight: np.ndarray  # n_k, 0 where nothing arrives
    steps: np.ndarray  # planned local steps
    lr: float | np.ndarray
    lr_sum: np.ndarray  # Σ of the learning rates of the planned steps
    seconds: float  # virtual duration of the round
    start: (
        np.ndarray
    )  # version of the model that each trains from: how many steps the server had taken
    draw: np.ndarray  # of the batches of each
    shift: int  # classes that the clients' labels have moved on by
    others: "Others | None" = None  # that were drawn and whose messages do not count

    @property
    def age(self) -> np.ndarray:
        """Steps that the server took since it sent the model that each client trained from `[K]`."""
        return self.round - 1 - self.start


class Others(NamedTuple):
    """Clients that a round drew and that it does not count; arrays `[m]` in the order of their ids."""

    ids: np.ndarray
    late: np.ndarray  # whether the round ended before them
    left: np.ndarray  # whether they left it
    steps: np.ndarray  # local steps that they did
    reached: np.ndarray  # whether they got the model
    sent: np.ndarray  # whether they sent a message


class Plan:
    """The rounds of one run of one seed.

    Attributes:
      sizes: training samples of every client `[N]`.
      steps: planned local steps of every client `[N]`.
      present: clients that can take part, which are those with samples `[N]`.
      malicious: clients that the attacker controls `[N]`, in the first round where they are drawn anew in each.
      pure: whether a round depends on nothing that happened before.
      nominal: clients of a round, or about so many.
      cost: what a client's round costs, known before it trains.
      seconds: that it takes, of every client `[N]`.
      labels: samples of every client and class `[N, C]`, where the client method wants to know; else `[N, 0]`.
      held: versions of the model that clients in flight were given, at most in the rounds that were surveyed.
      moves: whether labels move on from round to round; `labels` are those of round 1.
    """

    def __init__(
        self,
        federation: Federation,
        cohort: Cohort,
        local: Local,
        seed: int,
        rounds: int,
        adversary: Adversary = Adversary(),  # noqa: B008 (immutable)
        labelled: bool = False,
        *,
        timetable: Timetable = SYNC,
        fleet: Fleet = Fleet(),  # noqa: B008 (immutable)
        down: int = 0,
        up: int = 0,
        batches: Stream = Stream.BATCHES,
    ):
        self.federation, self.cohort, self.local, self.seed = federation, cohort, local, seed
        self.timetable = timetable
        self.nominal = timetable.buffer or cohort.nominal(federation.N)
        self.rounds, self.adversary = rounds, adversary
        self.malicious = adversary.mask(federation.N, seed, 1)
        self._controlled = (1, self.malicious)
        self.sizes = federation.sizes
        self.present = self.sizes > 0  # a client without samples cannot train
        self.eligible = np.flatnonzero(self.present)
        self.written = local
        if local.batch is not None:  # wider batches would be padding alone
            self.local = local = local._replace(batch=local.widest(self.sizes))
        self.steps = planned_steps(self.sizes, local)
        self.cost = Cost(self.steps, down, up, local.epochs if local.steps is None else None)
        self.machines = Machines(
            fleet, Clients(self.sizes, federation.label_counts), self.cost, seed
        )
        self.seconds = self.machines.seconds
        remembers = bool(cohort.feedback) or HISTORY in cohort.needs
        self.pure = not (timetable.asynchronous or remembers or self.machines.clocked)
        self.population = self._population()
        self.labels = (
            federation.label_counts() if labelled else np.zeros((federation.N, 0), np.int64)
        )
        self.held = 1
        self._kept: dict[int, tuple[RoundPlan, State]] = {}
        self.moves = bool(federation.moves)
        self._draws = Draws(seed, batches)

    def _population(self) -> Population:
        """Clients that can be drawn, with what the cohort needs of them that no round changes."""
        known = {"seconds": lambda: self.seconds, "labels": self.federation.label_counts}
        columns = {
            name: column()[self.eligible]
            for name, column in known.items()
            if name in self.cohort.needs
        }
        return Population(self.eligible, self.sizes[self.eligible], **columns)

    @cached_property
    def expected(self) -> tuple[float, float]:
        """Clients that a round draws on average, and their samples together: Σ_k π_k and Σ_k π_k n_k; 0 where unknown."""
        if (
            self.cohort.share is None
            or self.timetable.asynchronous
            or self.machines.fleet.selective
        ):
            return 0.0, 0.0
        share = np.broadcast_to(self.cohort.share(self.population), len(self.eligible))
        return float(share.sum()), float(share @ self.population.samples)

    @cached_property
    def shares(self) -> np.ndarray | None:
        """Times that a round has a message of each client, on average `[N]`; None: unknown."""
        return (
            None
            if self.timetable.asynchronous
            else shares(self.cohort, self.population, self.machines)
        )

    def malicious_in(self, round: int) -> np.ndarray:
        """Clients that the attacker controls in a round `[N]`."""
        if not self.adversary.redrawn:
            return self.malicious
        if self._controlled[0] != round:  # asked for by every block of a round
            self._controlled = (round, self.adversary.mask(len(self.sizes), self.seed, round))
        return self._controlled[1]

    def begin(self) -> State:
        """What round 1 goes on from; nothing where the plan is pure, or looks at losses alone."""
        if not self.timetable.asynchronous:
            none = np.zeros(len(self.sizes), np.int64)
            history = {"drawn": none, "last": none} if HISTORY in self.cohort.needs else {}
            return history | ({"clock": np.array(0.0)} if self.machines.clocked else {})
        flights = self._flights(nobody())
        flights.fill(0)
        return flights.state()

    def round(
        self, r: int, state: State | None = None, feedback: Mapping[str, np.ndarray] | None = None
    ) -> tuple[RoundPlan, State]:
        """Cohort, weights and work of round r ≥ 1 -> (the round, what the next one goes on from).

        Args:
          r: the round.
          state: after the round before; nothing where the plan is pure.
          feedback: what is known of every client, as `Planner.feedback`, where the cohort looks at it.
        """
        if r in self._kept:
            return self._kept[r]
        drawn = self._round(r, self.begin() if state is None else state, feedback)
        if self.pure and r * self.nominal <= KEPT:
            self._kept[r] = drawn
        return drawn

    def _round(
        self, r: int, state: State, feedback: Mapping[str, np.ndarray] | None
    ) -> tuple[RoundPlan, State]:
        """`round`, of one that is not kept."""
        if self.timetable.asynchronous:
            return self._flush(r, state)
        ids, count = self._drawn(r, state, feedback or {})
        fates = self.machines.round_outcome(r, ids)
        joined, lr = fates.joined, self.local.lr(r)
        same = np.ones(int(joined.sum()), np.int64)
        work = self._work(
            r,
            ids[joined],
            count[joined],
            lr,
            fates.seconds,
            (r - 1) * same,
            r * same,
            fates.steps[joined],
        )
        if not joined.all():
            columns = (fates.late, fates.left, fates.wasted, fates.reached, fates.sent)
            work = work._replace(
                others=Others(ids[~joined], *(column[~joined] for column in columns))
            )
        return work, self._after(r, state, ids, fates.seconds)

    def _after(self, r: int, state: State, ids: np.ndarray, elapsed: float) -> State:
        """What the round after r goes on from, which drew these clients and took so long."""
        after = {"clock": state["clock"] + elapsed} if "clock" in state else {}
        if "drawn" in state:
            drawn, last = state["drawn"].copy(), state["last"].copy()
            drawn[ids] += 1
            last[ids] = r
            after |= {"drawn": drawn, "last": last}
        return after

    def _drawn(
        self, r: int, state: State, feedback: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Clients that round r draws, of those that can be reached, in their order -> (ids, times or factors)."""
        rng = generator(self.seed, Stream.COHORT, r)
        columns = {**feedback, **{name: state[name] for name in ("drawn", "last") if name in state}}
        population = self.population._replace(
            **{name: column[self.eligible] for name, column in columns.items()}
        )
        reachable = self.machines.reachable(r, float(state["clock"]) if "clock" in state else 0.0)
        if reachable is not None and not self.cohort.ordered:
            population = population.part(reachable[population.ids])
        drawn = self.cohort.draw(population, r, rng) if len(population.ids) else population.ids
        if isinstance(drawn, Drawn):
            order = np.argsort(drawn.ids)
            return drawn.ids[order], drawn.factor[order]
        if reachable is not None and self.cohort.ordered:
            drawn = drawn[reachable[drawn]]
        if self.cohort.repeats:
            return np.unique(drawn, return_counts=True)
        return np.sort(drawn), np.ones(len(drawn), int)

    def _flush(self, r: int, state: State) -> tuple[RoundPlan, State]:
        """The messages of step r of an asynchronous server."""
        ended, left, flights = self.flights_of(r, state)
        ids, start, draw = _columns(ended)
        versions, place = np.unique(start, return_inverse=True)
        lr = np.array([self.local.lr(int(v) + 1) for v in versions])[
            place
        ]  # as they were told with the model
        elapsed = flights.clock - float(state["clock"])
        work = self._work(r, ids, np.ones(len(ids), int), lr, elapsed, start, draw)
        return work._replace(others=self._left(left) if left else None), flights.state()

    def _left(self, flights: list[Flight]) -> Others:
        """Clients that left an asynchronous server."""
        ids, _, draws = _columns(flights)
        trips = [
            self.machines.client_outcome(draw, client)
            for draw, client in zip(draws.tolist(), ids.tolist(), strict=True)
        ]
        _, left, steps, reached, sent = map(np.array, zip(*trips, strict=True))
        return Others(ids, late=~left, left=left, steps=steps, reached=reached, sent=sent)

    def _work(
        self, r: int, ids: np.ndarray, count: np.ndarray, lr, elapsed: float, start, draw, done=None
    ) -> RoundPlan:
        n, steps = self.sizes[ids], self.steps[ids] if done is None else done
        return RoundPlan(
            round=r,
            ids=ids,
            count=count,
            samples=n,
            weight=np.where(steps > 0, n, 0),
            steps=steps,
            lr=lr,
            lr_sum=lr * steps if self.local.rate is None else self._rates[steps],
            seconds=elapsed,
            start=start,
            draw=draw,
            shift=self.federation.label_shift(r),
        )

    def _flights(self, state: State) -> Flights:
        def draw(number: int, reachable: np.ndarray | None) -> np.ndarray:
            able = (
                self.population
                if reachable is None
                else self.population.part(reachable[self.eligible])
            )
            population = self.population if self.cohort.ordered else able
            drawn = self.cohort.draw(
                population, number, generator(self.seed, Stream.COHORT, number)
            )
            return drawn.ids if isinstance(drawn, Drawn) else drawn

        def spare(number: int, free: np.ndarray) -> int:
            return int(generator(self.seed, Stream.SPARE, number).choice(free))

        named = np.array(self.cohort.names, np.int64)
        known = named if len(named) else self.eligible
        return Flights(self.machines, draw, spare, known, bool(len(named)), self.timetable, state)

    def flights_of(self, r: int, state: State) -> tuple[list[Flight], list[Flight], Flights]:
        """Step r of an asynchronous server -> (the flights of its buffer, those that left until then, all after it)."""
        flights = self._flights(state)
        return *flights.flush(r - 1), flights

    def flown(self, state: State) -> list[int]:
        """Versions that clients in flight were given, in order; none of a synchronous server."""
        return np.unique(state["version"]).tolist() if self.timetable.asynchronous else []

    def columns(self, work: RoundPlan) -> dict[str, float | None]:
        """Columns of `rounds.csv` of what the host alone knows of a round."""
        if not self.timetable.asynchronous:
            return {}
        if not len(work.age):  # of an empty window
            return {"staleness_mean": None, "staleness_max": None}
        return {"staleness_mean": float(work.age.mean()), "staleness_max": int(work.age.max())}

    def of_server(self) -> "Plan":
        """The server's own training, as that of the only client of a federation; its batches are drawn by a stream of its own."""
        federation = self.federation.of_server
        return Plan(
            federation, everybody(), self.written, self.seed, self.rounds, batches=Stream.REFERENCE
        )

    @cached_property
    def order(self) -> tuple:
        """Plans of equal order hand every client the same batches."""
        local = self.local
        return (
            id(self.federation),
            self.seed,
            local.batch,
            local.shuffle,
            local.drop_last,
            hash(self.steps.tobytes()),
        )

    @cached_property
    def _rates(self) -> np.ndarray:
        """Σ of the first t learning rates of a client, t = 0 … the longest."""
        assert self.local.rate is not None
        return np.concatenate(
            [[0.0], np.cumsum([self.local.rate(t) for t in range(int(self.steps.max(initial=0)))])]
        )

    @cached_property
    def members(self) -> np.ndarray:
        """Clients that may ever take part, by id: of up to SURVEYED rounds those that are drawn, of more everybody."""
        deque(self.survey(), 0)
        return self.members

    def survey(self) -> Iterator[RoundPlan]:
        """Every round up to SURVEYED; after the last one the members are known.

        Where nobody can know who will be drawn, each round is one that no other exceeds in steps and in samples.
        """
        joins, state = np.zeros(self.federation.N, bool), self.begin()
        largest = self._largest() if self.cohort.feedback else None
        surveyed = min(self.rounds, SURVEYED, max(FLOWN // max(self.timetable.buffer, 1), 1))
        for r in range(1, surveyed + 1):
            if largest is None:
                work, state = self.round(r, state)
                self.held = max(self.held, len(self.flown(state)))
            else:
                work = largest._replace(round=r)
            joins[work.ids] = True
            yield work
        known = self.rounds <= surveyed and not self.cohort.feedback
        self.members = np.flatnonzero(joins) if known else self.eligible

    def _largest(self) -> RoundPlan:
        """A round of the clients with the most steps, with as many samples as those that have most of them."""
        K, steps, sizes = (
            min(self.nominal, len(self.eligible)),
            self.steps[self.eligible],
            self.sizes[self.eligible],
        )
        ids = self.eligible[np.argsort(-steps, kind="stable")[:K]]
        one, longest = np.ones(K, np.int64), float(self.seconds[ids].max(initial=0))
        work = self._work(1, ids, one, self.local.lr(1), longest, 0 * one, one)
        return work._replace(samples=np.sort(sizes)[::-1][:K])

    def batches(self, r: int, client: int) -> tuple[np.ndarray, np.ndarray]:
        """Sample rows `[steps, B]` (int32, 0 where padded) and valid rows per step `[steps]` of a client.

        Args:
          r: of the draw, which is the round unless the client trains from an older model.
          client: whose samples.
        """
        rows, local = self._rows(client), self.local
        n, steps, per_epoch = (
            len(rows),
            int(self.steps[client]),
            batches_per_epoch(len(rows), local),
        )
        order = rows[None].repeat(-(-steps // per_epoch), 0)
        if local.shuffle and local.batch is not None and n > local.batch:
            self._draws.at(r, client).permuted(order, axis=1, out=order)
        return self._cut(order, steps)

    def single_pass(self, client: int) -> tuple[np.ndarray, np.ndarray]:
        """One pass over a client's samples as they stand, in the form of `batches`: for what is measured at the global model."""
        rows = self._rows(client)
        return self._cut(rows[None], int(batches_per_epoch(len(rows), self.local)))

    def probe_plan(self, work: RoundPlan) -> RoundPlan:
        """The pass of a round before training: one over the samples of everybody who trains, in place of the local steps."""
        passes = batches_per_epoch(work.samples, self.local)
        return work._replace(
            steps=np.where(work.steps > 0, passes, 0), lr_sum=np.zeros(len(work.ids))
        )

    def _rows(self, client: int) -> np.ndarray:
        return self.federation.holders.of(client)

    def _cut(self, order: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Epochs `[epochs, n]` as batches: rows `[steps, B]`, and how many of each count `[steps]`."""
        epochs, n = order.shape
        B = n if self.local.batch is None else self.local.batch
        per_epoch = int(batches_per_epoch(n, self.local))
        width = per_epoch * B
        used = min(n, width)
        index = np.zeros((epochs, width), np.int32)
        index[:, :used] = order[:, :used]
        valid = np.full(epochs * per_epoch, B, np.int32)
        valid[per_epoch - 1 :: per_epoch] = used - (per_epoch - 1) * B
        return index.reshape(-1, B)[:steps], valid[:steps]


def _columns(flights: list[Flight]) -> np.ndarray:
    """Clients, versions of their models and draws of their batches, in the order of ids and starts `[3, K]`."""
    ordered = sorted(flights, key=lambda flight: (flight.client, flight.order))
    return np.array([flight[2:] for flight in ordered], np.int64).reshape(-1, 3).T


def batches_per_epoch(n, local: Local):
    """Batches in a pass over n samples (a number or an array); `drop_last` keeps the first batch of a small client."""
    if local.batch is None:
        return np.minimum(n, 1)
    return (
        np.maximum(n // local.batch, np.minimum(n, 1)) if local.drop_last else -(-n // local.batch)
    )


def planned_steps(sizes: np.ndarray, local: Local) -> np.ndarray:
    """Local steps of every client `[N]`; none for a client without samples."""
    if local.steps is None:
        assert local.epochs is not None
        return local.epochs * batches_per_epoch(sizes, local)
    return np.where(sizes > 0, np.broadcast_to(np.asarray(local.steps, np.int64), sizes.shape), 0)
