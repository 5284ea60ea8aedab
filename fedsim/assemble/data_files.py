"""Files that a scenario names: where they are, and which ones it may not name."""

import contextlib
import functools
import itertools
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedsim.compose import FAMILIES
from fedsim.errors import DataError, MissingFileError, Problem, nearest, shortened
from fedsim.scenario.expected import value_in_words
from fedsim.scenario.named_files import DATA, SectionKey
from fedsim.scenario.scenario import Scenario
from fedsim.sources import sha256_of_data

MAX_ENTRIES = 1000  # of a folder, that are compared with the name of a missing file


def section_at(scenario: Scenario, key: SectionKey) -> Any:
    """Return the section at a section key of a scenario."""
    return functools.reduce(getattr, key, scenario.spec)


def data_file(scenario: Scenario, key: SectionKey) -> Path:
    """Return the file that a section names by its key `path`.

    It is looked for in the scenario's folder, in the working directory, and in every `--data-root`.
    A scenario may be a stranger's: it may name what lies in these folders, symbolic links followed,
    and nothing else.

    Where the section gives the file's SHA-256, as run directories do, the file may have moved: to
    anywhere below these folders, or to wherever its relative path leads. Whoever knows the hash
    knows the file.
    """
    section = section_at(scenario, key)
    path_key = (*key, "path")
    document = scenario.document
    roots = document.roots or (str(Path(document.file).parent), ".")
    # A user's Python program may read anything.
    allowed_roots = ("/",) if document.roots is None else roots
    candidates = _joined(roots, [section.path])
    try:
        allowed = [path for path in candidates if _is_below(path, allowed_roots)]
        existing = [path for path in allowed if os.path.exists(path)]
        sha256 = getattr(section, "sha256", None)
        if sha256 and len(existing) != 1:
            moved = _moved(section.path, roots)
            matches = [path for path in [*existing, *moved] if _has_hash(path, sha256)]
            existing = matches + existing
    except (OSError, ValueError) as error:
        text = f"found {value_in_words(section.path)}, which cannot be the name of a file: {error}"
        raise scenario.error(path_key, text) from None

    if existing:
        return Path(existing[0])

    outside = [path for path in candidates if path not in allowed]
    if not allowed or any(map(os.path.lexists, outside)):
        folders = "the scenario's folder and the working directory"
        text = f"{value_in_words(section.path)} lies outside {folders}"
        remedy = "move it there, or allow its folder with --data-root DIR"
        raise scenario.error(path_key, f"{text}; {remedy}")
    raise _missing_file(scenario, path_key, allowed)


def path_of(scenario: Scenario, key: SectionKey) -> dict[str, str]:
    """The argument `path` of a section's factory, if the section names a file."""
    if not names_file(section_at(scenario, key)):
        return {}
    return {"path": str(data_file(scenario, key))}


def names_file(section: Any) -> bool:
    """Whether a section names a file by its key `path`."""
    return getattr(section, "path", None) is not None


def resolved_file(scenario: Scenario, key: SectionKey) -> dict[str, str]:
    """Where the file of a section lies, and its hash, for the keys that the section has.

    It is empty for a section that names no file.
    """
    section = section_at(scenario, key)
    if not names_file(section):
        return {}
    path = data_file(scenario, key)
    resolved = {"path": str(path.resolve())}
    if hasattr(section, "sha256"):
        resolved["sha256"] = sha256_of_data(path)
    return resolved


def _joined(roots: Iterable[str], names: Iterable[str]) -> list[str]:
    """Every name below every root, without repetitions."""
    roots = list(roots)
    paths = [os.path.normpath(os.path.join(root, name)) for name in names for root in roots]
    return list(dict.fromkeys(paths))


def _is_below(path: str, roots: Iterable[str]) -> bool:
    """Whether a path leads into one of several folders, symbolic links followed."""
    real_path = Path(os.path.realpath(path))
    return any(real_path.is_relative_to(os.path.realpath(root)) for root in roots)


def _moved(path: str, roots: Iterable[str]) -> list[str]:
    """Paths that a file may have moved to: its own from any root, and its ends below the roots."""
    parts = Path(path).parts
    names = [] if os.path.isabs(path) else [path]
    for i, part in enumerate(parts):
        if ".." not in parts[i:] and not os.path.isabs(part):
            names.append(os.path.join(*parts[i:]))
    return _joined(roots, names)


def _has_hash(path: str, sha256: str) -> bool:
    """Whether a file exists and has this hash."""
    try:
        return sha256_of_data(path) == sha256.lower()
    except (OSError, DataError):
        return False


def _missing_file(scenario: Scenario, path_key: SectionKey, paths: list[str]) -> MissingFileError:
    """The error for a file that is in none of the folders where it may be."""
    document = scenario.document
    similar = _similar_file(paths)
    if similar:
        remedy = f"did you mean '{similar}'?"
    else:
        remedy = "write its path relative to the scenario's folder"
        if document.roots:
            remedy += ", or allow its folder with --data-root DIR"

    folders = [shortened(os.path.dirname(path) or ".", 80) for path in paths]
    looked_in = " and ".join(dict.fromkeys(folders))
    path = section_at(scenario, path_key)
    name = value_in_words(os.path.basename(os.path.normpath(path)))
    text = f"there is no file {name}; {remedy} (looked in {looked_in})"

    problems = scenario.error(path_key, text).problems
    if path_key == (*DATA, "path"):
        problems += _where_to_get_it(scenario)
    return MissingFileError(problems, document.file)


def _where_to_get_it(scenario: Scenario) -> list[Problem]:
    """A line that says where files of a data set come from, if its module has a `WHERE`."""
    kind = scenario.spec.data.kind
    module = sys.modules[FAMILIES["dataset"][kind].__module__]
    where = getattr(module, "WHERE", "")
    if not where:
        return []
    return scenario.error(("data", "kind"), f"{kind}: {where}").problems


def _similar_file(paths: list[str]) -> str | None:
    """A file with a name like that of a missing one, next to where it would be; no scenario."""
    for path in map(Path, paths):
        with contextlib.suppress(OSError):
            entries = itertools.islice(os.scandir(path.parent), MAX_ENTRIES)
            files = [Path(entry.name) for entry in entries]
            others = [file for file in files if file.suffix != ".yaml" and file.name != path.name]
            # Of several with one stem, that with the same ending comes last and stays.
            others.sort(key=lambda file: file.suffix == path.suffix)
            by_stem = {file.stem: file.name for file in others}
            if similar := nearest(path.stem, by_stem):
                return by_stem[similar]
    return None
