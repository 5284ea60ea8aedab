"""Where lanes train: crews of the same width, side by side, so that how many there are changes no bit.

On one device, a crew is a thread that hands the lanes' program over (a CPU runs what several threads hand over at once,
each on a core of its own); on several devices, of one process or of many, a crew is a device. Every crew runs the same
program, as it would run alone, and writes rows of its own; one take brings them into slot order (no arithmetic touches a
row). All that follows happens on the first device; in a run of several processes, on the first device of each, so that
all of them know the same.
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
from fedsim.engine.pack import Jobs, Layout, ends_from, unpack
from fedsim.engine.threads import compiled, side_by_side

ALL, SPLIT = PartitionSpec(), PartitionSpec("devices")


class Mesh(NamedTuple):
    """How the lanes' program runs on what there is; what is plural has an entry for every crew of this process."""

    crews: int  # of all processes
    spread: Callable  # anything that all lanes read -> copies of it
    jobs: Callable  # layout -> (jobs as the crews read them, jobs as the server reads them)
    lend: Callable  # (bank, memory by slot, layout) -> (banks, memories)
    empty: Callable  # (rows of the round before or None, banks, memories, jobs, R) -> rows, with room for R per crew
    begin: Callable  # (banks, memories, jobs) -> lanes
    train: Callable  # (banks, memories, jobs, data, key, lanes, rows, t0, t1) -> (lanes, rows, tokens), on the same buffers
    collect: Callable  # (rows, jobs) -> rows by slot
    by: Callable  # (crews) -> the same by so many, where that is a choice
    programs: tuple = ()  # what was compiled
    shapes: Callable = tuple  # (bank, memory, jobs) -> shapes of one row


class Place(NamedTuple):
    """Where a crew works."""

    number: int  # of all crews
    device: Any = None  # left out: the default one

    def bring(self, values: Any) -> Any:
        """Values of the first device as this crew reads them."""
        return values if self.device is None else jax.device_put(values, self.device)


@functools.lru_cache(64)
def mesh(lanes: Lanes, devices: tuple | None = None, crews: int = 1) -> Mesh:
    """The lanes' program on these devices (None: on the default one, by so many crews)."""
    if devices is None or len(devices) == 1:
        by = lambda crews: mesh(lanes, None, crews)
        return _crewed(lanes, [Place(c) for c in range(crews)], crews, _one_after_another, by)
    here = jax.process_index()
    places = [Place(d, device) for d, device in enumerate(devices) if device.process_index == here]
    return _crewed(lanes, places, len(devices), _gathering(devices), lambda crews: mesh(lanes, devices))


def _crewed(lanes: Lanes, places: list[Place], total: int, collect: Callable, by: Callable) -> Mesh:
    begin, train = compiled(lanes.begin), compiled(lanes.train, donate_argnums=(5, 6))

    def everywhere(values: Any) -> list:
        return [place.bring(values) for place in places]

    def apart(parts: list) -> list:
        return [place.bring(part) for place, part in zip(places, parts, strict=True)]

    def jobs(layout: Layout) -> tuple[list[Jobs], Jobs]:
        wide = layout.slot.shape[1] // total
        parts = [layout._replace(**_columns(layout, place.number, wide), seats=0) for place in places]
        each = [unpack(part) for part in parts]
        return apart(each), each[0]

    def lend(bank, memory, layout: Layout) -> tuple[list, list]:
        if total == 1 or not jax.tree.leaves(memory):
            return everywhere(bank), [memory] * len(places)
        parts = _cut(_seated(memory, layout.ints[5], total * layout.seats), total)
        return everywhere(bank), apart([parts[place.number] for place in places])

    def empty(rows, banks: list, memories: list, jobs: list[Jobs], R: int) -> list[Rows]:
        if rows is not None and rows[0].loss.shape[0] == R:
            return rows
        shapes = lanes.shapes(banks[0], memories[0], jobs[0])
        return [jax.device_put(_zeros(shapes, R), place.device) for place in places]  # each has its own, to write on

    def begin_all(banks: list, memories: list, jobs: list[Jobs]) -> list:
        held = jax.tree.leaves(memories[0])
        R = held[0].shape[0] if held else 0
        each = zip(places, banks, memories, jobs, strict=True)
        return side_by_side(begin, [(*mine, np.int32(place.number * R)) for place, *mine in each])

    def train_all(banks: list, memories: list, jobs: list[Jobs], data: list, key, lane: list, rows: list, t0, t1):
        R = rows[0].loss.shape[0]
        keys = [(root, key[1]) for root in everywhere(key[0])]
        each = zip(places, banks, memories, jobs, data, keys, lane, rows, strict=True)
        calls = [(*mine, t0, t1, np.int32(place.number * R)) for place, *mine in each]
        return [list(part) for part in zip(*side_by_side(train, calls), strict=True)]

    spread = lambda values: everywhere(jax.device_put(values, places[0].device))
    return Mesh(total, spread, jobs, lend, empty, begin_all, train_all, collect, by, (begin, train), lanes.shapes)


def _columns(layout: Layout, crew: int, wide: int) -> dict[str, np.ndarray]:
    """A crew's columns of what is laid out by lane."""
    mine = slice(crew * wide, (crew + 1) * wide)
    columns = {name: getattr(layout, name)[:, mine] for name in ("index", "valid", "slot")}
    return {**columns, "until": ends_from(columns["slot"])}


def _one_after_another(rows: list[Rows], jobs: list[Jobs]) -> Rows:
    """The rows of all crews of one device by slot."""
    return rows[0] if len(rows) == 1 else _joined(rows, jobs[0].seat)


@jax.jit
def _joined(rows: list[Rows], seat) -> Rows:
    return tree.take(tree.concatenate(rows), seat)


def _gathering(devices: Sequence[Any]) -> Callable:
    """-> what brings the rows of all devices into slot order, on the first device of every process."""
    grid = jax.sharding.Mesh(np.array(devices), ("devices",))
    split, all_ = NamedSharding(grid, SPLIT), NamedSharding(grid, ALL)

    def gather(rows: Rows, seat) -> Rows:
        return tree.take(jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, "devices", tiled=True), rows), seat)

    mapped = jax.shard_map(gather, mesh=grid, in_specs=(SPLIT, ALL), out_specs=ALL, check_vma=False)
    gathered = jax.jit(mapped)

    def whole(*parts: jax.Array) -> jax.Array:
        """The parts of this process as its share of one array over all devices."""
        shape = (len(devices) * parts[0].shape[0], *parts[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, split, list(parts))

    def collect(rows: list[Rows], jobs: list[Jobs]) -> Rows:
        seat = jax.make_array_from_single_device_arrays(jobs[0].seat.shape, all_, [part.seat for part in jobs])
        return jax.tree.map(lambda leaf: leaf.addressable_data(0), gathered(jax.tree.map(whole, *rows), seat))

    return collect


_cut = jax.jit(tree.split, static_argnums=1)


def _zeros(shapes: Rows, R: int) -> Rows:
    return jax.tree.map(lambda leaf: np.zeros((R, *leaf.shape), leaf.dtype), shapes)


@functools.partial(jax.jit, static_argnums=2)
def _seated(memory: tree.Tree, seat, seats: int) -> tree.Tree:
    """Rows by slot -> rows by seat."""
    holder = jnp.zeros(seats, jnp.int32).at[seat].set(jnp.arange(len(seat), dtype=jnp.int32), mode="drop")
    return tree.take(memory, holder)
