"""What decides the bits of a comparison, and has to be the same wherever a part of it is played."""

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
    """What all parts of a comparison have in common.

    Attributes:
      document: the scenario without its grid.
      directory: that the comparison was started in.
      threads: of XLA's pool.
      device: as `devices_of` takes it.
      plugins: names of those that were enabled; with the text of those that are files.
      environment: what decides bits, as text by name; of a user's own links the hash of their files.
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
    """What workers have to meet; a link that was typed in they cannot.

    Args:
      cells: of the grid.
      document: the scenario without its grid.
      record: of the comparison.
      device: as `devices_of` takes it.
      devices: that it chose.
    """
    plugins = dict.fromkeys(
        str(Path(plugin).resolve()) if is_file(plugin) else plugin for plugin in ENABLED
    )
    texts = tuple(
        (plugin, Path(plugin).read_bytes() if is_file(plugin) else None) for plugin in plugins
    )
    environment = environment_of(devices, list(record["own_links"]))
    read = {str(place): sha256_of_data(place) for place in dict.fromkeys(_data_files(cells))}
    return Terms(
        document, os.getcwd(), record["environment"]["threads"], device, texts, environment, read
    )


def environment_of(devices: list, links: Sequence[str]) -> dict[str, str]:
    """What decides bits here, beside a scenario: as text by name; of a user's own links the hash of their files."""
    hashes = {name: link_hash(*name.split(" ", 1)) for name in links}
    python = ".".join(platform.python_version_tuple()[:2])
    whole = {**numerical(devices), "python": python, **hashes}
    return {
        name: " ".join(map(str, v)) if isinstance(v, list) else str(v) for name, v in whole.items()
    }


def sha256_at(path: str) -> str:
    """Hash of a file or folder of data; empty where there is none."""
    return sha256_of_data(Path(path)) if os.path.exists(path) else ""


def differing(terms: Terms, devices: list) -> list[str]:
    """What is different here, a line for each."""
    links = [name for name in terms.environment if " " in name]
    local, lines = environment_of(devices, links), []
    for name, expected in terms.environment.items():
        if name in links and not local[name]:
            lines.append(
                f"{name} is not known there; put it into a file, and enable that with --plugin FILE"
            )
        elif local.get(name) != expected:
            lines.append(f"{name} is {local.get(name)} there, {expected} here")
    for path, sha256 in terms.files.items():
        if (present := sha256_at(path)) != sha256:
            wrong = "differ" if present else "are not"
            lines.append(f"data {path!r} {wrong} there; put them where every worker reads them")
    return lines


def _data_files(cells: Sequence[Cell]) -> Iterator[Path]:
    """The files and folders that the configurations read; one that is missing makes its configuration fail, later."""
    for cell in cells:
        for place in FILES:
            if isinstance(getattr(section_at(cell.scenario, place), "path", None), str):
                with contextlib.suppress(ScenarioError):
                    yield data_file(cell.scenario, place).absolute()
