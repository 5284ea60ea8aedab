"""`ro-crate-metadata.json` of a bundle: what its files are, in the terms of RO-Crate 1.1.

References:
  Soiland-Reyes et al. 2022, Packaging research artefacts with RO-Crate, Data Science 5(2);
  https://w3id.org/ro/crate/1.1.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from mimetypes import MimeTypes
from typing import Any, NamedTuple
from urllib.parse import quote

from fedsim.errors import DirectoryError, printable

CRATE = "ro-crate-metadata.json"
SPECIFICATION = "https://w3id.org/ro/crate/1.1"
NO_LICENSE = "None was given: ask the authors before you use this."

# Media types by the ends of names, without those of the machine.
MEDIA_TYPES = MimeTypes()
MEDIA_TYPES.add_type("application/yaml", ".yaml")
MEDIA_TYPES.add_type("text/markdown", ".md")
OTHER_TYPE = "application/octet-stream"
MAX_NAME = 400  # characters
DRIVE = re.compile(r"[A-Za-z]:")


def fault_in_name(name: str) -> str:
    """What is wrong with the name of a file in a bundle; empty where anybody can unpack it."""
    parts = name.removesuffix("/").split("/")
    if len(name) > MAX_NAME or not name.isprintable() or "\\" in name or DRIVE.match(name):
        return "is not the name of a file of a bundle"
    if {"", ".", ".."} & {*parts}:
        return "leads out of the bundle"
    return ""


class Packed(NamedTuple):
    """A file of a bundle."""

    name: str
    what: str
    content: bytes
    sha256: str


class LeftOut(NamedTuple):
    """Something that belongs to the runs and is not in the bundle."""

    name: str
    size: int | None  # bytes; None: unknown
    sha256: str  # empty: unknown
    why: str


class Contents:
    """The files of a bundle, and what is left out."""

    def __init__(self):
        self.files: dict[str, Packed] = {}
        self.left_out: list[LeftOut] = []

    def pack(self, name: str, what: str, content: bytes | str) -> None:
        """Take a file along, whose name anybody can unpack."""
        if fault_in_name(name):
            reason = "has a name that no bundle can hold; rename it, and run again"
            raise DirectoryError(f"{printable(name)}: {reason}")
        data = content.encode() if isinstance(content, str) else content
        self.files[name] = Packed(name, what, data, hashlib.sha256(data).hexdigest())

    def leave_out(self, name: str, why: str, size: int | None = None, sha256: str = "") -> None:
        """Name something that is not taken along."""
        self.left_out.append(LeftOut(name, size, sha256, why))


def crate_of(
    records: Mapping[str, Mapping[str, Any]], packed: Sequence[Packed], license: str | None
) -> str:
    """The text of `ro-crate-metadata.json`.

    Args:
      license: a text, or the address of one; None: nobody has said.
    """
    text = license or NO_LICENSE
    is_address = text.startswith(("https://", "http://"))
    license_id = text if is_address else "#license"
    names = ", ".join(records)
    dates = [record["started"][:10] for record in records.values()]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"fedsim: {names}",
        "description": f"Federated-learning simulations, and what repeats them: {names}",
        "datePublished": max(dates),
        "license": {"@id": license_id},
        "hasPart": [{"@id": quote(file.name)} for file in packed],
    }
    descriptor = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": SPECIFICATION},
        "about": {"@id": "./"},
    }
    licensed = {
        "@id": license_id,
        "@type": "CreativeWork",
        "name": text,
        "description": "the license",
    }
    graph = [descriptor, root, licensed, *map(_file, packed)]
    values = {"@context": f"{SPECIFICATION}/context", "@graph": graph}
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def _file(file: Packed) -> dict[str, Any]:
    """The entity of a file."""
    return {
        "@id": quote(file.name),
        "@type": "File",
        "name": file.name.rpartition("/")[2],
        "description": file.what,
        "contentSize": str(len(file.content)),
        "encodingFormat": MEDIA_TYPES.guess_type(file.name)[0] or OTHER_TYPE,
        "sha256": file.sha256,
    }
