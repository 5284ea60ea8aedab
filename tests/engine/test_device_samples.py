"""A device gets the samples of its clients and no others."""

import numpy as np
from building import built
from test_memory import DATA, TINY

from fedsim.engine.layout import compacted, lay_out
from fedsim.engine.pack import Width, capacity
from fedsim.engine.slots import RunCohort


def test_each_device_gets_only_the_samples_of_its_clients():
    """A device gets no other rows, in shapes that were counted for the busiest device."""
    sections = {"data": {**DATA, "clients": 12}, "client": {"batch": 4, "epochs": 1}}
    plan = built({**TINY, "rounds": 3, **sections}).plans[0]
    train = plan.federation.train
    holders = plan.federation.holders
    width = Width(lanes=2, block=12)
    shards = 3

    shapes = capacity([[plan]], width, shards=shards, samples_by_shard=True)
    assert shapes.samples < capacity([[plan]], width, shards=shards).samples

    cohort = RunCohort(plan, plan.round(1)[0])
    layout = lay_out([cohort], 0, width, shapes, np.dtype("float32"))
    index = layout.queues.index
    readers = [slice(2 * s, 2 * s + 2) for s in range(shards)]
    compact, samples = compacted(index, train.x, train.y, shapes.samples, readers[1:])

    # The first reader belongs to another process.
    assert np.array_equal(compact[:, readers[0]], index[:, readers[0]])
    for lanes, (x, y) in zip(readers[1:], samples, strict=True):
        assert len(x) == len(y) == shapes.samples
        assert np.array_equal(x[compact[:, lanes]], train.x[index[:, lanes]])
        slots = np.unique(layout.queues.slot[:, lanes]).clip(max=11)
        clients = np.unique(layout.slots.work.id[slots])
        rows = np.concatenate([holders.of(client) for client in clients])
        assert set(map(bytes, x)) <= set(map(bytes, train.x[[0, *rows]]))
