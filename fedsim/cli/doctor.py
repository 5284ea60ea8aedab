"""`fedsim doctor`: the environment of a run on this machine."""

import json
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from fedsim._version import __version__
from fedsim.cli import options
from fedsim.cli.screen import rows_of_terms, wrapped

PACKAGES = (
    "jax", "jaxlib", "optax", "numpy", "scipy", "pandas", "pydantic", "click", "rich", "matplotlib",
    "safetensors",
)  # fmt: skip
OPTIONAL = ("scikit-learn", "flax", "equinox")


@click.command("doctor")
@options.as_json("what was found")
@options.debug
def doctor_command(as_json: bool) -> None:
    """Show what a run would use here: versions, devices, threads, memory, and what is missing.

    \b
    Examples:
      fedsim doctor
      fedsim doctor --json
    """
    findings = examine()
    if as_json:
        click.echo(json.dumps(findings))
    else:
        print_findings(findings)


def examine() -> dict[str, Any]:
    """Return versions, machine and settings, and `problems` that prevent a run or slow it down."""
    from fedsim.machine import compile_cache, devices_of, threads_in_force
    from fedsim.runs.environment import instructions, surroundings

    # First, since the size of JAX's thread pool is fixed once its devices are known.
    threads = threads_in_force()
    devices = devices_of(None)
    around = surroundings(devices)
    with compile_cache() as cache:
        pass

    versions = {name: _version(name) for name in (*PACKAGES, *OPTIONAL)}
    problems = _problems(devices, cache)
    problems += [f"{name} is not installed" for name in versions if versions[name] == "missing"]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "versions": {"fedsim": __version__, "python": around["python"], **versions},
        "machine": {
            "platform": around["platform"],
            "cores": around["cores"],
            "instructions": instructions(),
            "memory": f"{memory / 1e9:.1f} GB",
            "devices": [f"{d.platform}:{d.id} {d.device_kind}" for d in devices],
            "threads": threads,
        },
        "settings": {
            **(around["flags"] or {"flags": "none set"}),
            "compiled": _compiled(cache),
        },
        "problems": problems,
    }


def _compiled(cache: str | None) -> str:
    sizes = [file.stat().st_size for file in Path(cache).glob("*")] if cache else []
    return f"{cache}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB"


def _problems(devices: list, cache: str | None) -> list[str]:
    import jax

    problems: list[str] = []
    for device in devices:
        try:
            jax.block_until_ready(jax.device_put(1.0, device) + 1)
        except Exception as error:
            problems.append(f"{device} does not compute: {str(error).splitlines()[0]}")
    if cache is None or not os.access(cache, os.W_OK):
        problems.append(
            f"every process compiles its programs again: the cache ({cache}) is not writable"
        )
    if devices[0].platform == "cpu" and Path("/proc/driver/nvidia").exists():
        problems.append(
            "there is an NVIDIA driver, but JAX has no CUDA plug-in: pip install 'jax[cuda12]'"
        )
    return problems


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed" if name in OPTIONAL else "missing"


def print_findings(findings: dict[str, Any]) -> None:
    """Print the environment of a run, a line each; then the problems, or that there are none."""
    for heading, values in findings.items():
        if not isinstance(values, dict):
            continue
        print(heading)
        terms = []
        for name, value in values.items():
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            terms.append((name, text))
        print(rows_of_terms(terms, column=14))
    for problem in findings["problems"]:
        print(wrapped(f"problem: {problem}", hanging="  "))
    if not findings["problems"]:
        print("no problems found")
