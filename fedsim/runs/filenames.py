"""Names of files and folders of a run directory."""

import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COMMITS = "checkpoints"
PLAIN = re.compile(r"\w+(\(\w+=[\w.]+(,\w+=[\w.]+)*,?\))?", re.ASCII)  # labels whose slugs differ when they do


def label_of(who: Mapping[str, Any]) -> str:
    """Method, variant and what was tuned, as one label.

    >>> label_of({"method": "median", "variant": "cohort.size=5"}), label_of({"method": "median"})
    ('median cohort.size=5', 'median')
    """
    return " ".join(who[name] for name in ("method", "variant", "tuned") if who.get(name))


def slug(label: str) -> str:
    """A label as part of a file name; where another label could give the same, with a hash of it.

    >>> slug("fedprox(mu=0.1)"), slug("fedprox(mu=-0.1)")
    ('fedprox-mu-0-1', 'fedprox-mu-0-1-3da1091f')
    """
    text = re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-")
    return text if PLAIN.fullmatch(label) else f"{text[:80]}-{zlib.crc32(label.encode()):08x}"


def model_file(label: str, seed: int) -> str:
    """The file of a final model."""
    return f"model.{slug(label)}.{seed}.safetensors"


def folder_of(path: Path, label: str, seed: int) -> Path:
    """The folder of a seed's log and commits in a run directory; `label` of the method, and variant if there is one."""
    return path / COMMITS / f"{slug(label)}.{seed}"
