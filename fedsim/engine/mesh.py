"""Where lanes train: crews of the same width, side by side, so that how many there are changes no bit.

On one device, a crew is a thread that hands the lanes' program over (a CPU runs what several threads hand over at once,
each on a core of its own); on several devices, of one process or of many, a crew is a device. Each writes rows of its
own, and one take brings them into slot order (no arithmetic touches a row). All that follows happens on the first
device; in a run of several processes, on the first device of each, so that all of them know the same.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from fedsim import tree
from fedsim.engine.crews import compiled, side_by_side
from fedsim.engine.lanes import Lanes, Rows
from fedsim.engine.pack import Jobs, Layout, ends_from, unpack

ALL, SPLIT = PartitionSpec(), PartitionSpec("devices")
LANES = PartitionSpec(None, "devices")


class Mesh(NamedTuple):
    """How the lanes' program runs on what there is."""

    crews: int
    spread: Callable  # anything that all lanes read -> the same, on every device
    jobs: Callable  # layout -> (jobs as the crews read them, jobs as the server reads them)
    lend: Callable  # (bank, memory by slot, layout, jobs) -> (bank, memory) as the crews read them
    empty: Callable  # (rows of the round before or None, bank, memory, jobs, R) -> rows, with room for R per crew
    begin: Callable  # (bank, memory, jobs) -> lane
    train: (
        Callable  # (bank, memory, jobs, data, key, lane, rows, t0, t1) -> (lane, rows, token); the last three consumed
    )
    collect: Callable  # (rows, jobs) -> rows by slot
    by: Callable  # (crews) -> the same by so many, where that is a choice
    programs: tuple = ()  # what was compiled


@functools.lru_cache(64)
def mesh(lanes: Lanes, devices: tuple | None = None, crews: int = 1) -> Mesh:
    """The lanes' program on these devices (None: on the default one, by so many crews)."""
    return _on_one(lanes, crews) if devices is None or len(devices) == 1 else _together(lanes, devices)


def _on_one(lanes: Lanes, crews: int) -> Mesh:
    """One device; jobs, memory, lanes and rows are lists with an entry per crew."""
    begin, train = compiled(lanes.begin), compiled(lanes.train, donate_argnums=(5, 6))

    def jobs(layout: Layout) -> tuple[list[Jobs], Jobs]:
        wide = layout.slot.shape[1] // crews
        parts = [layout._replace(**_columns(layout, c, wide), seats=0) for c in range(crews)]
        each = [unpack(part) for part in parts]
        return each, each[0]

    def lend(bank, memory, layout: Layout, jobs: list[Jobs]):
        if crews == 1 or not jax.tree.leaves(memory):
            return bank, [memory] * crews
        return bank, _cut(_seated(memory, layout.ints[5], crews * layout.seats), crews)

    def empty(rows, bank, memory, jobs: list[Jobs], R: int) -> list[Rows]:
        if rows is not None and rows[0].loss.shape[0] == R:
            return rows
        return [jax.device_put(_zeros(lanes, bank, memory[0], jobs[0], R)) for _ in range(crews)]

    def begin_all(bank, memory, jobs: list[Jobs]):
        held = jax.tree.leaves(memory[0])
        R = held[0].shape[0] if held else 0
        each = enumerate(zip(memory, jobs, strict=True))
        return side_by_side(begin, [(bank, *mine, np.int32(c * R)) for c, mine in each])

    def train_all(bank, memory, jobs: list[Jobs], data, key, lane, rows: list[Rows], t0, t1):
        R = rows[0].loss.shape[0]
        each = enumerate(zip(memory, jobs, lane, rows, strict=True))
        calls = [(bank, *mine[:2], data, key, *mine[2:], t0, t1, np.int32(c * R)) for c, mine in each]
        return [list(part) for part in zip(*side_by_side(train, calls), strict=True)]

    def collect(rows: list[Rows], jobs: list[Jobs]) -> Rows:
        return rows[0] if crews == 1 else _joined(rows, jobs[0].seat)

    by = lambda crews: mesh(lanes, None, crews)
    return Mesh(crews, jax.device_put, jobs, lend, empty, begin_all, train_all, collect, by, (begin, train))


def _columns(layout: Layout, crew: int, wide: int) -> dict[str, np.ndarray]:
    """A crew's columns of what is laid out by lane."""
    mine = slice(crew * wide, (crew + 1) * wide)
    columns = {name: getattr(layout, name)[:, mine] for name in ("index", "valid", "slot")}
    return {**columns, "until": ends_from(columns["slot"])}


@jax.jit
def _joined(rows: list[Rows], seat) -> Rows:
    """The crews' rows, one after another, by slot."""
    return tree.take(tree.concatenate(rows), seat)


_cut = jax.jit(tree.split, static_argnums=1)


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
    mapped_train = compiled(mapped(local_train, in_specs=specs, out_specs=(SPLIT, SPLIT, ALL)), donate_argnums=(6, 7))
    mapped_begin = compiled(mapped(begin, in_specs=(ALL, SPLIT, jobs_spec), out_specs=SPLIT))

    def train(bank, memory, jobs: Jobs, data, key, lane, rows: Rows, t0, t1):
        bits = put(jax.random.key_data(key[0]), ALL)
        return mapped_train(bank, memory, jobs, data, bits, key[1], lane, rows, t0, t1)

    def empty(rows, bank, memory, jobs: Jobs, R: int) -> Rows:
        if rows is not None and rows.loss.shape[0] == D * R:
            return rows
        return put(_zeros(lanes, bank, memory, jobs, D * R), SPLIT)

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
        crews=D,
        by=lambda crews: mesh(lanes, tuple(devices)),
        spread=lambda values: put(values, ALL),
        jobs=jobs,
        lend=lend,
        empty=empty,
        begin=mapped_begin,
        train=train,
        collect=lambda rows, jobs: jax.tree.map(lambda leaf: leaf.addressable_data(0), gathered(rows, jobs.seat)),
        programs=(mapped_begin, mapped_train),
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
