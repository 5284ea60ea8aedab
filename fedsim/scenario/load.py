"""From a file, a dictionary or a command line to a checked scenario."""

import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedsim.errors import Problem, ScenarioError, dotted, shortened
from fedsim.scenario.bases import EXTENDS, with_base
from fedsim.scenario.diagnostics import in_order, problem_at, problems_of
from fedsim.scenario.expected import value_in_words
from fedsim.scenario.mending import METHOD, OWNED, in_sound_order, mended, with_refused
from fedsim.scenario.merge import with_method
from fedsim.scenario.reader import Document, KeyPath, parse, text_of, without_line
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import Spec
from fedsim.scenario.shipped import scenario_file
from fedsim.scenario.shorthand import full_path, with_calls_expanded, with_optimizer

_EDITED_PATH = re.compile(r"[A-Za-z_]\w*(\[[0-9]{1,9}\]|\.\w+)*", re.ASCII)

EXTENDED_FIRST = (
    "the base is merged in before --set changes values; write extends: in a file of its own, and "
    "there what replaces the base's values"
)

# A client trains for steps or for epochs: setting one removes the other.
_OTHER = {"steps": "epochs", "epochs": "steps"}


def read(
    source: Any,
    edits: tuple[str, ...] = (),
    method: Any = None,
    data_roots: Iterable[str | os.PathLike] = (),
) -> Scenario:
    """Read and check a scenario.

    Args:
      source: a path, a dictionary, or a `Scenario`.
      edits: `PATH=VALUE` as for `--set`, applied from left to right.
      method: a method that replaces what it owns, whatever the file says.
      data_roots: folders whose data files a scenario file may name, in addition to its own folder
        and the working directory; a dictionary comes from the caller, and may name any.

    Raises:
      ScenarioError: with all of its problems.
      OSError: if the file cannot be read.
    """
    data_roots = tuple(data_roots)
    if isinstance(source, Scenario) and not edits and method is None and not data_roots:
        return source

    problems: list[Problem] = []
    document = with_calls_expanded(document_of(source, data_roots), Spec)
    document = _with_edits(document, edits, problems)
    document = _with_method(document, method, problems)

    # Only for validation: edits and methods apply to the document as it is written.
    complete = with_optimizer(document)
    try:
        scenario: Scenario | None = Scenario(Spec.model_validate(complete.values), document)
    except ValidationError as error:
        problems += problems_of(complete, Spec, complete.values, error.errors())
        scenario, more_problems = mended(document, error.errors())
    else:
        scenario, more_problems = in_sound_order(scenario)

    if more_problems:
        problems = in_order(document, [*problems, *more_problems])
    if problems:
        refusal = ScenarioError(problems, document.file)
        refusal.mended = scenario
        raise refusal
    assert scenario is not None
    return scenario


def _with_edits(document: Document, edits: tuple[str, ...], problems: list[Problem]) -> Document:
    """Apply every `PATH=VALUE` that is not refused; add what is wrong with the others."""
    for edit in edits:
        try:
            document = with_calls_expanded(edited(document, edit), Spec)
        except ScenarioError as error:
            problems += error.problems
            document = with_refused(document, [_edited_path(edit)])
    return document


def _with_method(document: Document, method: Any, problems: list[Problem]) -> Document:
    """Merge the given method, else that of the document; add what is wrong with it."""
    replace = method is not None
    if method is None:
        method = document.values.get("method")
    if method is None:
        return document
    try:
        return with_method(document, method, replace)
    except ScenarioError as error:
        problems += error.problems
        return with_refused(document, OWNED if replace else [METHOD])


