"""The run directory: who may write there, its `run.json`, and its models."""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import yaml
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from fedsim.disk import files
from fedsim.errors import DataError, DirectoryError
from fedsim.installed import added
from fedsim.runs.filenames import RunFiles, names_in, names_of
from fedsim.runs.lock import LOCK, demand_free, held
from fedsim.runs.record_form import malformed
from fedsim.runs.untrusted import demand_plausible_size, demand_regular_files
from fedsim.sources.files import require_few_lists

RECORD = "run.json"
SCENARIO = "scenario.yaml"
LIVE = "live.html"  # written by whoever watches an unfinished run, and not part of the run

# Sections whose names in a model file differ from those in memory.
NAMES_IN_FILES = {"stats": "state", "aux/probe": "aux/first"}


class RunDirectory(NamedTuple):
    """A run directory that this process has locked for writing.

    Attributes:
      before: the record of the run that resumes there; None for a new one.
    """

    path: Path
    before: dict[str, Any] | None

    @property
    def threads(self) -> int | None:
        """The threads of the run that resumes."""
        if self.before is None:
            return None
        return self.before["environment"].get("threads")

    def run_files(self, labels: Iterable[str]) -> RunFiles:
        """File names of the runs with these labels; those of the run that resumes stay."""
        earlier_names = {} if self.before is None else names_in(self.before)
        return RunFiles(self.path, names_of(labels, earlier_names))

    def stamp(self, record: dict[str, Any]) -> None:
        """Write into a record when the run began, in UTC."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        record["started"] = now if self.before is None else self.before["started"]

    def add_fork(self, record: dict[str, Any], fork: dict[str, Any] | None) -> None:
        """Write into a record which run it goes on from; one that resumes may know it alone."""
        if fork is None and self.before is not None:
            fork = self.before.get("fork")
        if fork is not None:
            record["fork"] = fork

    def elapsed(self, started: float) -> float:
        """Wall seconds of the run: those that it had when it resumed, and those since `started`."""
        before = self.before or {}
        return before.get("wall_seconds", 0.0) + time.monotonic() - started

    def seal(self, record: dict[str, Any], started: float) -> None:
        """Write the record with the wall seconds and the hashes of all files, which completes it.

        Args:
          started: when this process started the run, by `time.monotonic`.
        """
        beside = {name for _, names in added("BESIDE") for name in names}
        hashed = hashes(self.path, beside)
        wall_seconds = self.elapsed(started)
        write_record(self.path, {**record, "wall_seconds": wall_seconds, "files": hashed})


@contextlib.contextmanager
def open_run_directory(
    out: str | os.PathLike[str] | None, force: bool, resume: bool
) -> Iterator[RunDirectory | None]:
    """Lock a run directory while a run writes there; None when nothing is to be written.

    A directory that was made for this, and in which no run was started, is removed at the end.
    """
    if out is None:
        yield None
        return
    path = Path(out)
    _admitted(path, force, resume)
    with held(path), files.reporting_os_errors(path):
        # Checked again: another process may have written there before the lock.
        record = _admitted(path, force, resume)
        yield RunDirectory(path, record if resume else None)


@contextlib.contextmanager
def open_output_folder(path: Path, names: Iterable[str], force: bool) -> Iterator[None]:
    """Lock a folder that is no run while files are written there, which replace nobody's.

    Raises:
      DirectoryError: when it holds a run or, without `force`, such a file; or cannot be written.
    """
    if (path / RECORD).exists():
        raise DirectoryError(f"{path}: is a run, which stays as it is; choose another --out")
    with held(path), files.reporting_os_errors(path):
        for name in names:
            if os.path.lexists(path / name) and not force:
                ways = "--force (in Python force=True) replaces it, or choose another --out"
                raise DirectoryError(f"{path / name}: already exists; {ways}")
        yield


def _admitted(path: Path, force: bool, resume: bool) -> dict[str, Any] | None:
    """Check without a change that a run may be written into a directory -> its record, if any."""
    with files.reporting_os_errors(path):
        names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    has_record = RECORD in names
    if has_record and (force or resume):
        demand_regular_files(path)
    record = read_record(path) if has_record else None
    if record is not None and force and resume:
        raise DirectoryError(
            f"{path}: --resume continues a run and --force replaces it; give only one of them"
        )

    started = [
        name for name in names if name != LOCK and not name.endswith(files.UNFINISHED_SUFFIX)
    ]
    if started and not has_record and (force or resume):
        raise DirectoryError(
            f"{path}: holds no fedsim run ({started[0]} ...); choose another --out"
        )
    if started and not (force or resume):
        demand_free(path)
        ways = (
            "use --resume (in Python resume=True) to continue it, --force (force=True) to replace "
            "it, or --out (out=) for another directory"
        )
        raise DirectoryError(f"{path}: already exists; {ways}")
    if has_record and not force:
        _demand_sound(path, record, "--force starts over")
    return record


def start(path: Path, record: dict[str, Any], scenario: dict[str, Any], replace: bool) -> None:
    """Write record and scenario of a run that starts.

    Args:
      replace: whether everything that is there is deleted before, the earlier record last.
    """
    if replace:
        with files.reporting_os_errors(path):
            entries = sorted(path.iterdir())
        for entry in entries:
            if entry.name not in (LOCK, RECORD):
                files.remove(entry)
        with files.reporting_os_errors(path):
            files.sync_folder(path)
        files.remove(path / RECORD)
    write_record(path, record)
    files.write(path / SCENARIO, yaml_of(scenario))


def read_record(path: Path) -> dict[str, Any] | None:
    """The `run.json` of a directory; None when it is not what was written.

    Raises:
      DirectoryError: when there is none, or it cannot be read.
    """
    file = path / RECORD
    try:
        if file.exists() and not file.is_file():
            raise DirectoryError(f"{file}: is not a regular file")
        content = file.read_bytes()
        require_few_lists(content)
        text = content.decode()
        record = json.loads(text)
        return record if _record_text(record) == text else None
    except DirectoryError:
        raise
    except FileNotFoundError:
        raise DirectoryError(f"{path}: holds no fedsim run") from None
    except OSError as error:
        raise DirectoryError(f"{file}: {error.strerror}") from None
    except (DataError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def sound_record(path: Path) -> dict[str, Any]:
    """The `run.json` of a directory that may be a stranger's, checked entry by entry.

    Raises:
      DirectoryError: when there is none, it is damaged, or something in the directory leads
        elsewhere.
    """
    demand_regular_files(path)
    return _demand_sound(path, read_record(path), "fedsim verify tells what is wrong")


def _demand_sound(path: Path, record: dict[str, Any] | None, advice: str) -> dict[str, Any]:
    """Refuse a record that is not what was written, or has entries that no run writes."""
    if record is None:
        reason = "its SHA-256 does not match"
    else:
        entries = malformed(record)
        if not entries:
            return record
        reason = f"{entries[0]} is not what a run writes there"
    raise DirectoryError(f"{path / RECORD}: is damaged ({reason}); {advice}")


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write `run.json`, with a hash over itself."""
    plain = json.loads(json.dumps(record, default=str))
    files.write(path / RECORD, _record_text(plain))


