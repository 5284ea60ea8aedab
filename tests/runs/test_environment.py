"""Odd environments: nonsense in variables and devices that are missing are refused in one line."""

import os

import jax
import pytest
from conftest import sampled
from test_commands import fedsim
from test_standard_streams import TINY, desk  # noqa: F401 (a fixture)

from fedsim import machine
from fedsim.assemble.experiment import numerics
from fedsim.errors import DeviceError
from fedsim.machine import devices_of, threads_in_force
from fedsim.scenario import read


@pytest.mark.parametrize("written", ["all", "-3", "0", "", "²", "99999", "4.0"])
def test_an_invalid_number_of_threads_is_refused_in_one_line(written, monkeypatch):
    monkeypatch.setenv("NPROC", written)
    monkeypatch.setattr(machine, "_in_force", [])
    line = r"^environment variable NPROC: should be .*, found '.*'; .*unset it"
    with pytest.raises(DeviceError, match=line):
        threads_in_force()


def test_a_valid_number_of_threads_is_used_or_else_that_of_the_cores(monkeypatch):
    for written, threads in (("3", 3), (None, machine.cores())):
        monkeypatch.delenv("NPROC")
        if written:
            monkeypatch.setenv("NPROC", written)
        monkeypatch.setattr(machine, "_in_force", [])
        assert threads_in_force() == threads == int(os.environ["NPROC"])


@pytest.mark.parametrize(
    "error", [RuntimeError("Unable to initialize\nbackend 'tpu'"), AssertionError()]
)
def test_errors_of_missing_devices_name_the_setting_that_asked_for_them(error, monkeypatch):
    """JAX raises these for JAX_PLATFORMS=tpu and =cuda; it is asked once for all kinds."""

    def start(*_):
        raise error

    monkeypatch.setattr(machine.jax, "devices", start)
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    line = r"^environment variable .*JAX_PLATFORMS=tpu.*: JAX cannot start: .*$"
    for asked in (None, "gpu", "cpu:0"):
        with pytest.raises(DeviceError, match=line):
            devices_of(asked)


def test_flags_that_would_abort_xla_are_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(machine, "_started", lambda: False)
    monkeypatch.setenv("XLA_FLAGS", "--xla_nonsense=1")
    line = r"^environment variable XLA_FLAGS: Unknown flag in XLA_FLAGS: --xla_nonsense=1;"
    with pytest.raises(DeviceError, match=line):
        devices_of(None)


def test_disabled_compilation_is_refused_in_one_line():
    with jax.disable_jit(), pytest.raises(DeviceError, match="JAX_DISABLE_JIT"):
        devices_of(None)


def test_a_process_without_any_of_the_devices_is_refused_in_one_line(monkeypatch):
    scenario = read(TINY)
    monkeypatch.setattr(jax, "process_index", lambda *_: 3)
    line = "--device cpu:0: process 3 has none of these devices; name at least one of every process"
    with pytest.raises(DeviceError, match=f"^{line}$"), numerics(scenario, device="cpu:0"):
        pass


VARIABLES = [  # variable, value, what the line says
    ("JAX_ENABLE_X64", "maybe", "variable JAX_ENABLE_X64: JAX does not take 'maybe'"),
    ("JAX_PLATFORMS", "tpu", "variable JAX_PLATFORMS=tpu: JAX cannot start: Unable to initialize"),
    ("JAX_PLATFORM_NAME", "nonsense", "variable JAX_PLATFORM_NAME=nonsense: JAX cannot start: "),
    ("XLA_FLAGS", "nonsense", 'variable XLA_FLAGS: Could not open file "nonsense"'),
    ("XLA_FLAGS", "--xla_force_host_platform_device_count=abc", "Couldn't interpret value abc"),
    ("XLA_FLAGS", "--xla_force_host_platform_device_count=-1", "environment variable "),
]


ASKED = [
    *(("run tiny.yaml", *case) for case in VARIABLES),
    *((command, *VARIABLES[1]) for command in ("check tiny.yaml", "doctor", "list devices")),
]


@pytest.mark.parametrize(("command", "name", "value", "message"), sampled(ASKED, len(ASKED)))
def test_nonsense_in_variables_is_refused_in_one_line(
    command,
    name,
    value,
    message,
    desk,  # noqa: F811
    monkeypatch,
):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    done = fedsim(command, desk, **{name: value})
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (desk / "reports").exists()