def document_of(source: Any, data_roots: tuple[str | os.PathLike, ...] = ()) -> Document:
    """Return the document of whatever a scenario is given as, its base merged in.

    Arguments and errors as of `read`; nothing is checked but what `extends` names.
    """
    if isinstance(source, Scenario):
        return _with_roots(source.document, data_roots)
    if isinstance(source, Document):
        return _with_roots(with_base(source, Path(source.file).parent), data_roots)
    if isinstance(source, dict):
        return with_base(_document_of_values(source), None)

    path = scenario_file(source)
    name = str(source if path == Path(source) else path)
    document = with_base(parse(text_of(path), name), path.parent, (path,))
    folders = [Path(file).parent for file in document.bases]
    return document._replace(roots=_roots(path.parent, [*data_roots, *folders]))


def _with_roots(document: Document, data_roots: tuple[str | os.PathLike, ...]) -> Document:
    if document.roots is None:
        return document
    added = [os.path.abspath(root) for root in data_roots]
    return document._replace(roots=(*document.roots, *added))


def _plain(value: Any) -> Any:
    """Return NumPy's and JAX's numbers and arrays as those of Python."""
    if not hasattr(value, "tolist"):
        raise TypeError
    return value.tolist()


def _unwritable(values: Any, path: KeyPath = ()) -> Iterator[Problem]:
    """Yield a problem for every value of a dictionary that no file could hold."""
    if isinstance(values, dict):
        for key, value in values.items():
            if not isinstance(key, str | int | float | None):
                yield Problem(dotted(path), f"has the key {key!r}; keys are plain words")
            yield from _unwritable(value, (*path, str(key)))
    elif isinstance(values, list | tuple):
        for i, value in enumerate(values):
            yield from _unwritable(value, (*path, i))
    elif callable(values) and hasattr(values, "__name__"):
        name = values.__name__
        yield Problem(dotted(path), f"is the function {name}; decorate it, and write '{name}'")
    elif not isinstance(values, str | int | float | None) and not hasattr(values, "tolist"):
        text = f"is of type {type(values).__name__}; write a number, a text, a list or a mapping"
        yield Problem(dotted(path), text)


def _document_of_values(values: dict) -> Document:
    """Return the document of a dictionary; its values are read back, as strictly as a file."""
    try:
        text = json.dumps(values, default=_plain, ensure_ascii=False)  # which is YAML
    except (RecursionError, ValueError):
        problem = Problem("", "has a list or mapping that contains itself")
        raise ScenarioError([problem], "scenario") from None
    except TypeError:
        raise ScenarioError([*_unwritable(values)], "scenario") from None
    return parse(text, "scenario")._replace(positions={}, texts=())


def confined(
    scenario: Scenario, folder: Path, data_roots: Iterable[str | os.PathLike] = ()
) -> Scenario:
    """Return a scenario found in a folder, as one that may name only certain data files.

    These are the files in the folder, in the working directory and in `data_roots`.
    """
    roots = _roots(folder, data_roots)
    document = scenario.document._replace(file=str(folder / "scenario.yaml"), roots=roots)
    return scenario._replace(document=document)


def _roots(folder: Path, data_roots: Iterable[str | os.PathLike]) -> tuple[str, ...]:
    return tuple(os.path.abspath(root) for root in (folder, ".", *data_roots))


def edited(document: Document, edit: str) -> Document:
    """Return a document after `PATH=VALUE`.

    Setting one of `steps` and `epochs` of the client removes the other.
    """
    path, value = _path_and_value(document, edit)
    if path[0] == EXTENDS:
        text = f"{EXTENDED_FIRST} (--set {shortened(edit, 60)})"
        raise ScenarioError([Problem(EXTENDS, text)], document.file)
    path = full_path(document, path)
    values = json.loads(json.dumps(document.values))  # a copy
    holder = _holder(document, values, path, edit)
    key = path[-1]
    if isinstance(holder, dict) and isinstance(key, str):
        if path[:-1] == ("client",) and key in _OTHER:
            holder.pop(_OTHER[key], None)
        holder[key] = value
    elif isinstance(holder, list) and isinstance(key, int) and key <= len(holder):
        holder[key : key + 1] = [value]
    else:
        raise _nothing_to_set(document, holder, path, edit)

    depth = len(path)
    positions = {p: position for p, position in document.positions.items() if p[:depth] != path}
    broken = frozenset(p for p in document.broken if p[:depth] != path)
    edits = (*document.edits, (path, edit))
    return document._replace(values=values, positions=positions, edits=edits, broken=broken)