def _record_text(record: dict[str, Any]) -> str:
    """The text of a record, which is unique."""
    body = {name: value for name, value in record.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return json.dumps({**body, "sha256": digest}, indent=2) + "\n"


def hashes(path: Path, excluded: Collection[str] = ()) -> dict[str, str]:
    """The SHA-256 of every file of a run by relative name, but for record, lock and live page.

    Args:
      excluded: names of its files and folders that are not part of the run.
    """
    with files.reporting_os_errors(path):
        entries = [entry for entry in sorted(path.rglob("*")) if entry.is_file()]
    hashed = {}
    for entry in entries:
        relative = entry.relative_to(path)
        name = str(relative)
        if name in (RECORD, LOCK) or name.startswith(LIVE) or relative.parts[0] in excluded:
            continue
        hashed[name] = files.sha256(entry)
    return hashed


def yaml_of(values: Any) -> str:
    """The text of plain values in YAML, keys in their order."""
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def write_model(path: Path, variables: Any) -> None:
    """Write shared variables as safetensors: a tensor per leaf, named `params/layer0/W`."""
    tensors = {}
    for key_path, leaf in jax.tree_util.tree_leaves_with_path(variables):
        tensors[_tensor_name(key_path)] = np.asarray(leaf, order="C")
    files.write(path, safetensors.save(tensors))


def load_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a `model.*.safetensors` of a run directory.

    Args:
      path: the file, or a run directory with a single one.

    Returns:
      Nested dictionaries of NumPy arrays: `["params"]["layer0"]["W"]`, and `["state"]` where the
      model has one. `fedsim.run(..., params=)` takes them as they are.

    Raises:
      DirectoryError: for a file that is not a model, and a directory with none or several; nothing
        in a file is ever executed.
    """
    nested: dict[str, Any] = {}
    for name, array in _read_tensors(_model_file(Path(path))).items():
        *sections, last = name.split("/")
        mapping = nested
        for section in sections:
            mapping = mapping.setdefault(section, {})
            if not isinstance(mapping, dict):
                raise DirectoryError(f"{path}: is not a model: {name!a} lies inside another tensor")
        mapping[last] = array
    return nested


def _model_file(path: Path) -> Path:
    """The file itself, or the only model of a directory."""
    if not path.is_dir():
        return path
    models = sorted(path.glob("model.*.safetensors"))
    if len(models) == 1:
        return models[0]
    if not models:
        raise DirectoryError(f"{path}: has no model.*.safetensors")
    raise DirectoryError(f"{path}: has {len(models)} models; name one, such as {models[0]}")


def _read_tensors(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a model file by name."""
    if path.exists():
        if not path.is_file():
            raise DirectoryError(f"{path}: is not a regular file")
        demand_plausible_size(path, path.stat().st_size)
    try:
        return safetensors.load_file(path)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        reason = ascii(str(error))[1:-1][:200]
        raise DirectoryError(f"{path}: is not a model: {reason}") from None


def _tensor_name(key_path: tuple) -> str:
    """The name of a tensor in a file; two sections keep the names of the first versions."""
    name = jax.tree_util.keystr(key_path, simple=True, separator="/")
    for section, name_in_file in NAMES_IN_FILES.items():
        if name == section or name.startswith(f"{section}/"):
            return name_in_file + name.removeprefix(section)
    return name
