"""Names of the files and folders in a run directory."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

COMMITS = "checkpoints"
UPDATES = "updates"
MAX_CHARACTERS = 80  # of a name
DIGITS = 8  # of the hash in a name


def label_of(who: Mapping[str, Any]) -> str:
    """Method, variant and what was tuned, as one label.

    >>> label_of({"method": "median", "variant": "cohort.size=5"}), label_of({"method": "median"})
    ('median cohort.size=5', 'median')
    """
    return " ".join(who[name] for name in ("method", "variant", "tuned") if who.get(name))


class RunFiles(NamedTuple):
    """Where the runs of a run directory write: their folders and model files.

    Attributes:
      names: the part of their names that stands for a run, by label.
    """

    path: Path
    names: Mapping[str, str]

    def folder(self, label: str, seed: int) -> Path:
        """The folder of a run's log and commits."""
        return self.path / COMMITS / f"{self.names[label]}.{seed}"

    def updates(self, label: str, seed: int) -> Path:
        """The folder of the updates that a run keeps."""
        return self.path / UPDATES / f"{self.names[label]}.{seed}"

    def model(self, label: str, seed: int) -> Path:
        """The file of a run's final model."""
        return self.path / f"model.{self.names[label]}.{seed}.safetensors"


def run_files_of(path: Path, record: Mapping[str, Any]) -> RunFiles:
    """The files of a run directory's runs, by its record."""
    return RunFiles(path, names_in(record))


def names_of(labels: Iterable[str], earlier: Mapping[str, str] | None = None) -> dict[str, str]:
    """A distinct name for every label, also on file systems that ignore upper and lower case.

    A name is the label with a dash for whatever is neither a letter nor a digit. Where two labels
    would share a name, or it would have more than 80 characters, it ends with an underscore and a
    hash of the label, which no other name has.

    Args:
      labels: in any order, which changes nothing.
      earlier: names by label that are in the directory already; they stay.

    >>> names_of(["fedavg", "krum(f=1)"])
    {'fedavg': 'fedavg', 'krum(f=1)': 'krum-f-1'}
    >>> names_of(["krum_f_1", "krum(f=1)"])
    {'krum_f_1': 'krum-f-1_5852e9b0', 'krum(f=1)': 'krum-f-1_28a2d42b'}
    """
    names = dict(earlier or {})
    dashed = {label: _dashed(label) for label in labels if label not in names}
    counts = Counter(name.lower() for name in [*names.values(), *dashed.values()])
    for label, name in dashed.items():
        is_usable = 0 < len(name) <= MAX_CHARACTERS and counts[name.lower()] == 1
        names[label] = name if is_usable else _with_hash(label, name)
    return names


def names_in(record: Mapping[str, Any]) -> dict[str, str]:
    """The names in a run directory, by its record."""
    return names_of(labels_of(record), record["names"])


def labels_of(record: Mapping[str, Any]) -> list[str]:
    """The labels in a run directory: of a run its method, of a comparison its configurations."""
    if record.get("kind") != "compare":
        return [record["method"]]
    return list(dict.fromkeys(label_of(who) for who in record["cells"]))


def _dashed(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-")


def _with_hash(label: str, name: str) -> str:
    digest = hashlib.sha256(label.encode()).hexdigest()[:DIGITS]
    return f"{name[: MAX_CHARACTERS - DIGITS - 1].rstrip('-')}_{digest}"
