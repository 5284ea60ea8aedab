"""A block of a cohort laid out on lanes: as the host hands it over, and as the device reads it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from fedsim.engine.pack import Capacity, Packer, Width, crowd, longest_first, makespan, roomy
from fedsim.fleet import Plan, RoundPlan

INTEGERS = ("start", "id", "steps", "place", "malicious", "seat", "draw", "age")  # of a slot
FLOATS = ("samples", "weight", "count", "lr", "lr_sum", "share")


def record(names: tuple[str, ...], dtype: Any) -> np.dtype:
    """A slot's numbers of one type, by name."""
    return np.dtype([(name, dtype) for name in names])


class Layout(NamedTuple):
    """One block of a round, laid out on lanes, as the host hands it over: few arrays, since each costs a transfer.

    Slots from i · block on are those of run i, where several are trained side by side.
    """

    index: np.ndarray  # [T, S · L, B] rows of the training samples
    valid: np.ndarray  # [T, S · L] rows of a batch that count
    slot: np.ndarray  # [T + 1, S · L] slot trained at step t, one beyond the last = idle
    until: np.ndarray  # [T] one beyond the next step at which a client ends, from t on
    integers: np.ndarray  # [runs · block] records of INTEGERS
    floats: np.ndarray  # [runs · block] records of FLOATS
    labels: np.ndarray  # [runs · block, C] samples of each class; C = 0 unless the method needs them
    shift: np.ndarray  # [runs · block, S] classes that labels have moved on by; S = 0 unless they move
    seats: int  # R, rows that a shard writes


def _column(records: str, names: tuple[str, ...], name: str) -> Any:
    """A property that reads one column of records `[slots, fields]`."""
    return property(lambda jobs: getattr(jobs, records)[:, names.index(name)])


def _integer(name: str) -> Any:
    return _column("integers", INTEGERS, name)


def _float(name: str) -> Any:
    return _column("floats", FLOATS, name)


class Jobs(NamedTuple):
    """The same on the device; columns by slot are read of the records."""

    index: Any  # these four None where lanes are of no concern
    valid: Any
    slot: Any
    until: Any
    integers: Any  # [slots, fields]
    floats: Any  # [slots, fields]
    labels: Any  # samples of each class `[slots, C]`
    shift: Any  # classes that labels have moved on by `[slots, S]`

    start = _integer("start")  # which start model of the bank
    id = _integer("id")  # client
    steps = _integer("steps")  # planned local steps
    place = _integer("place")  # row of the client's memory
    seat = _integer("seat")  # row that a shard writes: shard · R + its own number; = slot where there is one shard
    draw = _integer("draw")  # of batches and noise, where start models are several of a run: else that of the round
    age = _integer("age")  # steps that the server took since it sent the start model
    samples = _float("samples")  # n_k
    weight = _float("weight")  # 0 = nothing arrives
    lr = _float("lr")  # client learning rate
    lr_sum = _float("lr_sum")  # Σ of the learning rates of the planned steps
    share = _float("share")  # times that a round has a message of the client, on average; 0: unknown

    @property
    def count(self) -> Array:  # a tuple's own method of this name is not asked for
        """Times drawn."""
        return self.floats[:, FLOATS.index("count")]

    @property
    def malicious(self) -> Array:
        """Whether the attacker controls the client."""
        return self.integers[:, INTEGERS.index("malicious")] > 0


class Part(NamedTuple):
    """A run's part of a round that several runs train side by side; a run that has ended has none."""

    plan: Plan
    cohort: RoundPlan
    probe: bool = False  # the pass at x, over all samples as they stand

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


def jobs_of(layout: Layout) -> Jobs:
    """A layout as the device reads it."""
    integers, floats = _plain(layout.integers), _plain(layout.floats)
    return Jobs(layout.index, layout.valid, layout.slot, layout.until, integers, floats, layout.labels, layout.shift)


def _plain(records: np.ndarray) -> np.ndarray:
    """Records of one type as rows `[slots, fields]`."""
    names = records.dtype.names or ()
    return records.view(records.dtype[0]).reshape(len(records), len(names))


def by_slot(jobs: Jobs) -> Jobs:
    """The columns by slot alone: the server does not need the lay-out on lanes."""
    return jobs._replace(index=None, valid=None, slot=None, until=None)


