"""The plan: everything about a round that does not depend on parameter values, decided on the host.

A round's plan is a pure function of `(scenario, seed, round)` and independent of the method, so
that methods are compared under the same cohorts, batches and failures. Some plans also depend on
earlier rounds: that of an asynchronous server on the clients in flight, that of a cohort that looks
at losses on the losses so far, and that of a cohort that looks at who was drawn on the draws so
far.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedsim.data import Federation
from fedsim.fleet.adversary import Adversary
from fedsim.fleet.canaries import draw_canaries
from fedsim.fleet.clients import Clients
from fedsim.fleet.clock import Cost
from fedsim.fleet.edges import EdgeTimes
from fedsim.fleet.flights import Flight, Flights, State, nobody
from fedsim.fleet.levels import Levels
from fedsim.fleet.local import Local as Local
from fedsim.fleet.local import (
    batches_per_epoch,
    cut_into_batches,
    held_out_sizes,
    joined_batches,
    phase_gradients,
    planned_steps,
    poisson_batches,
    poisson_sizes,
)
from fedsim.fleet.machines import Fleet, Machines, RoundOutcome, step_seconds
from fedsim.fleet.network import Network
from fedsim.fleet.selection import HISTORY, Cohort, Drawn, Population
from fedsim.fleet.selection import all as everybody
from fedsim.fleet.shares import shares
from fedsim.fleet.streams import Draws, Stream, generator
from fedsim.fleet.timetables import SYNC, Timetable
from fedsim.topology import EdgeTable

MAX_SURVEYED_ROUNDS = 1000  # rounds whose cohorts are drawn before the run, for shapes and memory
MAX_SURVEYED_FLIGHTS = 100_000  # the same limit in flights, which are simulated one by one

# Clients of the first rounds that are cached: shapes, memory and the run ask for the same rounds.
MAX_CACHED_CLIENTS = 1 << 13


class RoundPlan(NamedTuple):
    """Who trains in a round, and how much.

    Arrays `[K]` have an entry for every client whose message counts, in the order of client ids.

    Attributes:
      round: the round, from 1.
      ids: client ids (int64).
      count: how often each client was drawn, or the factor on its weight.
      samples: training samples n_k.
      weight: n_k, or 0 for a client that takes no step.
      steps: planned local steps, one for each gradient where a method has several phases.
      lr: learning rate, one number or one per client.
      lr_sum: Σ of the learning rates of the planned steps that the scenario asks for.
      seconds: virtual duration of the round.
      start: version of the model that each client trains from: server steps taken before it was
        sent.
      draw: number that selects the random order of each client's batches.
      shift: classes that the clients' labels have moved on by.
      uncounted: clients that were drawn and whose messages do not count; None: there are none.
    """

    round: int
    ids: np.ndarray
    count: np.ndarray
    samples: np.ndarray
    weight: np.ndarray
    steps: np.ndarray
    lr: float | np.ndarray
    lr_sum: np.ndarray
    seconds: float
    start: np.ndarray
    draw: np.ndarray
    shift: int
    uncounted: "UncountedClients | None" = None

    @property
    def age(self) -> np.ndarray:
        """Server steps since each client's start model was sent `[K]`."""
        return self.round - 1 - self.start

    @property
    def receivers(self) -> np.ndarray:
        """The clients that get the model, whether or not their messages count `[m]`."""
        if self.uncounted is None:
            return self.ids
        return np.concatenate([self.ids, self.uncounted.ids[self.uncounted.reached]])

    @property
    def senders(self) -> np.ndarray:
        """The clients that send a message, whether or not it counts `[m]`."""
        if self.uncounted is None:
            return self.ids
        return np.concatenate([self.ids, self.uncounted.ids[self.uncounted.sent]])


class UncountedClients(NamedTuple):
    """Clients that a round drew and does not count; arrays `[m]` in the order of client ids.

    Attributes:
      ids: client ids.
      late: whether the round ended before the client did.
      left: whether the client left the round.
      steps: local steps that the client did in vain.
      reached: whether it received the model.
      sent: whether it sent a message.
    """

    ids: np.ndarray
    late: np.ndarray
    left: np.ndarray
    steps: np.ndarray
    reached: np.ndarray
    sent: np.ndarray


