"""The plan: everything about a round that does not depend on parameter values, decided on the host.

A round's plan is a pure function of `(scenario, seed, round)` and independent of the method, so
that methods are compared under the same cohorts, batches and failures. Some plans also depend on
earlier rounds: that of an asynchronous server on the clients in flight, that of a cohort that looks
at losses on the losses so far, and that of a cohort that looks at who was drawn on the draws so
far.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedsim.data import Federation
from fedsim.fleet import synchronous
from fedsim.fleet.adversary import Adversary
from fedsim.fleet.clients import Clients
from fedsim.fleet.clock import Cost
from fedsim.fleet.local import Local as Local
from fedsim.fleet.local import batches_per_epoch
from fedsim.fleet.local_work import LocalWork
from fedsim.fleet.machines import Machines
from fedsim.fleet.protocols import Levels, Network
from fedsim.fleet.round_plan import Participants, State
from fedsim.fleet.round_plan import RoundPlan as RoundPlan
from fedsim.fleet.selection import HISTORY, Cohort, Population
from fedsim.fleet.selection import all as everybody
from fedsim.fleet.shares import shares
from fedsim.fleet.streams import Stream, generator
from fedsim.fleet.survey import Survey
from fedsim.fleet.timetables import SYNC, Timetable
from fedsim.fleet.waiting import Waiting

# Clients of the first rounds that are cached: shapes, memory and the run ask for the same rounds.
MAX_CACHED_CLIENTS = 1 << 13


class Conditions(NamedTuple):
    """What a plan depends on besides samples, cohort and local work; the defaults are none of it.

    Attributes:
      adversary: which clients the attacker controls.
      machines: (clients, what a round costs each, seed) -> their machines.
      down: bytes that a client receives in a round.
      up: bytes that it sends.
      labelled: whether clients know how many of their samples are in each class.
      expects_drawn: whether `Plan.expected` counts clients that are drawn, though the fleet may
        leave some of them out.
      marked: clients whose rows a rule replaces by its own `[N]`; None: nobody.
      in_vain: clients that are drawn and take part in no round `[N]`; None: nobody.
      network: the graph of clients that have no server.
      waiting: plan -> parts of the federation that go on by themselves.
      levels: sizes of the model that clients train, where they train different ones.
      absent: clients that never take part `[N]`, as if they had no samples; None: nobody.
    """

    adversary: Adversary = Adversary()
    timetable: Timetable = SYNC
    machines: Callable[[Clients, Cost, int], Machines] = Machines
    down: np.ndarray | int = 0
    up: np.ndarray | int = 0
    labelled: bool = False
    expects_drawn: bool = False
    marked: np.ndarray | None = None
    in_vain: np.ndarray | None = None
    network: Network | None = None
    waiting: Callable[["Plan"], list[Waiting]] = lambda plan: []
    levels: Levels | None = None
    absent: np.ndarray | None = None


class Plan:
    """The rounds of one seed.

    Attributes:
      sizes: training samples of every client `[N]`.
      steps: planned local steps of every client `[N]`, as of `LocalWork`.
      phase_ends: as of `LocalWork`.
      present: clients that can take part, which are those with samples `[N]`.
      eligible: ids of these clients.
      malicious: clients that the attacker controls in round 1 `[N]`; in every round unless redrawn.
      marked, in_vain: as of `Conditions` `[N]`.
      pure: whether a round is independent of all rounds before it.
      nominal: clients in a round, exactly or on average.
      cost: what a client's round costs, known before it trains.
      seconds: how long a round takes every client `[N]`.
      labels: training samples per client and class `[N, C]` if `labelled`, else `[N, 0]`.
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
        conditions: Conditions = Conditions(),  # noqa: B008 (immutable)
        stream: Stream = Stream.BATCHES,
    ):
        self.federation = federation
        self.cohort = cohort
        self.unclipped_local = local
        self.seed = seed
        self.rounds = rounds
        self.conditions = conditions
        self.network = conditions.network
        self.timetable = conditions.timetable
        self.levels = conditions.levels
        self.nominal = self.timetable.buffer or cohort.nominal(federation.N)

        # Who can take part, and who is special.
        self.sizes = federation.sizes
        if conditions.absent is not None and conditions.absent.any():
            self.sizes = np.where(conditions.absent, 0, federation.sizes)
        self.present = self.sizes > 0  # a client without samples cannot train
        self.eligible = np.flatnonzero(self.present)
        self.malicious = conditions.adversary.mask(federation.N, seed, 1)
        self._latest_mask = (1, self.malicious)  # a round, and the malicious clients in it
        nobody = np.zeros(federation.N, bool)
        self.marked = nobody if conditions.marked is None else conditions.marked
        self.in_vain = nobody if conditions.in_vain is None else conditions.in_vain

        # What each of them does, and how long that takes.
        self.work = LocalWork(federation, self.sizes, local, seed, stream)
        self.local = self.work.local
        self.steps = self.work.steps
        self.phase_ends = self.work.phase_ends
        epochs = local.epochs if local.steps is None and not local.phases else None
        self.cost = Cost(self.steps, conditions.down, conditions.up, epochs)
        clients = Clients(self.sizes, federation.label_counts)
        self.machines = conditions.machines(clients, self.cost, seed)
        self.level = None
        if self.levels is not None:
            step = np.broadcast_to(self.machines.speed.step, clients.N)
            self.level = self.levels.assign(step, generator(seed, Stream.LEVELS))
            self.cost = self.levels.reduced(self.cost, self.level)
            self.machines = conditions.machines(clients, self.cost, seed)
        self.seconds = self.machines.seconds

        # What a round depends on.
        self.waiting = conditions.waiting(self)
        uses_history = bool(cohort.feedback) or HISTORY in cohort.needs
        self.pure = not (
            self.timetable.asynchronous or uses_history or self.machines.clocked or self.waiting
        )
        self.population = self._population()
        self.labels_shift = bool(federation.label_shift_periods)
        if conditions.labelled:
            self.labels = federation.label_counts()
        else:
            self.labels = np.zeros((federation.N, 0), np.int64)

        self.survey = Survey(self)
        self._cached_rounds: dict[int, tuple[RoundPlan, State]] = {}

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
        may_be_missing = self.machines.selective and not self.conditions.expects_drawn
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
        if not self.conditions.adversary.redrawn:
            return self.malicious

        latest_round, mask = self._latest_mask
        if latest_round != round:  # every block of a round asks
            mask = self.conditions.adversary.mask(len(self.sizes), self.seed, round)
            self._latest_mask = (round, mask)
        return mask

    def drawing_in_vain(self, clients: Sequence[int]) -> "Plan":
        """Return this plan with clients that take part in no round, while all others do as ever.

        Unlike clients that are `absent`, these are still drawn: nobody comes in their place.
        """
        plan = copy.copy(self)
        plan.in_vain = self.in_vain | np.isin(np.arange(len(self.sizes)), clients)
        plan._cached_rounds = {}
        plan.survey = Survey(plan)
        return plan

    def begin(self) -> State:
        """Return the state before round 1; empty where no round depends on the ones before it."""
        if self.timetable.steps is not None:
            return self.timetable.steps.begin(self)
        return synchronous.begin(self)

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

        if self.timetable.steps is not None:
            planned = self.timetable.steps.plan_round(self, r, state)
        else:
            planned = synchronous.plan_round(self, r, state, feedback or {})

        if self.pure and r * self.nominal <= MAX_CACHED_CLIENTS:
            self._cached_rounds[r] = planned
        return planned

    def work_in(
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
            lr_sum=self.work.lr_sum(clients.ids, steps, lr),
            seconds=seconds,
            start=clients.start,
            draw=clients.draw,
            shift=self.federation.label_shift(r),
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
            stream=Stream.TUNING,
        )

    def work_of(self, ids: np.ndarray, round: int) -> RoundPlan:
        """Return the work of these clients on the labels of a round; its batches are always alike.

        Args:
          ids: rising ids of the clients.
        """
        ones = np.ones(len(ids), np.int64)
        clients = Participants(
            ids=ids, count=ones, steps=self.steps[ids], start=0 * ones, draw=ones
        )
        work = self.work_in(round, clients, self.local.lr(1), seconds=0.0)
        return work._replace(start=np.full(len(ids), round - 1))

    @cached_property
    def batch_rows(self) -> int:
        """Rows B of the widest batch, a width on which bits depend; each seed has its own."""
        return self.local.widest(self.sizes)

    def probe_plan(self, work: RoundPlan) -> RoundPlan:
        """Return a round's pass before training: one over the samples of all clients that train."""
        passes = batches_per_epoch(work.samples, self.local)
        steps = np.where(work.steps > 0, passes, 0)
        return work._replace(steps=steps, lr_sum=np.zeros(len(work.ids)))
