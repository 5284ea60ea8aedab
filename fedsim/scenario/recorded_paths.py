"""Paths as records hold them: relative, and never from the root of a file system.

A run directory may be passed on, for review perhaps. It names no user and no machine, and does not
change if scenario, data and runs are moved together.
"""

import contextlib
import getpass
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsim.scenario.named_files import naming_files
from fedsim.scenario.reader import Document
from fedsim.scenario.scenario import Scenario

# A path that leads out of the working directory, within a text.
PATH = re.compile(r"""(?<![^\s=,;:'"()\[\]{}<>|])(?:/|~/|\.\./)[^\s,;:'"()\[\]{}<>|]+""")

# One of them that begins at the root of the file system, or at a home folder.
ABSOLUTE = re.compile(PATH.pattern.replace(r"|\.\./", ""))


def roots_of(document: Document) -> list[str]:
    """Return the folders that paths of a scenario may be relative to.

    They are the scenario's folder, the folders of data, and the working directory.
    """
    return [*(document.roots or ()), os.getcwd()]


def relative(path: str, start: str, roots: Sequence[str]) -> str:
    """Return a path without the names of folders above the roots.

    It is relative to `start` if a root contains both, else to the root that contains it. If no root
    contains it, only its last name is returned.

    >>> relative("/study/data/w.npz", "/study/reports/x", ["/study"])
    '../../data/w.npz'
    >>> relative("/far/w.npz", "/study", ["/study"])
    'w.npz'
    """
    path, start, *roots = (os.path.realpath(name) for name in (path, start, *roots))
    roots = [root for root in roots if root != "/" and Path(path).is_relative_to(root)]
    folders = list(roots)
    if any(Path(start).is_relative_to(root) for root in roots):
        folders.insert(0, start)
    for folder in folders:
        candidate = os.path.relpath(path, folder)
        if not _names_user(candidate):
            return candidate
    return os.path.basename(path)


def _names_user(path: str) -> bool:
    """Whether a relative path goes through somebody's home folder."""
    names = {os.path.basename(os.path.expanduser("~"))}
    with contextlib.suppress(KeyError, OSError):  # the system need not know the user
        names.add(getpass.getuser())
    return not names.isdisjoint(path.split(os.sep))


def with_relative_paths(text: str, roots: Sequence[str]) -> str:
    """Return a text whose paths do not lead out of the working directory.

    >>> with_relative_paths("data.path=/home/anna/w.npz", [])
    'data.path=w.npz'
    """
    # A whole word of a command line, or its value, may be a path with spaces.
    option, equals, value = text.partition("=")
    if not equals:
        option = ""
        value = text
    if re.match(r"(/|~/|\.\./)", value) and os.path.exists(os.path.expanduser(value)):
        return f"{option}{equals}{_from_here(value, roots)}"
    return PATH.sub(lambda match: _from_here(match[0], roots), text)


def _from_here(path: str, roots: Sequence[str]) -> str:
    """Return a path as seen from the working directory, in which `~` may stand for a home."""
    return relative(os.path.expanduser(path), os.getcwd(), roots)


def written_texts(document: Document) -> list[list[str]]:
    """Return [name, text] of the files that a scenario was read from, its own first.

    Absolute paths in them are replaced as in command lines; a mapping has no files.
    """
    roots = roots_of(document)
    texts = []
    for name, text in document.texts:
        shown = ABSOLUTE.sub(lambda match: _from_here(match[0], roots), text)
        texts.append([relative(name, os.getcwd(), roots), shown])
    return texts


def resolved_from(
    scenario: Scenario, folder: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """Return the resolved scenario with its files as seen from a folder."""
    resolved = scenario.resolved()
    roots = roots_of(scenario.document)
    start = os.fspath(folder or roots[0])
    for _, section in naming_files(resolved):
        path = section["path"]
        if not isinstance(path, str):
            continue
        candidates = [os.path.join(root, path) for root in roots]
        existing = [candidate for candidate in candidates if os.path.exists(candidate)]
        section["path"] = relative((existing or candidates)[0], start, roots)
    return resolved