def lay_out(
    parts: Sequence[Part | None],
    first: int,
    width: Width,
    room: Capacity,
    dtype: np.dtype,
    pack: Packer = longest_first,
    versions: int = 1,
) -> tuple[Layout, int]:
    """The slots `first … first + block` of a round of every run on the lanes of all shards -> (layout, lane steps to do).

    Where the clients' memory lies is not known yet: `placed` adds it. The bank holds `versions` start models of every run.
    """
    (lanes, block), shards = width, room.shards
    slots = len(parts) * block
    integers, numbers, labels, shift = _columns(parts, first, block, dtype, versions)
    queues = pack(integers["steps"], lanes * shards)
    total = makespan(queues, integers["steps"])
    T = max(room.steps, roomy(total))
    R = room.seats if shards == 1 else max(room.seats, roomy(crowd(queues, shards)))
    index = np.zeros((T, shards * lanes, room.batch), np.int32)
    valid = np.zeros((T, shards * lanes), np.int32)
    slot = np.full((T + 1, shards * lanes), slots, np.int32)
    integers["seat"] = np.arange(slots) if shards == 1 else _seats(queues, shards, R, slots)
    known: dict[tuple, tuple[np.ndarray, np.ndarray]] = {}  # batches: runs that are compared have many in common
    for number, queue in enumerate(queues):
        t, lane = 0, (number % shards) * lanes + number // shards  # neighbours in the queue are with different shards
        for k in queue:
            part, client, draw = parts[k // block], int(integers["id"][k]), int(integers["draw"][k])
            assert part is not None
            job = (*part.plan.order, draw, client)
            rows, count = known.get(job) or known.setdefault(job, part.batches(draw, client))
            steps = int(integers["steps"][k])  # of partial work fewer than there are batches
            end = t + steps
            index[t:end, lane, : rows.shape[1]], valid[t:end, lane], slot[t:end, lane] = rows[:steps], count[:steps], k
            t = end
    return Layout(index, valid, slot, ends_from(slot), integers, numbers, labels, shift, R), total


def laid_out(width: Width, room: Capacity, dtype: np.dtype, plan: Plan) -> Jobs:
    """The shapes of what one of the shards reads of any `lay_out` of such a plan that stays within `room`."""
    shape, slots = jax.ShapeDtypeStruct, room.runs * width.block
    return Jobs(
        index=shape((room.steps, width.lanes, room.batch), np.int32),
        valid=shape((room.steps, width.lanes), np.int32),
        slot=shape((room.steps + 1, width.lanes), np.int32),
        until=shape((room.steps,), np.int32),
        integers=shape((slots, len(INTEGERS)), np.int32),
        floats=shape((slots, len(FLOATS)), dtype),
        labels=shape((slots, plan.labels.shape[1]), dtype),
        shift=shape((slots, int(plan.moves)), np.int32),
    )


def _columns(
    parts: Sequence[Part | None], first: int, block: int, dtype: np.dtype, versions: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What is known of every slot; of empty slots zeros."""
    slots, playing = len(parts) * block, [part for part in parts if part is not None]
    integers, numbers = np.zeros(slots, record(INTEGERS, np.int32)), np.zeros(slots, record(FLOATS, dtype))
    labels = np.zeros((slots, max(part.plan.labels.shape[1] for part in playing)), dtype)
    shift = np.zeros((slots, max(int(part.plan.moves) for part in playing)), np.int32)
    for run, part in enumerate(parts):
        if part is None:
            continue
        plan, jobs, cut = part.plan, part.jobs, slice(first, first + block)
        ids = jobs.ids[cut]
        rows = slice(run * block, run * block + len(ids))
        start = run * versions + np.searchsorted(part.versions, jobs.start[cut])
        whole = {"start": start, "id": ids, "steps": jobs.steps[cut], "malicious": plan.malicious_in(jobs.round)[ids]}
        for name, column in {**whole, "draw": jobs.draw[cut], "age": jobs.age[cut]}.items():
            integers[name][rows] = column
        columns = {"samples": jobs.samples[cut], "weight": jobs.weight[cut], "count": jobs.count[cut]}
        rates = np.broadcast_to(jobs.lr, len(jobs.ids))[cut]
        share = 0.0 if plan.shares is None else plan.shares[ids]
        for name, column in {**columns, "lr": rates, "lr_sum": jobs.lr_sum[cut], "share": share}.items():
            numbers[name][rows] = column
        labels[rows], shift[rows] = np.roll(plan.labels[ids], jobs.shift, axis=1), jobs.shift
    return integers, numbers, labels, shift


def placed(layout: Layout, places: Sequence[np.ndarray], block: int) -> Layout:
    """The layout with the rows of memory of every run's clients."""
    for run, rows in enumerate(places):
        layout.integers["place"][run * block : run * block + len(rows)] = rows
    return layout


def shard_of(layout: Layout, shard: int, shards: int) -> Layout:
    """The lanes of one shard."""
    wide = layout.slot.shape[1] // shards
    lanes = slice(shard * wide, (shard + 1) * wide)
    slot = layout.slot[:, lanes]
    index, valid = layout.index[:, lanes], layout.valid[:, lanes]
    return layout._replace(index=index, valid=valid, slot=slot, until=ends_from(slot), seats=0)


def ends_from(slot: np.ndarray) -> np.ndarray:
    """For every step: one behind the next step at which some lane's slot changes `[T]`."""
    T = len(slot) - 1
    ends = np.where((slot[:-1] != slot[1:]).any(1), np.arange(1, T + 1), T)
    return np.minimum.accumulate(ends[::-1])[::-1].astype(np.int32)


def compacted(
    layout: Layout, x: np.ndarray, y: np.ndarray, samples: int, readers: Sequence[slice]
) -> tuple[Layout, list[tuple[np.ndarray, np.ndarray]]]:
    """The samples of one block alone, and the layout over them: for data that would not fit on the device.

    Args:
      layout: of the block; its index counts rows of x.
      x: all training features, in memory or mapped from a file.
      y: their labels.
      samples: room for so many, more if they need it.
      readers: lanes that read samples of their own; those of other processes are left as they are.
    """
    whole, parts = layout.index.copy(), []
    for lanes in readers:
        used, index = np.unique(whole[:, lanes], return_inverse=True)
        rows = np.zeros(max(samples, roomy(len(used))), np.int64)
        rows[: len(used)] = used
        whole[:, lanes] = index.reshape(whole[:, lanes].shape)
        parts.append((x[rows], y[rows]))
    return layout._replace(index=whole), parts


def _seats(queues: list[list[int]], shards: int, R: int, slots: int) -> np.ndarray:
    """Row of every slot in the stacks of all shards, one after another `[slots]`; S · R: it has none."""
    seat = np.full(slots, shards * R)
    for shard in range(shards):
        trained = [k for queue in queues[shard::shards] for k in queue]
        seat[trained] = shard * R + np.arange(len(trained))
    return seat
