"""The machine: its devices, the compile cache, memory, and how many threads XLA computes with.

The number of threads changes bits of large products.
"""

import contextlib
import gc
import os
import re
import resource
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from fedsim.errors import DeviceError

MAX_THREADS = 1024  # as in `numerics.threads`

# Environment variables that decide which devices there are.
DEVICE_VARIABLES = (
    "JAX_PLATFORMS",
    "JAX_PLATFORM_NAME",
    "JAX_NUM_CPU_DEVICES",
    "XLA_FLAGS",
)

# Settings of JAX under which the compile cache stores every program.
CACHE_ALL = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}

_in_force: list[int] = []  # the number of threads, once the backend was used


def cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fix_threads(wanted: int | None) -> None:
    """Give XLA's thread pool a size, if its backend has not been used yet.

    Args:
      wanted: threads; None: as NPROC says, or the number of cores.
    """
    if not _in_force:
        if wanted and not _started():
            os.environ["NPROC"] = str(wanted)
        _in_force.append(_threads())
    if wanted and wanted != _in_force[0]:
        text = f"XLA runs with {_in_force[0]} threads in this process since its first use"
        reason = "the bits of large products depend on it"
        warnings.warn(f"{text}, {wanted} were asked for; {reason}", stacklevel=2)


def threads_in_force() -> int:
    """Return the size of XLA's thread pool, which is fixed by now if it was not before."""
    fix_threads(None)
    return _in_force[0]


def _threads() -> int:
    """The number of threads in NPROC, which XLA reads as well; the number of cores by default.

    Raises:
      DeviceError: for a number that XLA would not take as it is written.
    """
    text = os.environ.get("NPROC")
    if text is None:
        os.environ["NPROC"] = str(cores())
        return cores()
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= MAX_THREADS:
        expected = f"should be a number of threads, an integer from 1 to {MAX_THREADS}"
        remedy = "correct it, or unset it for one thread per core"
        raise DeviceError(
            f"environment variable NPROC: {expected}, found {ascii(text)[:80]}; {remedy}"
        )
    return int(text)


def forget_programs(share: float = 0.5) -> None:
    """Clear JAX's compiled programs once this process uses a share of its memory maps.

    XLA needs several maps for each program, and aborts where none are left (of 65,530 on Linux).
    Programs that are needed again are compiled again.
    """
    maps = Path("/proc/self/maps")
    most = Path("/proc/sys/vm/max_map_count")
    if not maps.exists() or not most.exists():
        return
    if maps.read_bytes().count(b"\n") > share * int(most.read_text()):
        jax.clear_caches()
        gc.collect()


@contextlib.contextmanager
def compile_cache() -> Iterator[str | None]:
    """Cache compiled programs in the user's cache folder, in this context.

    Where the user or the host program has decided about that, their decision stays.

    Yields:
      the folder; None where there is none.
    """
    decided = jax.config.values["jax_compilation_cache_dir"]
    if decided is not None or "JAX_ENABLE_COMPILATION_CACHE" in os.environ:
        yield decided
        return

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "fedsim" / "xla"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:  # a cache is a convenience
        yield None
        return

    before = {name: jax.config.values[name] for name in CACHE_ALL}
    _configure({**CACHE_ALL, "jax_compilation_cache_dir": str(folder)})
    try:
        yield str(folder)
    finally:
        _configure({**before, "jax_compilation_cache_dir": None})


def _configure(settings: dict[str, Any]) -> None:
    """Set JAX's configuration of the compile cache."""
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # JAX reads these settings only when it first compiles


def platform() -> str:
    """Return the kind of the device that programs run on by default: in this context, or at all."""
    device = getattr(jax.config, "jax_default_device", None)
    if device is None:
        return jax.default_backend()
    return device if isinstance(device, str) else device.platform


