"""Files that a scenario names: where they are, and where none is looked for."""

import contextlib
import functools
import itertools
import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from fedsim.compose import FAMILIES
from fedsim.errors import DataError, MissingFileError, nearest, shortened
from fedsim.scenario.expected import value_in_words
from fedsim.scenario.named_files import SectionKey
from fedsim.scenario.scenario import Scenario
from fedsim.sources import sha256_of_data


def section_at(scenario: Scenario, place: SectionKey) -> Any:
    """The section at a place of a scenario."""
    return functools.reduce(getattr, place, scenario.spec)


def data_file(scenario: Scenario, place: SectionKey) -> Path:
    """Where a file is: beside the scenario, or else in the working directory, or else in a `--data-root`.

    A scenario file may name what lies in these folders, symbolic links followed, and nothing else: it may be a stranger's.
    Where it says the file's SHA-256, as run directories do, the file may have moved: below these folders, or wherever its
    relative path leads; whoever knows the hash knows the file.

    Args:
      scenario: as read.
      place: of the section that names the file by its key `path`.

    Raises:
      ScenarioError: when there is no such file, or it lies elsewhere.
    """
    section = section_at(scenario, place)
    document, path, sha256 = scenario.document, section.path, getattr(section, "sha256", None)
    roots = document.roots or (str(Path(document.file).parent), ".")
    allowed = [os.path.realpath(root) for root in roots] if document.roots is not None else ["/"]
    places = dict.fromkeys(os.path.normpath(os.path.join(root, path)) for root in roots)
    try:
        inside = [
            p
            for p in places
            if any(Path(os.path.realpath(p)).is_relative_to(root) for root in allowed)
        ]
        existing = [one for one in inside if os.path.exists(one)]
        if sha256 and len(existing) != 1:
            existing = [
                *filter(partial(_holds, sha256), [*existing, *_moved(path, roots)]),
                *existing,
            ]
    except (OSError, ValueError) as error:
        text = f"found {value_in_words(path)}, which no file can be called: {error}"
        raise scenario.error((*place, "path"), text) from None
    if existing:
        return Path(existing[0])
    if not inside or any(os.path.lexists(one) for one in places if one not in inside):
        text = (
            f"{value_in_words(path)} lies outside the scenario's folder and the working directory"
        )
        raise scenario.error(
            (*place, "path"), f"{text}; move it there, or allow its folder with --data-root DIR"
        )
    raise _missing_file(scenario, (*place, "path"), path, inside)


def path_of(scenario: Scenario, place: SectionKey) -> dict[str, str]:
    """The key `path` of a section that may name a file, as its factory is called with it."""
    return (
        {"path": str(data_file(scenario, place))} if names_file(section_at(scenario, place)) else {}
    )


def names_file(section: Any) -> bool:
    """Whether a section names a file by its key `path`."""
    return getattr(section, "path", None) is not None


def resolved_file(scenario: Scenario, place: SectionKey) -> dict[str, str]:
    """Where a file lies, and its hash, where the section that names it has a key for it; nothing where it names none."""
    section = section_at(scenario, place)
    if not names_file(section):
        return {}
    path = data_file(scenario, place)
    return {
        "path": str(path.resolve()),
        **({"sha256": sha256_of_data(path)} if hasattr(section, "sha256") else {}),
    }


def _moved(path: str, roots: Iterable[str]) -> list[str]:
    """Where a file may be that is not where its path leads inside: wherever else that is, and below the roots."""
    parts = Path(path).parts
    ends = [
        os.path.join(*parts[i:])
        for i in range(len(parts))
        if ".." not in parts[i:] and not os.path.isabs(parts[i])
    ]
    names = [*([] if os.path.isabs(path) else [path]), *ends]
    return list(
        dict.fromkeys(
            os.path.normpath(os.path.join(root, name)) for name in names for root in roots
        )
    )


def _holds(sha256: str, place: str) -> bool:
    """Whether a file is the one with this hash."""
    try:
        return sha256_of_data(place) == sha256.lower()
    except (OSError, DataError):
        return False


def _missing_file(
    scenario: Scenario, key: SectionKey, path: str, places: list[str]
) -> MissingFileError:
    """A data file that is in none of the places where it may be; a reader's `WHERE` says where such files come from."""
    document, near = scenario.document, _similar_file(places)
    outside = ", or allow its folder with --data-root DIR" * bool(document.roots)
    instead = (
        f"did you mean '{near}'?" if near else f"write its path from the scenario's folder{outside}"
    )
    folders = " and ".join(
        dict.fromkeys(shortened(os.path.dirname(place) or ".", 80) for place in places)
    )
    text = f"there is no file {value_in_words(os.path.basename(os.path.normpath(path)))}; {instead} (looked in {folders})"
    problems, kind = scenario.error(key, text).problems, scenario.spec.data.kind
    source = (
        getattr(sys.modules[FAMILIES["dataset"][kind].__module__], "WHERE", "")
        if key == ("data", "path")
        else ""
    )
    if source:
        problems += scenario.error(("data", "kind"), f"{kind}: {source}").problems
    return MissingFileError(problems, document.file)


def _similar_file(places: list[str]) -> str | None:
    """A file with a name like one that is missing, in its folder."""
    for place in map(Path, places):
        with contextlib.suppress(OSError):
            names = {entry.name for entry in itertools.islice(os.scandir(place.parent), 1000)}
            if (near := nearest(place.name, names - {place.name})) is not None:
                return near
    return None
