"""What does not fit is refused before it is made; a failed allocation is a line with a forecast."""

import re

import jax
import jax.numpy as jnp
import pytest

import fedsim
from fedsim import limits
from fedsim.assemble.memory import allocations
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
