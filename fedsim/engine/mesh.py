"""Where lanes train: shards of the same width, side by side, so that how many there are changes no
bit.

On one device, a shard has a thread that hands the lanes' program over (a CPU runs what several
threads hand over at once, each on a core of its own); on several devices, of one process or of
many, a shard has a device. Every shard runs the same program, as it would run alone, and writes
rows of its own; one take brings them into slot order (no arithmetic touches a row). All that
follows happens on the first device; in a run of several processes, on the first device of each, so
that all of them know the same.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array

from fedsim import tree
from fedsim.engine.jitted import jitted
from fedsim.engine.lanes import Bank, Keys, Lane, LaneInputs, Lanes, Rows
from fedsim.engine.layout import Layout, shard_of
from fedsim.engine.threads import in_threads, jit_for_threads
from fedsim.tree import Tree

ALL, SPLIT = PartitionSpec(), PartitionSpec("devices")


class Place(NamedTuple):
    """Where a shard trains."""

    number: int  # of all shards
    device: Any = None  # left out: the default one

    def bring(self, values: Any) -> Any:
        """Values of the first device as this shard reads them."""
        return values if self.device is None else jax.device_put(values, self.device)


class Buffers(NamedTuple):
    """What the shards of this process write on, an entry for each."""

    lanes: list[Lane]
    rows: list[Rows]
    stack: Rows | None = None  # the rows of all shards by slot, where one thread's are not all


class Mesh:
    """The lanes' program on what there is; lists have an entry for every shard of this process.

    Args:
      lanes: the program.
      devices: to train on; None: the default device.
      shards: of all processes; threads that hand the program over, where there is one device.

    Attributes:
      train: the compiled `Lanes.train`, on the same buffers.
    """

    def __init__(self, lanes: Lanes, devices: tuple | None, shards: int):
        self.lanes, self.devices, self.shards = lanes, devices, shards
        process = jax.process_index() if devices else 0
        every = [Place(n, device) for n, device in enumerate(devices or [None] * shards)]
        self.places = [
            place
            for place in every
            if place.device is None or place.device.process_index == process
        ]
        self.train = jit_for_threads(lanes.train, donate=(1, 2))

    def by(self, shards: int) -> "Mesh":
        """The same by so many shards, where that is a choice."""
        return mesh(self.lanes, self.devices, shards)

    def spread(self, values: Any) -> list:
        """Copies of what all lanes read."""
        values = jax.device_put(values, self.places[0].device)
        return [place.bring(values) for place in self.places]

    def readers(self, lanes: int) -> list[slice]:
        """The lanes of each device of this process, so many for a shard: they are handed samples of
        their own.
        """
        if self.devices is None:
            return [slice(None)]
        return [slice(place.number * lanes, (place.number + 1) * lanes) for place in self.places]

    def handed(self, samples: list) -> list:
        """What each reader trains on, as the shards read it."""
        return self.spread(samples[0]) if self.devices is None else self._apart(samples)

    def lend(
        self, bank: Bank, memory: Tree, layout: Layout, data: list, keys: Keys
    ) -> list[LaneInputs]:
        """Start models, memory by slot, the layout, and the samples that each reads, as the shards
        read them.
        """
        slots, shards = layout.slots, self.shards
        if shards == 1 or not jax.tree.leaves(memory):
            memories = [memory] * len(self.places)
        else:
            parts = _cut(_seated(memory, slots.seat, shards * layout.seats), shards)
            memories = self._apart([parts[place.number] for place in self.places])
        roots, r = keys
        return [
            LaneInputs(
                bank=place.bring(bank),
                memory=rows,
                queues=place.bring(shard_of(layout.queues, place.number, shards)),
                slots=place.bring(slots),
                data=samples,
                keys=(place.bring(roots), r),
            )
            for place, rows, samples in zip(self.places, memories, data, strict=True)
        ]

    def empty(self, buffers: Buffers | None, lent: list[LaneInputs], seats: int) -> Buffers:
        """Room for the lanes and rows of a block: that of the round before, where it fits."""
        if buffers is not None and buffers.rows[0].loss.shape[0] == seats:
            return buffers
        first = lent[0]
        lane, row = self.lanes.shapes(first.bank, first.memory, first.queues, first.slots)
        rows = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((seats, *leaf.shape), leaf.dtype), row
        )
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), (lane, rows))
        pairs = [jax.device_put(zeros, place.device) for place in self.places]
        return Buffers([lanes for lanes, _ in pairs], [rows for _, rows in pairs])

    def train_all(
        self, lent: list[LaneInputs], buffers: Buffers, t0: int, t1: int
    ) -> tuple[Buffers, list[Array]]:
        """Lane steps t0 to t1 of all shards, as `Lanes.train`, on the same buffers -> (buffers,
        tokens).
        """
        seats = buffers.rows[0].loss.shape[0]
        each = zip(self.places, lent, buffers.lanes, buffers.rows, strict=True)
        calls = [
            (read, lane, rows, np.int32(t0), np.int32(t1), np.int32(place.number * seats))
            for place, read, lane, rows in each
        ]
        lanes, rows, tokens = zip(*in_threads(self.train, calls), strict=True)
        return Buffers(list(lanes), list(rows), buffers.stack), list(tokens)

    def collect(self, buffers: Buffers, lent: list[LaneInputs]) -> tuple[Rows, Buffers]:
        """The rows of all shards by slot -> (they, the buffers that hold them)."""
        rows, seats = buffers.rows, [read.slots.seat for read in lent]
        if self.devices is not None:
            return _grid(self.devices).collect(rows, seats), buffers
        if len(rows) == 1:
            return rows[0], buffers
        stack = _joined(buffers.stack, rows, seats[0])
        return stack, buffers._replace(stack=stack)

    def _apart(self, parts: list) -> list:
        return [place.bring(part) for place, part in zip(self.places, parts, strict=True)]


def mesh(lanes: Lanes, devices: tuple | None = None, shards: int = 1) -> Mesh:
    """One `Mesh` for equal arguments: its programs are compiled once."""
    several = devices if devices is not None and len(devices) > 1 else None
    return _mesh(lanes, several, len(several) if several else shards)


_mesh = functools.lru_cache(64)(Mesh)


class Grid:
    """Several devices as one array of rows, of one process or of many."""

    def __init__(self, devices: Sequence[Any]):
        grid = jax.sharding.Mesh(np.array(devices), ("devices",))
        self.devices = devices
        self.split, self.all = NamedSharding(grid, SPLIT), NamedSharding(grid, ALL)
        self.mapped = jax.shard_map(
            _gathered, mesh=grid, in_specs=(SPLIT, ALL), out_specs=ALL, check_vma=False
        )

    @jitted
    def gather(self, rows: Rows, seat: Array) -> Rows:
        """Rows over all devices -> rows by slot, on each."""
        return self.mapped(rows, seat)

    def collect(self, rows: list[Rows], seats: list[Array]) -> Rows:
        """The rows of all devices by slot, on the first device of every process."""
        seat = jax.make_array_from_single_device_arrays(seats[0].shape, self.all, seats)
        whole = self.gather(jax.tree.map(self._whole, *rows), seat)
        return jax.tree.map(lambda leaf: leaf.addressable_data(0), whole)

    def _whole(self, *parts: jax.Array) -> jax.Array:
        """The parts of this process as its share of one array over all devices."""
        shape = (len(self.devices) * parts[0].shape[0], *parts[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, self.split, list(parts))


_grid = functools.lru_cache(8)(Grid)


def _gathered(rows: Rows, seat: Array) -> Rows:
    return tree.take(
        jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, "devices", tiled=True), rows), seat
    )


@functools.partial(jax.jit, donate_argnums=0, keep_unused=True)
def _joined(stack: Rows | None, rows: list[Rows], seat: Array) -> Rows:
    """Rows of all shards by slot, in the memory of a stack that nobody reads any more."""
    return tree.take(tree.concatenate(rows), seat)


_cut = jax.jit(tree.split, static_argnums=1)


@functools.partial(jax.jit, static_argnums=2)
def _seated(memory: Tree, seat: Array, seats: int) -> Tree:
    """Rows by slot -> rows by seat."""
    holder = (
        jnp.zeros(seats, jnp.int32)
        .at[seat]
        .set(jnp.arange(len(seat), dtype=jnp.int32), mode="drop")
    )
    return tree.take(memory, holder)
