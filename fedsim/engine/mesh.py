"""Lanes on devices: every device trains lanes of the same width, so that how many there are changes no bit.

Each writes rows of its own; `all_gather` and one take bring them into slot order (no arithmetic touches a row). All that
follows, the server's work and evaluation, happens on the first device; in a run of several processes, on the first
device of each, so that all of them know the same.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from fedsim import tree
from fedsim.engine.lanes import Lanes, Rows
from fedsim.engine.pack import Jobs, Layout, unpack

ALL, SPLIT = PartitionSpec(), PartitionSpec("devices")
LANES = PartitionSpec(None, "devices")


class Mesh(NamedTuple):
    """How the lanes' program runs on the devices there are."""

    devices: int
    spread: Callable  # anything that all lanes read -> the same, on every device
    jobs: Callable  # layout -> (jobs as lanes read them, jobs as the server reads them)
    lend: Callable  # (bank, memory by slot, layout, jobs) -> (bank, memory) as lanes read them
    empty: Callable  # (bank, memory, jobs, R) -> Rows of zeros
    begin: Callable  # (bank, memory, jobs) -> Lane
    train: (
        Callable  # (bank, memory, jobs, data, key, lane, rows, t0, t1) -> (lane, rows, token); the last three consumed
    )
    collect: Callable  # (rows, jobs) -> rows by slot


@functools.lru_cache(64)
def mesh(lanes: Lanes, devices: tuple | None = None) -> Mesh:
    """The lanes' program on these devices (None: on the default one)."""
    return _alone(lanes) if devices is None or len(devices) == 1 else _together(lanes, devices)


def _alone(lanes: Lanes) -> Mesh:
    """One device: everything is where it belongs."""

    def begin(bank, memory, jobs: Jobs):
        return lanes.begin(bank, memory, jobs, 0)

    def train(bank, memory, jobs: Jobs, data, key, lane, rows: Rows, t0, t1):
        return lanes.train(bank, memory, jobs, data, key, lane, rows, t0, t1, 0)

    return Mesh(
        devices=1,
        spread=jax.device_put,
        jobs=lambda layout: (unpack(layout._replace(seats=0)),) * 2,
        lend=lambda bank, memory, layout, jobs: (bank, memory),
        empty=lambda bank, memory, jobs, R: jax.device_put(_zeros(lanes, bank, memory, jobs, R)),
        begin=jax.jit(begin),
        train=jax.jit(train, donate_argnums=(5, 6)),
        collect=lambda rows, jobs: rows,
    )


def _together(lanes: Lanes, devices: Sequence[Any]) -> Mesh:
    """Several devices, of one process or of several: the lanes' axis is split among them."""
    D, grid = len(devices), jax.sharding.Mesh(np.array(devices), ("devices",))
    jobs_spec: Any = Jobs._make([LANES] * 3 + [ALL] * (len(Jobs._fields) - 3))  # type: ignore[arg-type]
    mapped = functools.partial(jax.shard_map, mesh=grid, check_vma=False)

    def put(values: Any, spec: PartitionSpec) -> Any:
        return jax.tree.map(lambda leaf: _placed(leaf, NamedSharding(grid, spec)), values)

    def begin(bank, memory, jobs: Jobs):
        held = jax.tree.leaves(memory)
        first = jax.lax.axis_index("devices") * (held[0].shape[0] if held else 0)
        return lanes.begin(bank, memory, jobs, first)

    def local_train(bank, memory, jobs: Jobs, data, bits, r, lane, rows: Rows, t0, t1):
        key = (jax.random.wrap_key_data(bits), r)
        first = jax.lax.axis_index("devices") * rows.loss.shape[0]
        return lanes.train(bank, memory, jobs, data, key, lane, rows, t0, t1, first)

    specs = (ALL, SPLIT, jobs_spec, ALL, ALL, ALL, SPLIT, SPLIT, ALL, ALL)
    mapped_train = jax.jit(mapped(local_train, in_specs=specs, out_specs=(SPLIT, SPLIT, ALL)), donate_argnums=(6, 7))

    def train(bank, memory, jobs: Jobs, data, key, lane, rows: Rows, t0, t1):
        bits = put(jax.random.key_data(key[0]), ALL)
        return mapped_train(bank, memory, jobs, data, bits, key[1], lane, rows, t0, t1)

    def gather(rows: Rows, seat) -> Rows:
        return tree.take(jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, "devices", tiled=True), rows), seat)

    def jobs(layout: Layout) -> tuple[Jobs, Jobs]:
        nothing = np.zeros((0, 0), np.int32)
        columns = unpack(layout._replace(index=nothing, valid=nothing, slot=nothing, seats=0))
        parts = {name: put(getattr(layout, name), LANES) for name in ("index", "valid", "slot")}
        return put(columns, ALL)._replace(**parts), columns

    def lend(bank, memory, layout: Layout, jobs: Jobs):
        if jax.tree.leaves(memory):
            memory = put(_seated(memory, layout.ints[5], D * layout.seats), SPLIT)
        return put(bank, ALL), memory

    gathered = jax.jit(mapped(gather, in_specs=(SPLIT, ALL), out_specs=ALL))
    return Mesh(
        devices=D,
        spread=lambda values: put(values, ALL),
        jobs=jobs,
        lend=lend,
        empty=lambda bank, memory, jobs, R: put(_zeros(lanes, bank, memory, jobs, D * R), SPLIT),
        begin=jax.jit(mapped(begin, in_specs=(ALL, SPLIT, jobs_spec), out_specs=SPLIT)),
        train=train,
        collect=lambda rows, jobs: jax.tree.map(lambda leaf: leaf.addressable_data(0), gathered(rows, jobs.seat)),
    )


def _zeros(lanes: Lanes, bank, memory, jobs: Jobs, R: int) -> Rows:
    shapes = lanes.shapes(bank, memory, jobs)
    return jax.tree.map(lambda leaf: np.zeros((R, *leaf.shape), leaf.dtype), shapes)


@functools.partial(jax.jit, static_argnums=2)
def _seated(memory: tree.Tree, seat, seats: int) -> tree.Tree:
    """Rows by slot -> rows by seat."""
    holder = jnp.zeros(seats, jnp.int32).at[seat].set(jnp.arange(len(seat), dtype=jnp.int32), mode="drop")
    return tree.take(memory, holder)


def _placed(leaf: Any, sharding: NamedSharding) -> jax.Array:
    """An array that this process has, as its part of one over all devices; nothing travels between processes."""
    parts = sharding.addressable_devices_indices_map(np.shape(leaf))
    local = [jax.device_put(leaf[index] if np.ndim(leaf) else leaf, device) for device, index in parts.items()]
    return jax.make_array_from_single_device_arrays(np.shape(leaf), sharding, local)
