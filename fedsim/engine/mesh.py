"""Shards: groups of lanes of the same width that train side by side.

On one device, every shard has a thread that submits the lanes' program (a CPU runs what several
threads submit at once, each on its own core). With several devices, of one process or of many,
every shard has a device. Every shard runs the same program, as it would run alone, and writes its
own rows; a gather brings them into slot order. No arithmetic touches a row, so that the number of
shards changes no bit.

Everything after the training happens on the first device; in a run of several processes, on the
first device of each, so that all processes have the same results.
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
from fedsim.engine.pieces import Pieces
from fedsim.engine.threads import in_threads, jit_for_threads
from fedsim.tree import Tree

REPLICATED = PartitionSpec()
SHARDED = PartitionSpec("devices")


class Shard(NamedTuple):
    """A group of lanes on a device."""

    number: int  # among all shards
    device: Any = None  # None: the default one

    def put(self, values: Any) -> Any:
        """Return values of the first device as this shard reads them."""
        if self.device is None:
            return values
        return jax.device_put(values, self.device)


class Buffers(NamedTuple):
    """What the shards of this process write to, an entry for each."""

    lanes: list[Lane]
    rows: list[Rows]
    stack: Rows | None = None  # the rows of all threads by slot, where there are several


class Mesh:
    """The lanes' program on all shards; lists have an entry for every shard of this process.

    Args:
      devices: devices to train on; None: the default device.
      shards: number of shards in all processes; on one device, threads that submit the program.

    Attributes:
      local_shards: the shards of this process.
      train: the compiled `Lanes.train`, which reuses its buffers.
    """

    def __init__(self, lanes: Lanes, devices: tuple | None, shards: int):
        self.lanes = lanes
        self.devices = devices
        self.shards = shards
        if devices is None:
            self.local_shards = [Shard(number) for number in range(shards)]
        else:
            process = jax.process_index()
            self.local_shards = [
                Shard(number, device)
                for number, device in enumerate(devices)
                if device.process_index == process
            ]
        self.train = jit_for_threads(lanes.train, donate=(1, 2))

    def with_shards(self, shards: int) -> "Mesh":
        """Return the mesh with `shards` threads; several devices have a shard each in any case."""
        return mesh(self.lanes, self.devices, shards)

    def replicate(self, values: Any) -> list:
        """Return copies of what all lanes read."""
        values = jax.device_put(values, self.local_shards[0].device)
        return [shard.put(values) for shard in self.local_shards]

    def readers(self, lanes: int) -> list[slice]:
        """Return the groups of lanes whose samples are cut for each block."""
        if self.devices is None:
            return [slice(None)]
        return [
            slice(shard.number * lanes, (shard.number + 1) * lanes) for shard in self.local_shards
        ]

    def put_samples(self, samples: list) -> list:
        """Return the samples of every reader, as the shards read them."""
        if self.devices is None:
            return self.replicate(samples[0])
        return self._put_each(samples)

    def inputs(
        self,
        bank: Bank,
        memory: Tree,
        layout: Layout,
        data: list,
        keys: Keys,
        frozen: list[Tree] | None = None,
    ) -> list[LaneInputs]:
        """Return what the lanes of every shard read.

        Args:
          memory: the clients' rows, by slot.
          data: samples (x, y) of every shard.
          keys: root keys of all runs, and the round.
          frozen: leaves of the model that nobody trains, of every shard; None: there are none.
        """
        memories = self._memories(memory, layout)
        if frozen is None:
            frozen = [()] * len(self.local_shards)
        roots, round = keys
        inputs = []
        for shard, rows, samples, leaves in zip(
            self.local_shards, memories, data, frozen, strict=True
        ):
            queues = shard_of(layout.queues, shard.number, self.shards)
            inputs.append(
                LaneInputs(
                    bank=shard.put(bank),
                    memory=rows,
                    queues=shard.put(queues),
                    slots=shard.put(layout.slots),
                    data=samples,
                    keys=(shard.put(roots), round),
                    frozen=leaves,
                )
            )
        return inputs

    def _memories(self, memory: Tree, layout: Layout) -> list[Tree]:
        """Return the clients' rows by seat, for every shard."""
        if self.shards == 1 or not jax.tree.leaves(memory):
            return [memory] * len(self.local_shards)
        by_seat = _rows_by_seat(memory, layout.slots.seat, self.shards * layout.seats)
        of_shards = _split(by_seat, self.shards)
        return self._put_each([of_shards[shard.number] for shard in self.local_shards])

    def train_block(
        self,
        inputs: list[LaneInputs],
        previous: Buffers | None,
        layout: Layout,
        pieces: Pieces,
    ) -> Buffers:
        """Do all lane steps of one block, in one device call or several.

        Args:
          previous: buffers of the block before, which are reused if they fit.

        Returns:
          The buffers, which hold the rows of the block.
        """
        buffers = self.buffers(previous, inputs, layout.seats)
        for first, end in pieces.calls_of(layout.steps):
            calls = []
            for shard, read, lanes, rows in zip(
                self.local_shards, inputs, buffers.lanes, buffers.rows, strict=True
            ):
                origin = np.int32(shard.number * layout.seats)
                calls.append((read, lanes, rows, np.int32(first), np.int32(end), origin))
            lanes, rows, pieces.running = zip(*in_threads(self.train, calls), strict=True)
            buffers = Buffers(list(lanes), list(rows), buffers.stack)
        return buffers

    def buffers(self, previous: Buffers | None, inputs: list[LaneInputs], seats: int) -> Buffers:
        """Return buffers for the lanes and the `seats` rows of every shard; see `train_block`."""
        if previous is not None and previous.rows[0].loss.shape[0] == seats:
            return previous

        first = inputs[0]
        lane, row = self.lanes.shapes(
            first.bank, first.memory, first.queues, first.slots, first.frozen
        )
        lane_zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), lane)
        row_zeros = jax.tree.map(lambda leaf: np.zeros((seats, *leaf.shape), leaf.dtype), row)

        lanes = []
        rows = []
        for shard in self.local_shards:
            shard_lanes, shard_rows = jax.device_put((lane_zeros, row_zeros), shard.device)
            lanes.append(shard_lanes)
            rows.append(shard_rows)
        return Buffers(lanes, rows)

    def collect(self, buffers: Buffers, inputs: list[LaneInputs]) -> tuple[Rows, Buffers]:
        """Return the rows of all shards by slot, and the buffers that hold them."""
        rows = buffers.rows
        seats = [read.slots.seat for read in inputs]
        if self.devices is not None:
            return _device_rows(self.devices).collect(rows, seats), buffers
        if len(rows) == 1:
            return rows[0], buffers
        stack = _joined(buffers.stack, rows, seats[0])
        return stack, buffers._replace(stack=stack)

    def _put_each(self, values: list) -> list:
        """Return a value for every shard, as the shard reads it."""
        return [shard.put(value) for shard, value in zip(self.local_shards, values, strict=True)]


