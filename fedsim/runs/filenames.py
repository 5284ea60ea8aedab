"""Names of files and folders of a run directory."""

import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

COMMITS = "checkpoints"
LONGEST = 80  # characters of a name
DIGITS = 8  # of the hash in a name


def label_of(who: Mapping[str, Any]) -> str:
    """Method, variant and what was tuned, as one label.

    >>> label_of({"method": "median", "variant": "cohort.size=5"}), label_of({"method": "median"})
    ('median cohort.size=5', 'median')
    """
    return " ".join(who[name] for name in ("method", "variant", "tuned") if who.get(name))


class Layout(NamedTuple):
    """Where the runs of a directory have their files.

    Attributes:
      path: of the run directory.
      names: of the runs by label, for files and folders.
    """

    path: Path
    names: Mapping[str, str]

    def folder(self, label: str, seed: int) -> Path:
        """The folder of a run's log and commits."""
        return self.path / COMMITS / f"{self.names[label]}.{seed}"

    def model(self, label: str, seed: int) -> Path:
        """The file of a run's final model."""
        return self.path / f"model.{self.names[label]}.{seed}.safetensors"


def layout_of(path: Path, record: Mapping[str, Any]) -> Layout:
    """The layout of a run directory, by its record."""
    return Layout(path, names_in(record))


def names_of(labels: Iterable[str], known: Mapping[str, str] | None = None) -> dict[str, str]:
    """A name for every label, all of them different, whether or not a file system tells apart small and capital letters.

    A name is the label with a dash for whatever is no letter or digit; where two labels would share one, or it would be
    longer than 80 characters, with a hash of the label behind an underscore, which no other name has.

    Args:
      labels: in any order, which changes nothing.
      known: names by label of what is in the directory already; they stay.

    >>> names_of(["fedavg", "krum(f=1)"])
    {'fedavg': 'fedavg', 'krum(f=1)': 'krum-f-1'}
    >>> names_of(["krum_f_1", "krum(f=1)"])
    {'krum_f_1': 'krum-f-1_5852e9b0', 'krum(f=1)': 'krum-f-1_28a2d42b'}
    """
    names = dict(known or {})
    plain = {label: _dashed(label) for label in labels if label not in names}
    wanted = Counter(name.lower() for name in [*names.values(), *plain.values()])
    for label, name in plain.items():
        if not name or len(name) > LONGEST or wanted[name.lower()] > 1:
            name = _with_hash(label, name)
        names[label] = name
    return names


def names_in(record: Mapping[str, Any]) -> dict[str, str]:
    """The names in a run directory, by its record.

    Before 0.6.0 records had none, and a name was made of its label alone. What two labels shared then is nobody's now.
    """
    labels = labels_of(record)
    if "names" in record:
        return names_of(labels, record["names"])
    slugs = {label: _before_0_6_0(label) for label in labels}
    owners = Counter(slugs.values())
    return names_of(labels, {label: name for label, name in slugs.items() if owners[name] == 1})


def labels_of(record: Mapping[str, Any]) -> list[str]:
    """The labels of a run directory, by its record: of a run its method, of a comparison its configurations."""
    if record.get("kind") != "compare":
        return [record["method"]]
    return list(dict.fromkeys(label_of(who) for who in record["cells"]))


def _dashed(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-")


def _with_hash(label: str, name: str) -> str:
    digest = hashlib.sha256(label.encode()).hexdigest()[:DIGITS]
    return f"{name[: LONGEST - DIGITS - 1].rstrip('-')}_{digest}"


PLAIN = re.compile(
    r"\w+(\(\w+=[\w.]+(,\w+=[\w.]+)*,?\))?", re.ASCII
)  # labels without a hash before 0.6.0


def _before_0_6_0(label: str) -> str:
    text = _dashed(label)
    return text if PLAIN.fullmatch(label) else f"{text[:80]}-{zlib.crc32(label.encode()):08x}"
