"""Everything outside the scenario that can make two runs differ, and where a run took place."""

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
from fedsim.scenario.places import scrubbed

EXACT = ("jax", "jaxlib", "numpy", "optax")  # another version of these may change bits
INSTRUCTIONS = ("avx", "avx2", "avx512f", "fma", "asimd", "sve")


def numerical(devices: list) -> dict[str, Any]:
    """Everything that the bits of a run depend on, besides its scenario: part of its identity."""
    flags = re.sub(
        r"--xla_force_host_platform_device_count=\S+", "", os.environ.get("XLA_FLAGS", "")
    ).split()
    return {
        "fedsim": __version__,
        **{name: version(name) for name in EXACT},
        "backend": devices[0].platform,
        "device": devices[0].device_kind,
        "machine": platform.machine(),
        "instructions": instructions() if devices[0].platform == "cpu" else [],
        "threads": max(threads_in_force(), len(jax.local_devices()))
        if devices[0].platform == "cpu"
        else None,
        "xla_flags": sorted(scrubbed(flag, ()) for flag in flags),
    }


def surroundings(devices: list, roots: Sequence[str] = ()) -> dict[str, Any]:
    """Where a run took place: recorded, and of no influence on its bits; `roots`: folders that its paths are told from."""
    return {
        "python": platform.python_version(),
        "pandas": version("pandas"),
        "platform": platform.platform(),
        "devices": [str(device) for device in devices],
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "flags": {
            name: scrubbed(os.environ[name], roots)
            for name in sorted(os.environ)
            if name.startswith(("XLA_", "JAX_"))
        },
        "git": _git(),
        "command": [_program(), *(scrubbed(word, roots) for word in sys.argv[1:])],
    }


def _program() -> str:
    """The name of the program that runs; `python -m fedsim` is `fedsim`."""
    path = Path(sys.argv[0])
    return path.parent.name if path.name == "__main__.py" else path.name


def memory(devices: list) -> dict[str, Any]:
    """Bytes in use: the peak of this process, and of each device its peak (where it does not say: its use now)."""
    peaks = {
        str(device): _peak(device)
        for device in devices
        if device.process_index == jax.process_index()
    }
    return {"process_peak": memory_peak(), "devices": peaks}


def _peak(device: Any) -> int:
    stats = device.memory_stats()
    if stats:
        return int(stats["peak_bytes_in_use"])
    shards = (
        shard
        for array in jax.live_arrays()
        for shard in array.addressable_shards
        if shard.device == device
    )
    return sum(shard.data.nbytes for shard in shards)


def instructions() -> list[str]:
    """The vector instructions that compiled code may use here."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return []
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return [name for name in INSTRUCTIONS if flags and name in flags[1].split()]


def _git() -> dict[str, Any] | None:
    """Commit and dirty flag of the folder the run was started in."""

    def ask(*words: str) -> str:
        quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
        return subprocess.run(
            ["git", *words], capture_output=True, text=True, timeout=5, check=True, env=quiet
        ).stdout

    try:
        return {
            "commit": ask("rev-parse", "HEAD").strip(),
            "dirty": bool(ask("status", "--porcelain").strip()),
        }
    except (OSError, subprocess.SubprocessError):
        return None
