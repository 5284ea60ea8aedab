"""From a file, a dictionary or a command line to a checked scenario."""

import itertools
import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path as File
from typing import Any

import yaml
from pydantic import ValidationError

from fedsim.errors import Problem, ScenarioError, dotted, shortened
from fedsim.scenario.diagnostics import in_order, problem_at, problems_of
from fedsim.scenario.expected import value_in_words
from fedsim.scenario.mending import METHOD, OWNED, attempted, in_sound_order, mended
from fedsim.scenario.merge import with_method
from fedsim.scenario.reader import MOST_BYTES, TOO_LARGE, Document, Path, parse
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import Spec
from fedsim.scenario.shipped import found
from fedsim.scenario.shorthand import expanded, with_optimizer, written_out

_EDITED = re.compile(r"[A-Za-z_]\w*(\[[0-9]{1,9}\]|\.\w+)*", re.ASCII)


def read(
    source: Any,
    edits: tuple[str, ...] = (),
    method: Any = None,
    data_roots: Iterable[str | os.PathLike] = (),
) -> Scenario:
    """A path, text in a dictionary, or a Scenario -> a checked Scenario.

    Args:
      source: what to read.
      edits: `PATH=VALUE` as of `--set`, applied left to right.
      method: a method that replaces what it owns, whatever the file says.
      data_roots: folders that a scenario file may name data files in, besides its own and the working directory; a
        dictionary is the caller's own word, and may name any.

    Raises:
      ScenarioError: with every problem found.
      OSError: when the file cannot be read.
    """
    data_roots = tuple(data_roots)
    if isinstance(source, Scenario) and not edits and method is None and not data_roots:
        return source
    document = _document(source, data_roots)
    document = expanded(document, Spec)
    problems: list[Problem] = []
    for edit in edits:
        change = lambda document, edit=edit: expanded(edited(document, edit), Spec)
        document = attempted(document, change, [_edited_path(edit)], problems)
    if method is not None or document.values.get("method") is not None:
        named = document.values["method"] if method is None else method
        merge = lambda document: with_method(document, named, replace=method is not None)
        document = attempted(document, merge, [METHOD] if method is None else OWNED, problems)
    complete = with_optimizer(
        document
    )  # only to be checked: `--set` and methods change the document as it is written
    try:
        scenario: Scenario | None = Scenario(Spec.model_validate(complete.values), document)
    except ValidationError as error:
        problems += problems_of(complete, Spec, complete.values, error.errors())
        scenario, hidden = mended(document, error.errors())
    else:
        scenario, hidden = in_sound_order(scenario)
    if problems or hidden:
        ordered = in_order(document, [*problems, *hidden]) if hidden else problems
        refusal = ScenarioError(ordered, document.file)
        refusal.mended = scenario
        raise refusal
    assert scenario is not None
    return scenario


def _edited_path(edit: str) -> Path:
    """The path that a `--set` speaks of, or what may be one."""
    parts = edit.partition("=")[0].replace("[", ".").replace("]", "").split(".")
    return tuple(int(part) if re.fullmatch("[0-9]{1,9}", part) else part for part in parts)


class _WrittenOut(yaml.SafeDumper):
    """A list that stands twice in a program's mapping is written twice: there it is no alias, but the same list."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _document(source: Any, data_roots: tuple[str | os.PathLike, ...]) -> Document:
    """Values and places of whatever a scenario is given as."""
    if isinstance(source, Scenario | Document):
        document = source.document if isinstance(source, Scenario) else source
        added = tuple(os.path.abspath(root) for root in data_roots)
        return (
            document
            if document.roots is None
            else document._replace(roots=(*document.roots, *added))
        )
    if isinstance(source, dict):
        try:
            text = yaml.dump(source, Dumper=_WrittenOut, sort_keys=False, default_flow_style=None)
        except RecursionError:
            raise ScenarioError(
                [Problem("", "a list or mapping of it contains itself")], "scenario"
            ) from None
        document = parse(text, "scenario")
        return document._replace(places={})
    path = found(source)
    name = str(source if path == File(source) else path)
    return parse(_text(path), name)._replace(roots=_roots(path.parent, data_roots))


def confined(
    scenario: Scenario, folder: File, data_roots: Iterable[str | os.PathLike] = ()
) -> Scenario:
    """A scenario that was found in a folder: it may name data files there, in the working directory and in `data_roots`."""
    document = scenario.document._replace(
        file=str(folder / "scenario.yaml"), roots=_roots(folder, data_roots)
    )
    return scenario._replace(document=document)


def _roots(folder: File, data_roots: Iterable[str | os.PathLike]) -> tuple[str, ...]:
    return tuple(os.path.abspath(root) for root in (folder, ".", *data_roots))


def _text(path: File) -> str:
    """A scenario file as text: a regular file in UTF-8, and no larger than a scenario may be."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ScenarioError(
            [Problem("", "is no regular file; a scenario is a text file")], str(path)
        )
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ScenarioError([Problem("", TOO_LARGE)], str(path))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        place = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        text = f"byte {content[error.start]:#04x} is not UTF-8 ({error.reason}); save the file as UTF-8 text"
        raise ScenarioError([Problem("", text, *place)], str(path)) from None


