"""The memory of a run is counted by shapes, without allocation."""

import jax
import numpy as np
from building import built
from hostile.numbers import TINY

from fedsim.assemble.memory import run_footprint
from fedsim.engine.blocks import BlockKey, Blocks
from fedsim.engine.footprint import largest_value_bytes
from fedsim.engine.memory import CLIENT
from fedsim.fleet import Planner


def test_the_counted_shapes_are_those_of_the_first_block():
    """The shapes that are counted without allocation are those of the first block and its stack."""
    e = built({**TINY, "method": "scaffold", "client": {"batch": 4, "epochs": 2}})
    plan, program = e.plans[0], e.program
    shapes = run_footprint(e.scenario, program, plan, e.shared[0]).shapes
    key = BlockKey(round=1, first_slot=0, playing=(True,), is_probe=False)
    layout = Blocks([Planner(plan)], program, readers=[]).get(key).layout
    shapes_of = lambda values: [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(values)]
    server = program.server.init(e.shared[0], plan.present)
    store = program.server.memories.empty(server.shared, program.capacity.members)
    of_clients = (server.shared, layout.slots, jax.random.key(0))
    memory = program.server.memories.gather(store, *of_clients)[CLIENT]
    keys = ((jax.random.key(0),), 1)
    inputs = program.mesh.inputs((server.shared,), memory, layout, [()], keys)
    made = {
        "queues": layout.queues,
        "slots": layout.slots,
        "server": server,
        "memory": memory,
        "rows": program.mesh.buffers(None, inputs, layout.seats).rows[0],
    }
    for name, values in made.items():
        assert shapes_of(values) == shapes_of(shapes[name]), name


def test_the_largest_value_of_a_program_is_found():
    inner = jax.jit(lambda x: (x[:, None] * x[None]).sum())
    x = jax.ShapeDtypeStruct((1000,), np.float32)
    assert largest_value_bytes(lambda x: inner(x) + 1, x) == 4_000_000
