"""`ro-crate-metadata.json` of a bundle: what its files are, in the terms of RO-Crate 1.1.

References:
  Soiland-Reyes et al. 2022, Packaging research artefacts with RO-Crate, Data Science 5(2);
  https://w3id.org/ro/crate/1.1. Runs are actions as in its section on provenance.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

CRATE = "ro-crate-metadata.json"
SPECIFICATION = "https://w3id.org/ro/crate/1.1"
SOFTWARE = "https://pypi.org/project/fedsim-jax/"
UNKNOWN_DATE = "1980-01-01"  # of runs that were recorded before records had dates
NO_LICENSE = "None was given: ask the authors before you use this."

# The media type of a file by the end of its name.
MEDIA_TYPES = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".py": "text/x-python",
    ".svg": "image/svg+xml",
    ".tex": "application/x-tex",
    ".txt": "text/plain",
    ".yaml": "application/yaml",
}
INPUTS = ("data/", "plugins/")  # folders of what runs read
MAX_NAME = 400  # characters
DRIVE = re.compile(r"[A-Za-z]:")
OTHER_TYPE = "application/octet-stream"


def fault_in_name(name: str) -> str:
    """What is wrong with the name of a file in a bundle; empty where anybody can unpack it."""
    parts = name.removesuffix("/").split("/")
    if len(name) > MAX_NAME or not name.isprintable() or "\\" in name or DRIVE.match(name):
        return "is not the name of a file of a bundle"
    if {"", ".", ".."} & {*parts}:
        return "leads out of the bundle"
    return ""


class Packed(NamedTuple):
    """A file of a bundle.

    Attributes:
      name: its name in the bundle.
      what: what it is.
      content: its bytes.
      sha256: their hash.
    """

    name: str
    what: str
    content: bytes
    sha256: str


class LeftOut(NamedTuple):
    """Something that belongs to the runs and is not in the bundle.

    Attributes:
      name: its name.
      size: its bytes; None where they are not known.
      sha256: its hash; empty where it is not known.
      why: the reason.
    """

    name: str
    size: int | None
    sha256: str
    why: str


class PackedRun(NamedTuple):
    """A run or a comparison of a bundle.

    Attributes:
      name: the name of its folder.
      record: its record.
    """

    name: str
    record: Mapping[str, Any]


def crate_of(
    runs: Sequence[PackedRun],
    packed: Sequence[Packed],
    left_out: Sequence[LeftOut],
    license: str | None,
) -> str:
    """The text of `ro-crate-metadata.json`.

    Args:
      runs: the runs.
      packed: all other files, which are data entities.
      left_out: what is named by its hash alone.
      license: a text, or the address of one; None: nobody has said.
    """
    licensed = _license(license)
    actions = [_action(run, packed) for run in runs]
    elsewhere = [_elsewhere(item) for item in left_out if item.sha256]
    names = ", ".join(run.name for run in runs)
    dates = [str(run.record.get("started") or UNKNOWN_DATE)[:10] for run in runs]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"fedsim: {names}",
        "description": f"Federated-learning simulations, and what repeats them: {names}",
        "datePublished": max(dates),
        "license": {"@id": licensed["@id"]},
        "hasPart": _references([quote(file.name) for file in packed]),
        "mentions": _references([entity["@id"] for entity in [*actions, *elsewhere]]),
    }
    descriptor = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": SPECIFICATION},
        "about": {"@id": "./"},
    }
    parts = map(_file, packed)
    graph = [descriptor, root, licensed, *parts, *_software(runs), *actions, *elsewhere]
    values = {"@context": f"{SPECIFICATION}/context", "@graph": graph}
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def _license(license: str | None) -> dict[str, Any]:
    """The entity of the license."""
    text = license or NO_LICENSE
    is_address = text.startswith(("https://", "http://"))
    identifier = text if is_address else "#license"
    return {"@id": identifier, "@type": "CreativeWork", "name": text, "description": "the license"}


def _references(identifiers: Sequence[str]) -> Any:
    """References to entities; a single one is no list."""
    references = [{"@id": identifier} for identifier in identifiers]
    return references[0] if len(references) == 1 else references


def _file(file: Packed) -> dict[str, Any]:
    """The entity of a file."""
    ending = file.name[file.name.rfind(".") :] if "." in file.name else ""
    return {
        "@id": quote(file.name),
        "@type": "File",
        "name": file.name.rpartition("/")[2],
        "description": file.what,
        "contentSize": str(len(file.content)),
        "encodingFormat": MEDIA_TYPES.get(ending, OTHER_TYPE),
        "sha256": file.sha256,
    }


def _elsewhere(item: LeftOut) -> dict[str, Any]:
    """The entity of something that is not in the bundle."""
    entity = {
        "@id": f"#{item.sha256}",
        "@type": "CreativeWork",
        "name": item.name,
        "description": f"not in this bundle: {item.why}",
        "sha256": item.sha256,
    }
    if item.size is not None:
        entity["contentSize"] = str(item.size)
    return entity


def _software(runs: Iterable[PackedRun]) -> list[dict[str, Any]]:
    """The entities of the versions of fedsim that the runs were made with."""
    versions = dict.fromkeys(str(run.record["environment"].get("fedsim")) for run in runs)
    entities = []
    for version in versions:
        entities.append(
            {
                "@id": _software_id(version),
                "@type": "SoftwareApplication",
                "name": "fedsim",
                "softwareVersion": version,
                "url": SOFTWARE,
            }
        )
    return entities


def _software_id(version: str) -> str:
    return f"#fedsim-{version}"


def _action(run: PackedRun, packed: Iterable[Packed]) -> dict[str, Any]:
    """The entity of a run: from a scenario, data and plug-ins to its files."""
    made = []
    used = []
    for file in packed:
        if file.name.startswith(f"runs/{run.name}/"):
            made.append(quote(file.name))
        elif file.name == f"scenarios/{run.name}.yaml" or file.name.startswith(INPUTS):
            used.append(quote(file.name))
    action = {
        "@id": f"#run-{quote(run.name)}",
        "@type": "CreateAction",
        "name": f"the run {run.name}",
        "instrument": {"@id": _software_id(str(run.record["environment"].get("fedsim")))},
        "object": _references(used),
        "result": _references(made),
    }
    if "started" in run.record:
        action["startTime"] = run.record["started"]
    return action
