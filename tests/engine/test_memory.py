"""What does not fit is refused before it is made, and an allocation that fails all the same is told with its forecast."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim import limits
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.memory import allocations
from fedsim.engine.layout import compacted, lay_out
from fedsim.engine.pack import Width, capacity
from fedsim.engine.slots import RunCohort
from fedsim.errors import Interrupted, TooLargeError, exhausted, exit_code
from fedsim.runs import execute
from fedsim.scenario import read

TINY = {
    "name": "tiny",
    "rounds": 1,
    "data": {"kind": "gaussian_blobs", "samples": 60, "clients": 3},
}
WIDE = 40_000
FULL = "RESOURCE_EXHAUSTED: Out of memory allocating 68719476736 bytes."


def huge(key):
    """Parameters of 1.6 G numbers."""
    return {"a": jnp.zeros((20, WIDE)), "b": jnp.zeros((WIDE, WIDE)), "c": jnp.zeros((WIDE, 10))}


def applied(params, x):
    return x @ params["a"] @ params["b"] @ params["c"]


def test_a_model_of_a_program_is_counted_before_it_is_made(monkeypatch):
    monkeypatch.setattr(limits, "memory_limit", lambda: 4 * 10**9)
    with pytest.raises(
        TooLargeError, match=r"model: does not fit into memory: needs .*start models 6,404\.8 MB"
    ):
        fedsim.run(TINY, model=(huge, applied))


@pytest.mark.parametrize("error", [RuntimeError(FULL), MemoryError("Unable to allocate 64. GiB")])
def test_a_failed_allocation_is_a_line_with_the_forecast(error):
    scenario = read(TINY)
    with (
        pytest.raises(TooLargeError) as told,
        allocations(scenario, {"stack": 3 * 10**9, "server": 10**6}),
    ):
        raise error
    text = str(told.value)
    assert (
        exit_code(told.value) == 8 and "cohort: an allocation failed (" in text and "\n" not in text
    )
    assert (
        exhausted(error) in text
        and "the forecast is 3,001.0 MB (stack 3,000.0 MB, server 1.0 MB)" in text
    )
    with pytest.raises(KeyError), allocations(scenario, {"stack": 1}):
        raise KeyError("another error")
    with pytest.raises(Interrupted), allocations(scenario, {"stack": 1}):
        raise Interrupted


@pytest.fixture
def full(monkeypatch):
    """Every run runs out of memory."""

    def ends(*_):
        raise jax.errors.JaxRuntimeError(FULL)

    monkeypatch.setattr(execute, "run_group", ends)


def test_a_run_that_runs_out_of_memory_tells_its_forecast(full):
    with pytest.raises(
        TooLargeError,
        match=r"allocation failed \(Out of memory allocating 68719476736 bytes\); the forecast",
    ):
        fedsim.run(TINY)


def test_a_comparison_goes_on_and_knows_which_configuration_was_too_large(full):
    comparison = fedsim.compare(TINY, ["fedavg", "median"])
    assert [outcome.large for outcome in comparison.outcomes] == [
        True,
        True,
    ] and comparison.status == "incomplete"
    assert all("the forecast is" in reason for reason in comparison.reasons.values())


def test_each_device_is_handed_the_samples_of_the_clients_that_it_trains():
    """Where several devices train: no row beside theirs, in room that was counted for the busiest of them."""
    scenario = read(
        {
            **TINY,
            "rounds": 3,
            "data": {**TINY["data"], "clients": 12},
            "client": {"batch": 4, "epochs": 1},
        }
    )
    with numerics(scenario) as devices:
        plan = build(scenario, devices=devices[:1]).plans[0]
    f, width, shards = plan.federation, Width(2, 12), 3
    room = capacity([[plan]], width, shards=shards, apart=True)
    assert room.samples < capacity([[plan]], width, shards=shards).samples
    layout = lay_out([RunCohort(plan, plan.round(1)[0])], 0, width, room, np.dtype("float32"))
    readers = [slice(2 * s, 2 * s + 2) for s in range(shards)]
    index = layout.queues.index
    own, parts = compacted(index, f.train.x, f.train.y, room.samples, readers[1:])
    assert np.array_equal(
        own[:, readers[0]], index[:, readers[0]]
    )  # another process hands these over
    for lanes, (x, y) in zip(readers[1:], parts, strict=True):
        assert len(x) == len(y) == room.samples
        assert np.array_equal(x[own[:, lanes]], f.train.x[index[:, lanes]])
        trained = np.unique(
            layout.slots.work.id[np.unique(layout.queues.slot[:, lanes]).clip(max=11)]
        )
        theirs = np.concatenate([f.holders.of(k) for k in trained])
        assert set(map(bytes, x)) <= set(map(bytes, f.train.x[[0, *theirs]]))