def devices_of(asked: str | None) -> list:
    """Return the devices to compute on.

    Args:
      asked: `cpu`, `gpu`, `gpu:0`, `gpu:0,2` (numbers count over all processes); None: all devices.

    Raises:
      DeviceError: when they do not exist.
    """
    devices = _all_devices()
    if asked is None:
        return devices
    form = re.fullmatch(r"([a-z]+)(?::(\d+(?:,\d+)*))?", asked.lower())
    if not form:
        remedy = "write a kind such as cpu or gpu, and perhaps numbers, as gpu:0 or gpu:0,1"
        raise DeviceError(f"--device {asked}: {remedy}")

    kind, numbers_text = form.groups()
    try:
        devices = jax.devices(kind)
    except RuntimeError:
        from jax.extend import backend  # which brings Pallas

        kinds = ", ".join(sorted(backend.backends()))
        text = f"there is no {kind} here; there is {kinds}"
        if kind in ("gpu", "cuda"):
            text = f"{text}; NVIDIA's GPUs need pip install -U 'jax[cuda12]'"
        raise DeviceError(f"--device {asked}: {text}") from None

    if numbers_text is None:
        return list(devices)
    numbers = [int(number) for number in numbers_text.split(",")]
    repeated = len(set(numbers)) < len(numbers)
    if repeated or max(numbers) >= len(devices):
        text = f"there are {len(devices)} devices of that kind, numbered from 0"
        raise DeviceError(f"--device {asked}: {text}")
    return [devices[number] for number in numbers]


def _all_devices() -> list[Any]:
    """All devices of the default kind; JAX starts its backends here, as the environment asks.

    Raises:
      DeviceError: when it cannot.
    """
    if jax.config.values["jax_disable_jit"]:
        raise DeviceError("JAX_DISABLE_JIT is set, and a round is a compiled program; unset it")
    if not _started():
        _require_known_flags()
    try:
        return jax.devices()
    except (RuntimeError, AssertionError, ValueError) as error:
        raise DeviceError(_start_problem(error)) from None


def _start_problem(error: Exception) -> str:
    """Why JAX cannot start, naming the environment variables that decide about devices."""
    message = " ".join(str(error).split())[:200] or type(error).__name__
    settings = []
    for name in DEVICE_VARIABLES:
        if name in os.environ:
            quoted = ascii(os.environ[name])
            settings.append(f"{name}={quoted[1:81]}".rstrip("'"))
    if not settings:
        return f"devices: JAX cannot start: {message}; JAX_PLATFORMS=cpu computes on the CPU"
    variables = f"environment variable {', '.join(settings)}"
    remedy = "unset it, or name what is there (JAX_PLATFORMS=cpu)"
    return f"{variables}: JAX cannot start: {message}; {remedy}"


def _started() -> bool:
    """Whether a backend is in use already, without starting one."""
    from jax._src import xla_bridge  # the public ways of asking all start it

    return xla_bridge.backends_are_initialized()


def _require_known_flags() -> None:
    """Refuse an XLA_FLAGS that XLA does not know.

    It is tried in another process, because XLA ends a process with such flags and prints a page of
    help.

    Raises:
      DeviceError: naming the flag.
    """
    if not os.environ.get("XLA_FLAGS"):
        return
    read_flags = "from jaxlib import _jax; _jax.CompileOptions()"  # takes 0.2 s
    done = subprocess.run(
        [sys.executable, "-c", read_flags],
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
    )
    refusal = re.search(r"flags\w*\.cc:\d+\] (.*)", done.stderr)
    if done.returncode and refusal:
        reason = ascii(refusal[1])[1:-1][:200]
        text = f"environment variable XLA_FLAGS: {reason}"
        raise DeviceError(f"{text}; correct it, or unset it")


def memory_now() -> int:
    """Return the bytes of memory that this process holds."""
    return _status_bytes("VmRSS") or memory_peak()


def memory_peak() -> int:
    """Return the most bytes that this process ever held.

    `getrusage`, which also counts what its parent held, is the fallback.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    return _status_bytes("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status_bytes(name: str) -> int:
    """A number in Linux' account of this process; 0 where there is none."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    line = re.search(rf"^{name}:\s*(\d+) kB", status, re.MULTILINE)
    return int(line[1]) * 1024 if line else 0