def _edited_path(edit: str) -> KeyPath:
    """Return the path of a `PATH=VALUE`, or what may be one."""
    dotted_path = edit.partition("=")[0].replace("[", ".").replace("]", "")
    return tuple(_key_or_index(word) for word in dotted_path.split("."))


def _key_or_index(word: str) -> str | int:
    return int(word) if re.fullmatch("[0-9]{1,9}", word) else word


def _path_and_value(document: Document, edit: str) -> tuple[KeyPath, Any]:
    """Return the path and the value of `PATH=VALUE`."""
    name, equals, text = edit.partition("=")
    option = f"--set {shortened(edit, 60)}"
    if not equals or not _EDITED_PATH.fullmatch(name):
        remedy = f"{option}: write PATH=VALUE, such as client.lr=0.05 or server[0].trim=2"
        raise ScenarioError([Problem("", remedy)], document.file)

    path = _edited_path(edit)
    try:
        values = parse(f"value: {text}", "--set").values
    except ScenarioError as error:
        reasons = "; ".join(without_line(problem.what) for problem in error.problems)
        problem = Problem(dotted(path), f"{reasons} ({option})")
        raise ScenarioError([problem], document.file) from None
    if len(values) > 1:
        problem = Problem(dotted(path), "--set takes one value, on one line")
        raise ScenarioError([problem], document.file)
    return path, values["value"]


def _holder(document: Document, values: Any, path: KeyPath, edit: str) -> Any:
    """Return the mapping or list that the last key of a path belongs to.

    Mappings and lists on the way that are not there yet are made.
    """
    holder = values
    for depth, (key, next_key) in enumerate(itertools.pairwise(path), start=1):
        path_here = path[:depth]
        if isinstance(holder, dict) and isinstance(key, str):
            holder = holder.setdefault(key, [] if isinstance(next_key, int) else {})
        elif isinstance(holder, list) and isinstance(key, int) and key < len(holder):
            holder = holder[key]
        else:
            raise _nothing_to_set(document, holder, path_here, edit)
        if isinstance(holder, str):
            text = _use_mapping(holder, next_key, path_here)
            raise ScenarioError([problem_at(document, path_here, text)], document.file)
    return holder


def _use_mapping(word: str, key: str | int, path: KeyPath) -> str:
    """Return how to set a key of a kind that is written as a bare name."""
    remedy = f"--set '{dotted(path)}={{kind: {word}, {key}: ...}}'"
    return (
        f"is the word '{word}' here, which has no '{key}'; "
        f"write {{kind: {word}, ...}} there, or {remedy}"
    )


def _nothing_to_set(document: Document, holder: Any, path: KeyPath, edit: str) -> ScenarioError:
    """Return the refusal of a `--set` of what cannot be there."""
    key = path[-1]
    holder_in_words = value_in_words(holder)
    if isinstance(holder, list) and isinstance(key, int):
        holder_in_words = f"a list of {len(holder)}, numbered from 0"
    elif isinstance(holder, list):
        holder_in_words = "a list; write [0], [1] ..."
    option = f"--set {shortened(edit, 60)}"
    if not isinstance(holder, list | dict):
        value = edit.partition("=")[2]
        replacement = shortened(f"{dotted(path[:-1])}={{{key}: {value}}}", 60)
        option = f"{option}; --set '{replacement}' replaces it"
    text = f"there is no '{key}' to set; found {holder_in_words} ({option})"
    problem = problem_at(document, path[:-1], text)
    return ScenarioError([problem._replace(where=dotted(path))], document.file)
