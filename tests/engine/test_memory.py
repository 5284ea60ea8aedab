"""What does not fit is refused before it is made; a failed allocation is a line with a forecast."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import built

import fedsim
from fedsim import limits
from fedsim.assemble.memory import allocations
from fedsim.engine.layout import compacted, lay_out
from fedsim.engine.pack import Width, capacity
from fedsim.engine.slots import RunCohort
from fedsim.errors import Interrupted, ScenarioTooLargeError, exhausted, exit_code
from fedsim.runs import execute
from fedsim.scenario import read

DATA = {"kind": "gaussian_blobs", "samples": 60, "clients": 3}
TINY = {"name": "tiny", "rounds": 1, "data": DATA}
WIDE = 40_000
FULL = "RESOURCE_EXHAUSTED: Out of memory allocating 68719476736 bytes."


def huge(key):
    """Parameters of 1.6 G numbers."""
    return {"a": jnp.zeros((20, WIDE)), "b": jnp.zeros((WIDE, WIDE)), "c": jnp.zeros((WIDE, 10))}


def applied(params, x):
    return x @ params["a"] @ params["b"] @ params["c"]


def test_a_model_passed_from_python_is_counted_before_it_is_made(monkeypatch):
    monkeypatch.setattr(limits, "memory_limit", lambda: 4 * 10**9)
    message = r"model: does not fit into memory: needs .*start models 6,404\.8 MB"
    with pytest.raises(ScenarioTooLargeError, match=message):
        fedsim.run(TINY, model=(huge, applied))


UNMAPPED = ImportError("libjax_common.so: failed to map segment from shared object")


@pytest.mark.parametrize(
    "error", [RuntimeError(FULL), MemoryError("Unable to allocate 64. GiB"), UNMAPPED]
)
def test_a_failed_allocation_is_one_line_with_the_forecast(error):
    scenario = read(TINY)
    counted = {"stack": 3 * 10**9, "server": 10**6}
    with pytest.raises(ScenarioTooLargeError) as raised, allocations(scenario, counted):
        raise error
    assert exit_code(raised.value) == 8

    text = str(raised.value)
    assert "\n" not in text
    assert "cohort: an allocation failed (" in text
    assert exhausted(error) in text
    assert "the forecast is 3,001.0 MB (stack 3,000.0 MB, server 1.0 MB)" in text

    # Other errors pass.
    with pytest.raises(KeyError), allocations(scenario, {"stack": 1}):
        raise KeyError("another error")
    with pytest.raises(Interrupted), allocations(scenario, {"stack": 1}):
        raise Interrupted


def test_a_comparison_continues_and_records_which_configuration_was_too_large(monkeypatch):
    def ends(*_):
        raise jax.errors.JaxRuntimeError(FULL)

    monkeypatch.setattr(execute, "events", ends)
    message = "allocation failed (Out of memory allocating 68719476736 bytes); the forecast is"
    with pytest.raises(ScenarioTooLargeError, match=re.escape(message)):
        fedsim.run(TINY)
    comparison = fedsim.compare(TINY, ["fedavg", "median"])
    assert [outcome.large for outcome in comparison.outcomes] == [True, True]
    assert comparison.status == "incomplete"
    assert all(message in reason for reason in comparison.reasons.values())


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
