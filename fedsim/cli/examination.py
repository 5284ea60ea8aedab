"""`fedsim doctor`: the environment of a run on this machine."""

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

from fedsim._version import __version__
from fedsim.machine import compile_cache, devices_of, threads_in_force
from fedsim.runs.environment import instructions, surroundings
from fedsim.sources import cache_folder

PACKAGES = (
    "jax", "jaxlib", "optax", "numpy", "scipy", "pandas", "pydantic", "click", "rich", "matplotlib", "safetensors",
)  # fmt: skip
OPTIONAL = ("scikit-learn", "flax", "equinox")


def examined() -> dict[str, Any]:
    """Versions, machine and settings, and `problems` that keep a run from working, or from speed."""
    threads, devices = threads_in_force(), devices_of(None)
    around = surroundings(devices)
    with compile_cache() as cache:
        pass
    versions = {name: _version(name) for name in (*PACKAGES, *OPTIONAL)}
    problems = [
        *_problems(devices, cache),
        *(f"{n} is not installed" for n, v in versions.items() if v == "missing"),
    ]
    compiled = [file.stat().st_size for file in Path(cache).glob("*")] if cache else []
    return {
        "versions": {"fedsim": __version__, "python": around["python"], **versions},
        "machine": {
            "platform": around["platform"],
            "cores": around["cores"],
            "instructions": instructions(),
            "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.1f} GB",
            "devices": [f"{d.platform}:{d.id} {d.device_kind}" for d in devices],
            "threads": threads,
        },
        "settings": {
            **(around["flags"] or {"flags": "none set"}),
            "compiled": f"{cache}: {len(compiled)} files, {sum(compiled) / 1e6:.1f} MB",
            "read data": _read_data(),
        },
        "problems": problems,
    }


def _read_data() -> str:
    """Where data that were read are kept, and how much of them."""
    sets = cache_folder.kept_sets()
    size = sum(kept.bytes for kept in sets)
    most = f"{cache_folder.most_bytes() / 1e6:,.1f} MB ({cache_folder.VARIABLE})"
    return (
        f"{cache_folder.place()}: {cache_folder.counted(sets)}, {size / 1e6:,.1f} of at most {most}"
    )


def _problems(devices: list, cache: str | None) -> list[str]:
    problems = []
    for device in devices:
        try:
            jax.block_until_ready(jax.device_put(1.0, device) + 1)
        except Exception as error:
            problems.append(f"{device} does not compute: {str(error).splitlines()[0]}")
    if cache is None or not os.access(cache, os.W_OK):
        problems.append(
            f"every process compiles its programs anew: no cache that can be written ({cache})"
        )
    if devices[0].platform == "cpu" and Path("/proc/driver/nvidia").exists():
        problems.append(
            "there is an NVIDIA driver, and JAX has no CUDA plug-in: pip install 'jax[cuda12]'"
        )
    return problems


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed" if name in OPTIONAL else "missing"


def examination(findings: dict[str, Any]) -> None:
    """The environment of a run, a line each; then the problems, or that there are none."""
    for heading, lines in findings.items():
        if isinstance(lines, dict):
            print(heading)
            for name, value in lines.items():
                print(
                    f"  {name:<14} {', '.join(map(str, value)) if isinstance(value, list) else value}"
                )
    for problem in findings["problems"]:
        print(f"problem: {problem}")
    if not findings["problems"]:
        print("no problems found")