class Participants(NamedTuple):
    """Clients whose messages count in a round; columns of `RoundPlan` of the same names `[K]`."""

    ids: np.ndarray
    count: np.ndarray
    steps: np.ndarray
    start: np.ndarray
    draw: np.ndarray


class Plan:
    """The rounds of one seed.

    Attributes:
      sizes: training samples of every client `[N]`.
      steps: planned local steps of every client `[N]`, one for each gradient where a method has
        several phases.
      phase_ends: one beyond the last of these steps in each phase `[N, P]`; P = 0 without phases.
      present: clients that can take part, which are those with samples `[N]`.
      eligible: ids of these clients.
      malicious: clients that the attacker controls in round 1 `[N]`; in every round unless redrawn.
      canaries: clients by which privacy is audited; by default none.
      in_vain: clients that are drawn and take part in no round `[N]`; by default canaries that are
        out.
      pure: whether a round is independent of all rounds before it.
      nominal: clients in a round, exactly or on average.
      cost: what a client's round costs, known before it trains.
      seconds: how long a round takes every client `[N]`.
      labels: training samples per client and class `[N, C]` if `labelled`, else `[N, 0]`.
      max_versions: largest number of model versions that clients in flight use, in the surveyed
        rounds.
      labels_shift: whether labels change from round to round; `labels` are those of round 1.
      level: which size of the model every client trains `[N]`, 0 the largest; None: all train all.
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
        down: np.ndarray | int = 0,
        up: np.ndarray | int = 0,
        batches: Stream = Stream.BATCHES,
        expects_drawn: bool = False,
        canaries: int = 0,
        network: Network | None = None,
        edges: EdgeTimes | None = None,
        levels: Levels | None = None,
        absent: np.ndarray | None = None,
    ):
        """Draw what is fixed for the seed; rounds are drawn when they are asked for.

        Args:
          federation: the samples, and which client has which.
          cohort: who is drawn in a round.
          local: how much a client trains.
          seed: the run's seed.
          rounds: how many rounds the run has.
          adversary: which clients the attacker controls.
          labelled: whether `labels` are counted.
          timetable: when the server steps.
          fleet: the clients' machines.
          down: bytes that a client receives in a round.
          up: bytes that it sends.
          batches: the random stream that orders the batches.
          expects_drawn: whether `expected` counts clients that are drawn, though the fleet may
            leave some of them out.
          canaries: how many clients are canaries.
          network: the graph of clients that have no server.
          edges: the clocks of edges, where clients have them.
          levels: sizes of the model that clients train, where they train different ones.
          absent: clients that never take part `[N]`, as if they had no samples; None: nobody.
        """
        self.federation = federation
        self.network = network
        self.edge_times = edges
        self.expects_drawn = expects_drawn
        self.cohort = cohort
        self.seed = seed
        self.rounds = rounds
        self.adversary = adversary
        self.timetable = timetable
        self.nominal = timetable.buffer or cohort.nominal(federation.N)

        self.sizes = federation.sizes
        if absent is not None and absent.any():
            self.sizes = np.where(absent, 0, federation.sizes)
        self.present = self.sizes > 0  # a client without samples cannot train
        self.eligible = np.flatnonzero(self.present)

        self.malicious = adversary.mask(federation.N, seed, 1)
        self._latest_mask = (1, self.malicious)  # a round, and the malicious clients in it
        self.canaries = draw_canaries(canaries, self.eligible, federation.N, seed)
        self.in_vain = self.canaries.without

        # A batch that is larger than any client would only be padded.
        self.unclipped_local = local
        if local.batch is not None:
            local = local._replace(batch=min(local.batch, int(self.sizes.max(initial=1))))
        self.local = local
        self.held_out = held_out_sizes(self.sizes, local)
        trained = self.sizes - self.held_out
        self.steps = planned_steps(trained, local)
        gradients = phase_gradients(self.steps, trained, self.held_out, local)
        self.phase_ends = gradients.cumsum(axis=1)
        if local.phases:
            self.steps = self.phase_ends[:, -1]

        epochs = local.epochs if local.steps is None and not local.phases else None
        self.cost = Cost(self.steps, down, up, epochs)
        clients = Clients(self.sizes, federation.label_counts)
        self.levels = levels
        self.level = None
        if levels is not None:
            step = np.broadcast_to(step_seconds(fleet, clients, seed), clients.N)
            self.level = levels.assign(step, generator(seed, Stream.LEVELS))
            self.cost = levels.reduced(self.cost, self.level)
        self.machines = Machines(fleet, clients, self.cost, seed)
        self.seconds = self.machines.seconds

        # Where all nodes take equally long in every round, none waits for another.
        self.nodes_wait = network is not None and (
            bool(np.ptp(self.seconds)) or network.settings.every > 1
        )

        uses_history = bool(cohort.feedback) or HISTORY in cohort.needs
        self.pure = not (
            timetable.asynchronous
            or uses_history
            or self.machines.clocked
            or self.nodes_wait
            or edges is not None
        )
        self.population = self._population()

        if labelled:
            self.labels = federation.label_counts()
        else:
            self.labels = np.zeros((federation.N, 0), np.int64)
        self.labels_shift = bool(federation.label_shift_periods)

        self.max_versions = 1
        self._members: np.ndarray | None = None
        self._cached_rounds: dict[int, tuple[RoundPlan, State]] = {}
        self._batch_draws = Draws(seed, batches)
        self._count_draws = Draws(seed, batches)  # other calls may use the first at the same time
        self._phase_draws = Draws(seed, Stream.PHASES)

    def _population(self) -> Population:
        """Return the clients that can be drawn, with the columns that never change."""
        population = Population(self.eligible, self.sizes[self.eligible])
        if "seconds" in self.cohort.needs:
            population = population._replace(seconds=self.seconds[self.eligible])
        if "labels" in self.cohort.needs:
            labels = self.federation.label_counts()
            population = population._replace(labels=labels[self.eligible])
        return population

    @cached_property
    def left_out(self) -> np.ndarray | None:
        """Bytes of the model that each client does not receive or send `[N]`; None: all get all."""
        if self.levels is None or self.level is None:
            return None
        return self.levels.of_clients(self.levels.left_out, self.level)

    @cached_property
    def expected(self) -> tuple[float, float]:
        """Mean number of clients in a round, and of their samples: Σ_k π_k and Σ_k π_k n_k.

        Both are 0 where they are unknown.
        """
        may_be_missing = self.machines.fleet.selective and not self.expects_drawn
        if self.cohort.share is None or self.timetable.asynchronous or may_be_missing:
            return 0.0, 0.0
        share = np.broadcast_to(self.cohort.share(self.population), len(self.eligible))
        return float(share.sum()), float(share @ self.population.samples)

    @cached_property
    def shares(self) -> np.ndarray | None:
        """How many messages a round has of each client, on average `[N]`; None: unknown."""
        if self.timetable.asynchronous:
            return None
        return shares(self.cohort, self.population, self.machines)

    def malicious_in(self, round: int) -> np.ndarray:
        """Return the mask of the clients that the attacker controls in a round `[N]`."""
        if not self.adversary.redrawn:
            return self.malicious

        latest_round, mask = self._latest_mask
        if latest_round != round:  # every block of a round asks
            mask = self.adversary.mask(len(self.sizes), self.seed, round)
            self._latest_mask = (round, mask)
        return mask

    def drawing_in_vain(self, clients: Sequence[int]) -> "Plan":
        """Return this plan with clients that take part in no round, while all others do as ever.

        Unlike clients that are `absent`, these are still drawn: nobody comes in their place.
        """
        plan = copy.copy(self)
        plan.in_vain = self.in_vain | np.isin(np.arange(len(self.sizes)), clients)
        plan._cached_rounds = {}
        plan._members = None
        return plan

    def begin(self) -> State:
        """Return the state before round 1; empty where no round depends on the ones before it."""
        if self.timetable.asynchronous:
            flights = self._flights(nobody())
            flights.fill(0)
            return flights.state()

        state: State = {}
        if HISTORY in self.cohort.needs:
            never = np.zeros(len(self.sizes), np.int64)
            state |= {"drawn": never, "last": never}
        if self.machines.clocked:
            state |= {"clock": np.array(0.0)}
        if self.nodes_wait:
            state |= {"nodes": np.zeros(len(self.sizes))}
        if self.edge_times is not None:
            state |= {"edges": np.zeros(self.edge_times.edges)}
        return state

    def round(
        self, r: int, state: State | None = None, feedback: Mapping[str, np.ndarray] | None = None
    ) -> tuple[RoundPlan, State]:
        """Plan the cohort, the weights and the work of round r.

        Args:
          r: the round, from 1.
          state: the state after the round before; not needed where the plan is pure.
          feedback: what all clients have reported, as `Planner.feedback`, where the cohort looks at
            it.

        Returns:
          The round, and the state after it.
        """
        if r in self._cached_rounds:
            return self._cached_rounds[r]
        if state is None:
            state = self.begin()

        if self.timetable.asynchronous:
            planned = self._asynchronous_round(r, state)
        else:
            planned = self._synchronous_round(r, state, feedback or {})

        if self.pure and r * self.nominal <= MAX_CACHED_CLIENTS:
            self._cached_rounds[r] = planned
        return planned

    def _synchronous_round(
        self, r: int, state: State, feedback: Mapping[str, np.ndarray]
    ) -> tuple[RoundPlan, State]:
        """Plan a round whose clients all start from the newest model."""
        drawn, count = self._drawn_clients(r, state, feedback)

        # A client that is out is drawn in vain, so that the others are drawn as ever.
        takes_part = ~self.in_vain[drawn]
        ids = drawn[takes_part]
        count = count[takes_part]
        outcome = self.machines.round_outcome(r, ids)

        joined = outcome.joined
        K = int(joined.sum())
        participants = Participants(
            ids=ids[joined],
            count=count[joined],
            steps=outcome.steps[joined],
            start=np.full(K, r - 1, np.int64),
            draw=np.full(K, r, np.int64),
        )
        work = self._round_plan(r, participants, self.local.lr(r), outcome.seconds)
        if not joined.all():
            work = work._replace(uncounted=_not_joined(ids, outcome))
        if self.nodes_wait:
            nodes = self._nodes_after(work, state["nodes"])
            work = work._replace(seconds=float(nodes.max() - state["nodes"].max()))
            state = {**state, "nodes": nodes}
        if self.edge_times is not None:
            edges = self._edges_after(work, ids, state["edges"])
            work = work._replace(seconds=float(edges.max() - state["edges"].max()))
            state = {**state, "edges": edges}
        return work, self._state_after(r, state, drawn, work.seconds)

    def _drawn_clients(
        self, r: int, state: State, feedback: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw the clients of round r among those that can be reached -> (rising ids, count)."""
        rng = generator(self.seed, Stream.COHORT, r)
        columns = dict(feedback)
        columns |= {name: state[name] for name in ("drawn", "last") if name in state}
        eligible = {name: column[self.eligible] for name, column in columns.items()}
        population = self.population._replace(**eligible)

        # Most cohorts draw among the clients that can be reached. One whose rounds name their
        # clients draws first, and those that cannot be reached are left out afterwards.
        clock = float(state["clock"]) if "clock" in state else 0.0
        reachable = self.machines.reachable(r, clock)
        if reachable is not None and not self.cohort.ordered:
            population = population.subset(reachable[population.ids])

        nobody_there = len(population.ids) == 0
        drawn = population.ids if nobody_there else self.cohort.draw(population, r, rng)

        if isinstance(drawn, Drawn):
            order = np.argsort(drawn.ids)
            return drawn.ids[order], drawn.factor[order]
        if reachable is not None and self.cohort.ordered:
            drawn = drawn[reachable[drawn]]
        if self.cohort.repeats:
            return np.unique(drawn, return_counts=True)
        return np.sort(drawn), np.ones(len(drawn), int)

    def _state_after(self, r: int, state: State, ids: np.ndarray, seconds: float) -> State:
        """Return the state after round r, which drew these clients and took so many seconds."""
        after: State = {}
        for name in ("nodes", "edges"):
            if name in state:
                after |= {name: state[name]}
        if "clock" in state:
            after |= {"clock": state["clock"] + seconds}
        if "drawn" in state:
            drawn = state["drawn"].copy()
            drawn[ids] += 1
            last = state["last"].copy()
            last[ids] = r
            after |= {"drawn": drawn, "last": last}
        return after

    def _round_plan(
        self, r: int, clients: Participants, lr: float | np.ndarray, seconds: float
    ) -> RoundPlan:
        """Return the plan of a round in which the messages of these clients count."""
        samples = self.sizes[clients.ids]
        steps = clients.steps
        return RoundPlan(
            round=r,
            ids=clients.ids,
            count=clients.count,
            samples=samples,
            weight=np.where(steps > 0, samples, 0),
            steps=steps,
            lr=lr,
            lr_sum=self._lr_sum(clients.ids, steps, lr),
            seconds=seconds,
            start=clients.start,
            draw=clients.draw,
            shift=self.federation.label_shift(r),
        )

    def asked_steps(self, ids: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return how many of the steps that the scenario asks for clients complete `[K]`.

        Args:
          ids: the clients.
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

    def _lr_sum(self, ids: np.ndarray, steps: np.ndarray, lr: float | np.ndarray) -> np.ndarray:
        """Return Σ of the learning rates of the steps that the scenario asks for `[K]`."""
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

    def _asynchronous_round(self, r: int, state: State) -> tuple[RoundPlan, State]:
        """Plan step r of an asynchronous server, on the messages that arrived for it."""
        ended, left, flights = self.flights_of(r, state)
        ids, start, draw = _flight_columns(ended)

        # The learning rate comes with the model, so it is that of the version each started from.
        versions, version_index = np.unique(start, return_inverse=True)
        lr_by_version = np.array([self.local.lr(int(version) + 1) for version in versions])
        lr = lr_by_version[version_index]  # [K]

        participants = Participants(
            ids=ids, count=np.ones(len(ids), int), steps=self.steps[ids], start=start, draw=draw
        )
        seconds = flights.clock - float(state["clock"])
        work = self._round_plan(r, participants, lr, seconds)
        if left:
            work = work._replace(uncounted=self._left_the_server(left))
        return work, flights.state()

    def _left_the_server(self, flights: list[Flight]) -> UncountedClients:
        """Return the clients that left an asynchronous server."""
        ids, _, draws = _flight_columns(flights)
        outcomes = [
            self.machines.client_outcome(draw, client)
            for draw, client in zip(draws.tolist(), ids.tolist(), strict=True)
        ]
        left = np.array([outcome.left for outcome in outcomes])
        return UncountedClients(
            ids=ids,
            late=~left,
            left=left,
            steps=np.array([outcome.steps for outcome in outcomes]),
            reached=np.array([outcome.reached for outcome in outcomes]),
            sent=np.array([outcome.sent for outcome in outcomes]),
        )

    def _flights(self, state: State) -> Flights:
        """Return the flights of an asynchronous server in a state."""

        def draw(number: int, reachable: np.ndarray | None) -> np.ndarray:
            population = self.population
            if reachable is not None and not self.cohort.ordered:
                population = population.subset(reachable[self.eligible])
            rng = generator(self.seed, Stream.COHORT, number)
            drawn = self.cohort.draw(population, number, rng)
            return drawn.ids if isinstance(drawn, Drawn) else drawn

        def spare(number: int, free: np.ndarray) -> int:
            return int(generator(self.seed, Stream.SPARE, number).choice(free))

        listed = np.array(self.cohort.names, np.int64)
        is_listed = len(listed) > 0
        return Flights(
            machines=self.machines,
            draw=draw,
            spare=spare,
            drawable=listed if is_listed else self.eligible,
            twice=is_listed,
            timetable=self.timetable,
            state=state,
        )

    def flights_of(self, r: int, state: State) -> tuple[list[Flight], list[Flight], Flights]:
        """Play step r of an asynchronous server.

        Returns:
          The flights in its buffer, those that left before the step, and all flights after it.
        """
        flights = self._flights(state)
        ended, left = flights.flush(r - 1)
        return ended, left, flights

    def versions_in_flight(self, state: State) -> list[int]:
        """Return the model versions of clients in flight, rising; none of a synchronous server."""
        if not self.timetable.asynchronous:
            return []
        return np.unique(state["version"]).tolist()

    def cut_batches(self, work: RoundPlan) -> int:
        """Return how many Poisson batches of a round's clients were cut at the cap."""
        if self.local.cap is None:
            return 0
        cut = 0
        jobs = zip(work.ids.tolist(), work.steps.tolist(), work.draw.tolist(), strict=True)
        for client, steps, draw in jobs:
            # As `batches` draws them: all that are planned, of which stragglers do the first.
            rng = self._count_draws.at(draw, client)
            planned = int(self.steps[client])
            sizes = poisson_sizes(int(self.sizes[client]), planned, self.local, rng)
            cut += int((sizes[:steps] > self.local.cap).sum())
        return cut

    def staleness_columns(self, work: RoundPlan) -> dict[str, float | None]:
        """Return the columns of `rounds.csv` that only the host knows."""
        if not self.timetable.asynchronous:
            return {}
        age = work.age
        if not len(age):  # an empty window
            return {"staleness_mean": None, "staleness_max": None}
        return {"staleness_mean": float(age.mean()), "staleness_max": int(age.max())}

    @property
    def members(self) -> np.ndarray:
        """Ids of clients that may take part: those drawn if all rounds are surveyed, else all."""
        if self._members is None:
            for _ in self.survey():  # finds the members when it ends
                pass
        assert self._members is not None
        return self._members

    def survey(self) -> Iterator[RoundPlan]:
        """Yield the first rounds, at most MAX_SURVEYED_ROUNDS; after the last, `members` is known.

        Where losses decide who is drawn, a bound takes the place of each round: no round has more
        steps or more samples.
        """
        steps_of_buffer = max(MAX_SURVEYED_FLIGHTS // max(self.timetable.buffer, 1), 1)
        surveyed = min(self.rounds, MAX_SURVEYED_ROUNDS, steps_of_buffer)
        bound = self._largest_round() if self.cohort.feedback else None

        takes_part = np.zeros(self.federation.N, bool)
        state = self.begin()
        for r in range(1, surveyed + 1):
            if bound is None:
                work, state = self.round(r, state)
                self.max_versions = max(self.max_versions, len(self.versions_in_flight(state)))
            else:
                work = bound._replace(round=r)
            takes_part[work.ids] = True
            yield work

        saw_every_round = self.rounds <= surveyed and bound is None
        if self.network is not None:  # every node of a graph mixes, also one without samples
            self._members = np.arange(self.federation.N)
        elif saw_every_round:
            self._members = np.flatnonzero(takes_part)
        else:
            self._members = self.eligible

    def active_nodes(self, work: RoundPlan) -> np.ndarray:
        """Return which nodes of a graph take part in a round `[N]`.

        A node without samples hands on what it hears.
        """
        active = ~self.present
        active[work.ids] = True
        return active

    def _nodes_after(self, work: RoundPlan, begins: np.ndarray) -> np.ndarray:
        """Return when each node of a graph can begin its next round, in virtual seconds `[N]`.

        Args:
          work: the round.
          begins: when each node begins the round `[N]`.
        """
        assert self.network is not None
        active = self.active_nodes(work)
        if not active.any():
            return begins + work.seconds
        seconds = self.seconds
        if not self.network.mixes(work.round):  # nothing is sent
            seconds = self.steps * self.machines.speed.step
        done = np.where(active, begins + seconds, begins)
        return self.network.next_start(work.round, active, done)

    def _edges_after(self, work: RoundPlan, ids: np.ndarray, begins: np.ndarray) -> np.ndarray:
        """Return when each edge can begin its next round, in virtual seconds `[k]`.

        Args:
          work: the round, whose seconds are those of a server that waits for all.
          ids: clients that were drawn; an edge waits for them until the end of such a round.
          begins: when each edge begins the round `[k]`.
        """
        assert self.edge_times is not None
        if not len(ids):  # a round in which nobody can be reached takes its time
            begins = begins + work.seconds
        seconds = np.minimum(np.broadcast_to(self.seconds, self.federation.N)[ids], work.seconds)
        return self.edge_times.next_start(work.round, begins, ids, seconds)

    def mixing_table(self, work: RoundPlan, dtype: np.dtype) -> EdgeTable:
        """Return the links of a round, for a plan with a network."""
        assert self.network is not None
        return self.network.table(work.round, self.active_nodes(work), dtype)

    def _largest_round(self) -> RoundPlan:
        """Return a round with the most steps and the most samples that a cohort can have.

        Its clients have the most steps; its sample counts may be those of other clients.
        """
        K = min(self.nominal, len(self.eligible))
        by_steps = np.argsort(-self.steps[self.eligible], kind="stable")
        ids = self.eligible[by_steps[:K]]
        participants = Participants(
            ids=ids,
            count=np.ones(K, np.int64),
            steps=self.steps[ids],
            start=np.zeros(K, np.int64),
            draw=np.ones(K, np.int64),
        )
        seconds = float(self.seconds[ids].max(initial=0))
        work = self._round_plan(1, participants, self.local.lr(1), seconds)

        falling_sizes = np.sort(self.sizes[self.eligible])[::-1]
        return work._replace(samples=falling_sizes[:K])

    def server_plan(self) -> "Plan":
        """Return the plan of the server's own training: it is the only client of a federation.

        Its batches are drawn from their own random stream.
        """
        return Plan(
            federation=self.federation.server_as_client,
            cohort=everybody(),
            local=self.unclipped_local._replace(phases=()),
            seed=self.seed,
            rounds=self.rounds,
            batches=Stream.REFERENCE,
        )

    def tuning_plan(self, steps: int) -> "Plan":
        """Return the plan of the training before a score, of all clients at the full rate.

        The full rate is the largest of any round. Batches are drawn from their own random stream.

        Args:
          steps: local steps of every client with samples to tune on.
        """
        full = max(self.local.lr(r) for r in range(1, max(self.rounds, 1) + 1))
        local = self.unclipped_local._replace(
            epochs=None, steps=steps, lr=lambda r: full, phases=()
        )
        return Plan(
            federation=self.federation.unpooled.tuned,
            cohort=everybody(),
            local=local,
            seed=self.seed,
            rounds=1,
            batches=Stream.TUNING,
        )

    def work_of(self, ids: np.ndarray, round: int) -> RoundPlan:
        """Return the work of these clients on the labels of a round; its batches are always alike.

        Args:
          ids: rising ids of the clients.
          round: the round.
        """
        ones = np.ones(len(ids), np.int64)
        clients = Participants(
            ids=ids, count=ones, steps=self.steps[ids], start=0 * ones, draw=ones
        )
        work = self._round_plan(round, clients, self.local.lr(1), seconds=0.0)
        return work._replace(start=np.full(len(ids), round - 1))

    @cached_property
    def batch_rows(self) -> int:
        """Rows B of the widest batch, a width on which bits depend; each seed has its own."""
        return self.local.widest(self.sizes)

    @cached_property
    def batch_key(self) -> tuple:
        """A key: plans with equal keys give every client the same batches."""
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

    def batches(self, r: int, client: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the batches of a client's training.

        Args:
          r: number of the draw, which is the round unless the client trains from an older model.
          client: the client's id.

        Returns:
          Sample rows `[steps, B]` (int32, 0 where padded), and how many of each step are valid
          `[steps]`.
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

    def _drawn_batches(
        self, rows: np.ndarray, steps: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return so many batches of these rows, in the form of `batches`."""
        n = len(rows)
        if self.local.poisson:
            return poisson_batches(rows, steps, self.local, rng)
        epochs = -(-steps // batches_per_epoch(n, self.local))  # rounded up

        order = rows[None].repeat(epochs, 0)  # [epochs, n]
        if self.local.shuffle and self.local.batch is not None and n > self.local.batch:
            rng.permuted(order, axis=1, out=order)
        return cut_into_batches(order, steps, self.local)

    def single_pass(self, client: int) -> tuple[np.ndarray, np.ndarray]:
        """Return one unshuffled pass over a client's samples, in the form of `batches`.

        It serves what is measured at the global model.
        """
        rows = self.federation.holders.of(client)
        steps = int(batches_per_epoch(len(rows), self.local))
        return cut_into_batches(rows[None], steps, self.local)

    def probe_plan(self, work: RoundPlan) -> RoundPlan:
        """Return a round's pass before training: one over the samples of all clients that train."""
        passes = batches_per_epoch(work.samples, self.local)
        steps = np.where(work.steps > 0, passes, 0)
        return work._replace(steps=steps, lr_sum=np.zeros(len(work.ids)))


def _not_joined(ids: np.ndarray, outcome: RoundOutcome) -> UncountedClients:
    """Return the clients of a synchronous round whose messages do not count."""
    uncounted = ~outcome.joined
    return UncountedClients(
        ids=ids[uncounted],
        late=outcome.late[uncounted],
        left=outcome.left[uncounted],
        steps=outcome.wasted[uncounted],
        reached=outcome.reached[uncounted],
        sent=outcome.sent[uncounted],
    )


def _flight_columns(flights: list[Flight]) -> np.ndarray:
    """Return clients, model versions and draws of flights `[3, K]`, by client and then by start."""
    ordered = sorted(flights, key=lambda flight: (flight.client, flight.order))
    rows = [(flight.client, flight.version, flight.draw) for flight in ordered]
    return np.array(rows, np.int64).reshape(-1, 3).T
