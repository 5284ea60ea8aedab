"""The machine: how many threads XLA computes with, which changes bits of large products, and on which devices."""

import contextlib
import gc
import os
import re
import resource
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from fedsim.errors import DeviceError

MOST_THREADS = 1024  # as of `numerics.threads`
NAMED = (
    "JAX_PLATFORMS",
    "JAX_PLATFORM_NAME",
    "JAX_NUM_CPU_DEVICES",
    "XLA_FLAGS",
)  # which devices there are
KEEP_ALL = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}

_in_force: list[int] = []  # the number found when the backend was first used


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fix_threads(wanted: int | None) -> None:
    """Give XLA's thread pool this size, if its backend has not been used yet (None: NPROC, or the number of cores)."""
    if not _in_force:
        if not _started() and wanted:
            os.environ["NPROC"] = str(wanted)
        _in_force.append(_threads())
    if wanted and wanted != _in_force[0]:
        problem = f"XLA runs with {_in_force[0]} threads in this process since its first use, {wanted} were asked for"
        warnings.warn(f"{problem}; the bits of large products depend on it", stacklevel=2)


def forget_programs(share: float = 0.5) -> None:
    """Let compiled programs go once a share of the memory maps that a process may have is in use. XLA needs several for each
    program, and aborts where there are none left (65,530 on Linux). Those that are needed again are compiled again.
    """
    maps, most = File("/proc/self/maps"), File("/proc/sys/vm/max_map_count")
    if (
        maps.exists()
        and most.exists()
        and maps.read_bytes().count(b"\n") > share * int(most.read_text())
    ):
        jax.clear_caches()
        gc.collect()


@contextlib.contextmanager
def compile_cache() -> Iterator[str | None]:
    """Compiled programs are kept in the user's cache folder meanwhile, unless the user or the host program has decided about
    that already -> the folder; None where there is none.
    """
    decided = jax.config.values["jax_compilation_cache_dir"]
    if decided is not None or "JAX_ENABLE_COMPILATION_CACHE" in os.environ:
        yield decided
        return
    home = File(os.environ.get("XDG_CACHE_HOME") or File.home() / ".cache") / "fedsim" / "xla"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:  # a cache is a convenience
        yield None
        return
    before = {name: jax.config.values[name] for name in KEEP_ALL}
    _configure({**KEEP_ALL, "jax_compilation_cache_dir": str(home)})
    try:
        yield str(home)
    finally:
        _configure({**before, "jax_compilation_cache_dir": None})


def _configure(cache: dict[str, Any]) -> None:
    for name, value in cache.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # JAX looks at these when it first compiles, and then no more


def _threads() -> int:
    """The number of threads in NPROC, which XLA reads as well; set to the number of cores where nobody has set it.

    Raises:
      DeviceError: when it is no number that XLA would take as it is written.
    """
    written = os.environ.get("NPROC")
    if written is None:
        os.environ["NPROC"] = str(cores())
        return cores()
    if not re.fullmatch(r"[0-9]{1,4}", written) or not 1 <= int(written) <= MOST_THREADS:
        problem = f"should be a number of threads, an integer from 1 to {MOST_THREADS}, found {ascii(written)[:80]}"
        raise DeviceError(
            f"environment variable NPROC: {problem}; correct it, or unset it for one thread per core"
        )
    return int(written)


def threads_in_force() -> int:
    """The size of XLA's thread pool: set by us, or found when we came too late."""
    fix_threads(None)
    return _in_force[0]


def platform() -> str:
    """Kind of the device that programs run on where nothing else is said: of the context's, or else of the first one."""
    device = getattr(jax.config, "jax_default_device", None)
    return (
        device
        if isinstance(device, str)
        else device.platform
        if device is not None
        else jax.default_backend()
    )


def _started() -> bool:
    """Whether a backend is in use already, asked without starting one."""
    from jax._src import xla_bridge  # the public ways of asking all start it

    return xla_bridge.backends_are_initialized()


def devices_of(asked: str | None) -> list:
    """The devices to compute on: all there are, or `cpu`, `gpu`, `gpu:0`, `gpu:0,2` (numbers count over all processes).

    Raises:
      DeviceError: when they are not there.
    """
    devices = _all_devices()
    if asked is None:
        return devices
    form = re.fullmatch(r"([a-z]+)(?::(\d+(?:,\d+)*))?", asked.lower())
    if not form:
        raise DeviceError(
            f"--device {asked}: write a kind such as cpu or gpu, and perhaps numbers, as gpu:0 or gpu:0,1"
        )
    try:
        devices = jax.devices(form[1])
    except RuntimeError:
        from jax.extend import backend  # which brings Pallas

        kinds = ", ".join(sorted(backend.backends()))
        raise DeviceError(
            f"--device {asked}: there is no {form[1]} here; there is {kinds}"
        ) from None
    numbers = [int(n) for n in form[2].split(",")] if form[2] else range(len(devices))
    missing = [n for n in numbers if n >= len(devices)]
    if missing or len(set(numbers)) < len(numbers):
        raise DeviceError(
            f"--device {asked}: there are {len(devices)} devices of that kind, numbered from 0"
        )
    return [devices[n] for n in numbers]


def _all_devices() -> list[Any]:
    """All devices of the default kind; JAX starts its backends here, as the environment asks it to.

    Raises:
      DeviceError: when it cannot.
    """
    if jax.config.values["jax_disable_jit"]:
        raise DeviceError("JAX_DISABLE_JIT is set, and a round is a compiled program; unset it")
    if not _started():
        _demand_flags()
    try:
        return jax.devices()
    except (RuntimeError, AssertionError, ValueError) as error:
        settings = ", ".join(
            f"{name}={ascii(os.environ[name])[1:81]}".rstrip("'")
            for name in NAMED
            if name in os.environ
        )
        message = " ".join(str(error).split())[:200] or type(error).__name__
        where = f"environment variable {settings}" if settings else "devices"
        problem = (
            "unset it, or name what is there (JAX_PLATFORMS=cpu)"
            if settings
            else "JAX_PLATFORMS=cpu computes on the CPU"
        )
        raise DeviceError(f"{where}: JAX cannot start: {message}; {problem}") from None


def _demand_flags() -> None:
    """Look whether XLA takes XLA_FLAGS, in a process of its own: of flags that it does not know it dies, with a page of help.

    Raises:
      DeviceError: when it does not.
    """
    if not os.environ.get("XLA_FLAGS"):
        return
    trial = [
        sys.executable,
        "-c",
        "from jaxlib import _jax; _jax.CompileOptions()",
    ]  # reads the flags, 0.2 s
    done = subprocess.run(
        trial, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
    )
    refusal = re.search(r"flags\w*\.cc:\d+\] (.*)", done.stderr)
    if done.returncode and refusal:
        raise DeviceError(
            f"environment variable XLA_FLAGS: {ascii(refusal[1])[1:-1][:200]}; correct it, or unset it"
        )


def memory_now() -> int:
    """Bytes of memory that this process holds."""
    return _status("VmRSS") or memory_peak()


def memory_peak() -> int:
    """The most bytes that this process ever held; not what its parent held, which `getrusage` would count as well."""
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> int:
    """A line of Linux' own account of this process, 0 where there is none."""
    try:
        line = re.search(
            rf"^{name}:\s*(\d+) kB", File("/proc/self/status").read_text(), re.MULTILINE
        )
    except OSError:
        return 0
    return int(line[1]) * 1024 if line else 0