def edited(document: Document, edit: str) -> Document:
    """The document after `PATH=VALUE`; setting one of `steps` and `epochs` removes the other."""
    path, value = _path_and_value(document, edit)
    path = written_out(document, path)
    values = json.loads(json.dumps(document.values))
    holder, last = _holder(document, values, path, edit), path[-1]
    if isinstance(holder, dict) and isinstance(last, str):
        other = {"steps": "epochs", "epochs": "steps"}.get(last)
        if path[:-1] == ("client",) and other:
            holder.pop(other, None)
        holder[last] = value
    elif isinstance(holder, list) and isinstance(last, int) and last <= len(holder):
        holder[last:] = [value, *holder[last + 1 :]]
    else:
        raise _no_such_place(document, holder, path, edit)
    places = {p: place for p, place in document.places.items() if p[: len(path)] != path}
    broken = frozenset(part for part in document.broken if part[: len(path)] != path)
    return document._replace(
        values=values, places=places, edits=(*document.edits, (path, edit)), broken=broken
    )


def _path_and_value(document: Document, edit: str) -> tuple[Path, Any]:
    """Path and value of `PATH=VALUE`."""
    name, equals, text = edit.partition("=")
    if not equals or not _EDITED.fullmatch(name):
        problem = f"--set {shortened(edit, 60)}: write PATH=VALUE, such as client.lr=0.05 or server[0].trim=2"
        raise ScenarioError([Problem("", problem)], document.file)
    path = _edited_path(edit)
    try:
        values = parse(f"value: {text}", "--set").values
    except ScenarioError as error:
        problem = "; ".join(problem.what.partition(" (it began")[0] for problem in error.problems)
        problem = f"{problem} (--set {shortened(edit, 60)})"
        raise ScenarioError([Problem(dotted(path), problem)], document.file) from None
    if len(values) > 1:
        raise ScenarioError(
            [Problem(dotted(path), "--set takes one value, on one line")], document.file
        )
    return path, values["value"]


def _holder(document: Document, values: Any, path: Path, edit: str) -> Any:
    """The mapping or list in which the last part of a path stands, made where it is not there yet."""
    holder = values
    for end, (part, after) in enumerate(itertools.pairwise(path), 1):
        if isinstance(holder, dict) and isinstance(part, str):
            holder = holder.setdefault(part, [] if isinstance(after, int) else {})
        elif isinstance(holder, list) and isinstance(part, int) and part < len(holder):
            holder = holder[part]
        else:
            raise _no_such_place(document, holder, path[:end], edit)
        if isinstance(holder, str):
            text = f"is the word '{holder}' here, which has no '{after}'; write {{kind: {holder}, ...}} there, or"
            remedy = f"--set '{dotted(path[:end])}={{kind: {holder}, {after}: ...}}'"
            raise ScenarioError(
                [problem_at(document, path[:end], f"{text} {remedy}")], document.file
            )
    return holder


def _no_such_place(document: Document, holder: Any, path: Path, edit: str) -> ScenarioError:
    """A `--set` of what cannot be there."""
    kind = value_in_words(holder)
    if isinstance(holder, list):
        numbered = isinstance(path[-1], int)
        kind = (
            f"a list of {len(holder)}, numbered from 0"
            if numbered
            else "a list; write [0], [1] ..."
        )
    text = f"there is no '{path[-1]}' to set; found {kind} (--set {shortened(edit, 60)})"
    return ScenarioError(
        [problem_at(document, path[:-1], text)._replace(where=dotted(path))], document.file
    )
