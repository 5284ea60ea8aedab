"""The run directory: every file is whole or absent, never torn."""

import json
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
import yaml
from safetensors import numpy as safetensors

from fedsim import __version__

RECORD = "run.json"


class DirectoryError(OSError):
    """A run directory that cannot be used (exit code 4)."""


def demand_vacant(path: Path, force: bool) -> None:
    """Look before anything is computed whether a run may be written here.

    Raises:
      DirectoryError: when there is something already, unless `force` may replace an earlier run.
    """
    if path.exists() and not path.is_dir():
        raise DirectoryError(f"{path}: is not a directory; choose another --out")
    if path.is_dir() and any(path.iterdir()):
        if not force:
            raise DirectoryError(f"{path}: exists already; use --force to replace the run, or --out for another place")
        if not (path / RECORD).exists():
            raise DirectoryError(f"{path}: holds no fedsim run, --force will not delete it; choose another --out")


def claim(path: Path, force: bool) -> None:
    """Make an empty run directory, after the build and before the first round.

    Raises:
      DirectoryError: as `demand_vacant`.
    """
    demand_vacant(path, force)
    shutil.rmtree(path, ignore_errors=not path.exists())
    path.mkdir(parents=True, exist_ok=True)


def write(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader sees all of it or none: a temporary name, fsync, rename, fsync of the folder."""
    beside = path.with_name(path.name + ".tmp")
    data = content.encode() if isinstance(content, str) else content
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: Path, values: Any) -> None:
    """Readable JSON."""
    write(path, json.dumps(values, indent=2, sort_keys=False, default=str) + "\n")


def write_yaml(path: Path, values: Any) -> None:
    """Readable YAML in the given order."""
    write(path, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))


def write_model(path: Path, variables: Any) -> None:
    """Shared variables as safetensors, one tensor per leaf, named by its path (`params/layer0/W`)."""
    leaves = jax.tree_util.tree_leaves_with_path(variables)
    write(path, safetensors.save({_slashed(p): np.ascontiguousarray(leaf) for p, leaf in leaves}))


def load_model(path: str | os.PathLike) -> dict[str, Any]:
    """Read a `model.*.safetensors` back: nested dictionaries of NumPy arrays (`["params"]["layer0"]["W"]`)."""
    nested: dict[str, Any] = {}
    for name, array in safetensors.load_file(path).items():
        *above, last = name.split("/")
        here = nested
        for part in above:
            here = here.setdefault(part, {})
        here[last] = array
    return nested


def environment() -> dict[str, Any]:
    """Everything outside the scenario that can make two runs differ in bits."""
    packages = ("jax", "jaxlib", "numpy", "optax", "pandas")
    return {
        "fedsim": __version__,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "backend": jax.default_backend(),
        "devices": [str(device) for device in jax.devices()],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "flags": {name: value for name, value in sorted(os.environ.items()) if name.startswith(("XLA_", "JAX_"))},
        "git": _git(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def _git() -> dict[str, Any] | None:
    """Commit and dirty flag of the folder the run was started in."""

    def ask(*words: str) -> str:
        quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
        return subprocess.run(["git", *words], capture_output=True, text=True, timeout=5, check=True, env=quiet).stdout

    try:
        return {"commit": ask("rev-parse", "HEAD").strip(), "dirty": bool(ask("status", "--porcelain").strip())}
    except (OSError, subprocess.SubprocessError):
        return None


def _slashed(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