def mesh(lanes: Lanes, devices: tuple | None = None, shards: int = 1) -> Mesh:
    """Return the `Mesh` of these arguments; the same one for equal arguments, compiled once."""
    if devices is not None and len(devices) > 1:
        return _mesh(lanes, devices, len(devices))
    return _mesh(lanes, None, shards)


_mesh = functools.lru_cache(64)(Mesh)


class DeviceRows:
    """The rows of several devices, of one process or of many, as one array."""

    def __init__(self, devices: Sequence[Any]):
        grid = jax.sharding.Mesh(np.array(devices), ("devices",))
        self.devices = devices
        self.sharded = NamedSharding(grid, SHARDED)
        self.replicated = NamedSharding(grid, REPLICATED)
        self.rows_by_slot = jax.shard_map(
            _gathered_by_slot,
            mesh=grid,
            in_specs=(SHARDED, REPLICATED),
            out_specs=REPLICATED,
            check_vma=False,
        )

    @jitted
    def gather(self, rows: Rows, seat: Array) -> Rows:
        """Return the rows over all devices by slot, on each device."""
        return self.rows_by_slot(rows, seat)

    def collect(self, rows: list[Rows], seats: list[Array]) -> Rows:
        """Return the rows of all devices by slot, on the first device of every process.

        Args:
          rows: rows of this process's devices.
          seats: `Slots.seat` on each of them.
        """
        seat = jax.make_array_from_single_device_arrays(seats[0].shape, self.replicated, seats)
        stack = self.gather(jax.tree.map(self._over_devices, *rows), seat)
        return jax.tree.map(lambda leaf: leaf.addressable_data(0), stack)

    def _over_devices(self, *leaves: jax.Array) -> jax.Array:
        """Return a leaf of each device of this process as its share of one array over all."""
        seats = leaves[0].shape[0]
        shape = (len(self.devices) * seats, *leaves[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, self.sharded, list(leaves))


_device_rows = functools.lru_cache(8)(DeviceRows)


def _gathered_by_slot(rows: Rows, seat: Array) -> Rows:
    """Return the rows of all devices by slot; `rows` are those of this device."""
    gather = lambda leaf: jax.lax.all_gather(leaf, "devices", tiled=True)
    return tree.take(jax.tree.map(gather, rows), seat)


@functools.partial(jax.jit, donate_argnums=0, keep_unused=True)
def _joined(stack: Rows | None, rows: list[Rows], seat: Array) -> Rows:
    """Return the rows of all shards by slot.

    They are written to the memory of `stack`, the rows of an earlier block, which nobody reads any
    more.
    """
    return tree.take(tree.concatenate(rows), seat)


_split = jax.jit(tree.split, static_argnums=1)


@functools.partial(jax.jit, static_argnums=2)
def _rows_by_seat(memory: Tree, seat: Array, seats: int) -> Tree:
    """Return rows by slot `[slots, ...]` as rows by seat `[seats, ...]`."""
    # Seats without a slot get the row of slot 0, which nobody reads there.
    slot_of_seat = jnp.zeros(seats, jnp.int32)
    slots = jnp.arange(len(seat), dtype=jnp.int32)
    slot_of_seat = slot_of_seat.at[seat].set(slots, mode="drop")
    return tree.take(memory, slot_of_seat)
