"""The environment of a run: what besides its scenario can change bits, and where it took place."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from fedsim._version import __version__
from fedsim.machine import memory_peak, threads_in_force
from fedsim.scenario.recorded_paths import with_relative_paths

PACKAGES = ("jax", "jaxlib", "numpy", "optax")  # another version of these may change bits
INSTRUCTIONS = ("avx", "avx2", "avx512f", "fma", "asimd", "sve")
HOST_DEVICES = r"--xla_force_host_platform_device_count=\S+"  # a flag that changes no bits


def numerical(devices: list) -> dict[str, Any]:
    """Everything besides the scenario that the bits of a run depend on: part of its identity."""
    device = devices[0]
    on_cpu = device.platform == "cpu"
    threads = max(threads_in_force(), len(jax.local_devices())) if on_cpu else None
    flags = re.sub(HOST_DEVICES, "", os.environ.get("XLA_FLAGS", "")).split()
    return {
        "fedsim": __version__,
        **{name: version(name) for name in PACKAGES},
        "backend": device.platform,
        "device": device.device_kind,
        "machine": platform.machine(),
        "instructions": instructions() if on_cpu else [],
        "threads": threads,
        "xla_flags": sorted(with_relative_paths(flag, ()) for flag in flags),
    }


def surroundings(devices: list, roots: Sequence[str] = ()) -> dict[str, Any]:
    """Where a run took place: recorded, without influence on its bits.

    Args:
      roots: folders that recorded paths are relative to.
    """
    flags = {}
    for name in sorted(os.environ):
        if name.startswith(("XLA_", "JAX_")):
            flags[name] = with_relative_paths(os.environ[name], roots)
    arguments = [with_relative_paths(word, roots) for word in sys.argv[1:]]
    return {
        "python": platform.python_version(),
        "pandas": version("pandas"),
        "platform": platform.platform(),
        "devices": [str(device) for device in devices],
        "cores": _cores(),
        "flags": flags,
        "git": _git(),
        "command": [_program(), *arguments],
    }


def _cores() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _program() -> str:
    """The name of the running program; `python -m fedsim` is `fedsim`."""
    path = Path(sys.argv[0])
    return path.parent.name if path.name == "__main__.py" else path.name


def memory(devices: list) -> dict[str, Any]:
    """Peak memory in bytes, of this process and of its devices."""
    process = jax.process_index()
    peaks = {str(device): _peak(device) for device in devices if device.process_index == process}
    return {"process_peak": memory_peak(), "devices": peaks}


def _peak(device: Any) -> int:
    """Peak memory of a device in bytes; where it does not record one, the memory in use now."""
    stats = device.memory_stats()
    if stats:
        return int(stats["peak_bytes_in_use"])
    in_use = 0
    for array in jax.live_arrays():
        for shard in array.addressable_shards:
            if shard.device == device:
                in_use += shard.data.nbytes
    return in_use


def instructions() -> list[str]:
    """The vector instructions that compiled code may use here."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return []
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    if flags is None:
        return []
    available = flags[1].split()
    return [name for name in INSTRUCTIONS if name in available]


def _git() -> dict[str, Any] | None:
    """Commit and dirty flag of the folder in which the run was started; None outside of git."""
    try:
        commit = _git_output("rev-parse", "HEAD").strip()
        changes = _git_output("status", "--porcelain").strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": bool(changes)}


def _git_output(*words: str) -> str:
    """What a git command prints; it takes no locks."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(
        ["git", *words], capture_output=True, text=True, timeout=5, check=True, env=environment
    )
    return done.stdout
