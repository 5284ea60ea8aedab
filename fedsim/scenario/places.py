"""Paths as records hold them: from the scenario's folder, and never from the root of a file system.

A run directory is handed on, for review perhaps: it names no user and no machine, and it is the same wherever a tree of
scenario, data and runs lies.
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

PATH = re.compile(
    r"""(?<![^\s=,;:'"()\[\]{}<>|])(?:/|~/|\.\./)[^\s,;:'"()\[\]{}<>|]+"""
)  # that leads out of a folder


def roots_of(document: Document) -> list[str]:
    """The scenario's folder, the working directory, and folders of data, as paths may be told from them."""
    return [*(document.roots or ()), os.getcwd()]


def relative(path: str, start: str, roots: Sequence[str]) -> str:
    """A path as seen from a folder, where both lie below one of the roots; else from the root that it lies below; else
    its name alone.

    >>> relative("/study/data/w.npz", "/study/reports/x", ["/study"]), relative("/far/w.npz", "/study", ["/study"])
    ('../../data/w.npz', 'w.npz')
    """
    path, start, *roots = map(os.path.realpath, (path, start, *roots))
    below = [root for root in roots if root != "/" and Path(path).is_relative_to(root)]
    seen = [os.path.relpath(path, start) for root in below if Path(start).is_relative_to(root)]
    paths = [*seen, *(os.path.relpath(path, root) for root in below)]
    return next((one for one in paths if not _names_user(one)), os.path.basename(path))


def _names_user(path: str) -> bool:
    """Whether a relative path goes through somebody's home folder."""
    names = {os.path.basename(os.path.expanduser("~"))}
    with contextlib.suppress(KeyError, OSError):  # nobody that the system knows
        names.add(getpass.getuser())
    return bool(names & {*path.split(os.sep)})


def scrubbed(text: str, roots: Sequence[str]) -> str:
    """A text in which no path leads out of the working directory.

    >>> scrubbed("data.path=/home/anna/w.npz", [])
    'data.path=w.npz'
    """
    named = lambda path: relative(os.path.expanduser(path), os.getcwd(), roots)
    head, equals, tail = text.partition("=")
    whole = tail if equals else head  # a word of a command line may be a path with spaces
    if re.match(r"(/|~/|\.\./)", whole) and os.path.exists(os.path.expanduser(whole)):
        return f"{head}={named(whole)}" if equals else named(whole)
    return PATH.sub(lambda match: named(match[0]), text)


def resolved_from(
    scenario: Scenario, folder: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """The resolved scenario with its files as seen from a folder; None: from the scenario's own."""
    resolved, roots = scenario.resolved(), roots_of(scenario.document)
    for _, section in naming_files(resolved):
        if isinstance(path := section["path"], str):
            places = [os.path.join(root, path) for root in roots]
            place = next((place for place in places if os.path.exists(place)), places[0])
            section["path"] = relative(place, os.fspath(folder or roots[0]), roots)
    return resolved
