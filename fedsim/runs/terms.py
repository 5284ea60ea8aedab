"""The terms of a comparison: what decides its bits, and must be the same on every worker."""

import contextlib
import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.assemble.data_files import data_file, section_at
from fedsim.errors import ScenarioError
from fedsim.runs.environment import numerical
from fedsim.scenario.named_files import FILES
from fedsim.scenario.plugins import ENABLED, is_file, link_hash
from fedsim.scenario.reader import Document
from fedsim.sources import sha256_of_data
from fedsim.study.grid import Cell


class Terms(NamedTuple):
    """What all workers of a comparison have in common.

    Attributes:
      document: the scenario without its grid.
      plugins: names of the enabled plug-ins, each with its text if it is a file.
      environment: what decides bits, as text by name; of a user's links the hash of their files.
      files: SHA-256 of data by path.
    """

    document: Document
    directory: str
    threads: int | None
    device: str | None
    plugins: tuple[tuple[str, bytes | None], ...]
    environment: dict[str, str]
    files: dict[str, str]


def terms_of(
    cells: Sequence[Cell], document: Any, record: dict[str, Any], device: str | None, devices: list
) -> Terms:
    """The terms that workers have to meet, which no worker can for a link defined interactively."""
    hashes = {}
    for path in dict.fromkeys(_data_files(cells)):
        hashes[str(path)] = sha256_of_data(path)
    return Terms(
        document=document,
        directory=os.getcwd(),
        threads=record["environment"]["threads"],
        device=device,
        plugins=_plugins(),
        environment=environment_of(devices, list(record["own_links"])),
        files=hashes,
    )


def _plugins() -> tuple[tuple[str, bytes | None], ...]:
    """The enabled plug-ins: files by their absolute path, with their text."""
    texts = {name: Path(name).read_bytes() if is_file(name) else None for name in ENABLED}
    return tuple(texts.items())


def environment_of(devices: list, links: Sequence[str]) -> dict[str, str]:
    """What decides bits on this machine, besides a scenario: as text by name.

    Args:
      links: `FAMILY KIND` of a user's links, which are represented by the hashes of their files.
    """
    major, minor, _ = platform.python_version_tuple()
    hashes = {name: link_hash(*name.split(" ", 1)) for name in links}
    values = {**numerical(devices), "python": f"{major}.{minor}", **hashes}
    return {name: _text(value) for name, value in values.items()}


def _text(value: Any) -> str:
    """A value as text; the entries of a list with spaces between them."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value)


def differing(terms: Terms, devices: list) -> list[str]:
    """The differences between the terms and this machine, a line for each."""
    lines = []
    links = [name for name in terms.environment if " " in name]
    local_values = environment_of(devices, links)
    for name, expected in terms.environment.items():
        if name in links and not local_values[name]:
            lines.append(
                f"{name} is not known there; put it into a file, and enable that with --plugin FILE"
            )
        elif local_values.get(name) != expected:
            lines.append(f"{name} is {local_values.get(name)} there, {expected} here")
    for path, expected in terms.files.items():
        present = sha256_of_data(Path(path)) if os.path.exists(path) else ""
        if present != expected:
            problem = "differ" if present else "are missing"
            lines.append(f"data {path!r} {problem} there; put them where every worker reads them")
    return lines


def _data_files(cells: Sequence[Cell]) -> Iterator[Path]:
    """The files and folders that cells read; where one is missing, the cell fails later."""
    for cell in cells:
        for key in FILES:
            section = section_at(cell.scenario, key)
            if isinstance(getattr(section, "path", None), str):
                with contextlib.suppress(ScenarioError):
                    yield data_file(cell.scenario, key).absolute()
