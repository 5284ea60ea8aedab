"""`extends`: a scenario that builds on another one, merged before anything is checked.

The base is a scenario in the folder of the one that names it, or one that comes with fedsim; it may
have a base itself. Keys of the scenario replace those of its base, sections key by key; lists are
replaced as a whole. Another kind in a section drops the parameters of the base's kind, and a method
drops what it replaces, as on the command line.
"""

import copy
import os
import re
from pathlib import Path
from typing import Any

from fedsim.errors import MissingFileError, ScenarioError, nearest
from fedsim.scenario.annotations import kinds_of, section_for
from fedsim.scenario.diagnostics import problem_at
from fedsim.scenario.expected import value_in_words
from fedsim.scenario.merge import without_parameters, without_replaced_by
from fedsim.scenario.named_files import naming_files
from fedsim.scenario.reader import Document, KeyPath, Position, parse, text_of, value_at
from fedsim.scenario.schema import AllowedKinds
from fedsim.scenario.sections import NAME_PATTERN, Spec
from fedsim.scenario.shipped import ENDINGS, shipped, shipped_file
from fedsim.scenario.shorthand import (
    annotation_of_key,
    kind_name,
    with_calls_expanded,
    with_optimizer,
)

EXTENDS = "extends"
MAX_BASES = 8
SHIPPED = "the name of a scenario that comes with fedsim (fedsim list scenarios)"

# Keys of which a section has at most one: setting one removes the others that the base has.
ALTERNATIVES: dict[KeyPath, tuple[str, ...]] = {
    ("client",): ("steps", "epochs"),
    ("fleet", "malicious"): ("share", "count", "ids"),
}


def with_base(document: Document, folder: Path | None, files: tuple[Path, ...] = ()) -> Document:
    """Return a document with its base merged in; a document without `extends` as it is.

    Args:
      folder: its folder; None for the mapping of a Python program, whose base may be any file.
    """
    if EXTENDS not in document.values:
        return document
    if len(files) > MAX_BASES:
        text = f"is one base too many; at most {MAX_BASES} scenarios build on one another"
        raise _refusal(document, text)

    file = _base_file(document, folder, files)
    base = parse(text_of(file), _name_of(file, document))
    base = with_base(base, file.parent, (*files, file))
    base = _with_paths_from(_with_files_named(base), file.parent, folder or Path("."))
    merged = _merged(_untitled(base), _with_own_name(document))
    texts = (*document.texts, *base.texts)
    return merged._replace(bases=(base.file, *base.bases), texts=texts)


# ---- which file


def _base_file(document: Document, folder: Path | None, files: tuple[Path, ...]) -> Path:
    name = document.values[EXTENDS]
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        text = f"should be a file in the scenario's folder, such as base.yaml, or {SHIPPED}"
        raise _refusal(document, f"{text}, found {value_in_words(name)}")
    if folder is not None and (os.path.isabs(name) or ".." in Path(name).parts):
        raise _outside(document, name)

    known = [file.resolve() for file in files]
    candidates = [(folder or Path(".")) / f"{name}{ending}" for ending in ENDINGS]
    existing = [file for file in candidates if file.is_file()]
    for file in existing:
        if folder is not None and not _is_below(file, folder):
            raise _outside(document, name)
        if file.resolve() not in known:
            return file
    of_fedsim = shipped_file(name)
    if of_fedsim is not None and of_fedsim.resolve() not in known:
        return of_fedsim
    if existing:
        chain = " → ".join(file.name for file in (*files, existing[0]))
        raise _refusal(document, f"leads back to itself: {chain}; remove one of them")
    text = f"there is no scenario {value_in_words(name)}{_similar(name, folder or Path('.'))}"
    raise MissingFileError(_refusal(document, text).problems, document.file)


def demand_base(name: str, path: Path) -> None:
    """Refuse what the scenario at a path could not name as its base."""
    document = Document({EXTENDS: name}, {}, str(path))
    _base_file(document, path.parent, (path,))


def _is_below(file: Path, folder: Path) -> bool:
    """Whether a file is in a folder or below it, symbolic links followed."""
    return file.resolve().is_relative_to(folder.resolve())


def _refusal(document: Document, text: str) -> ScenarioError:
    return ScenarioError([problem_at(document, (EXTENDS,), text)], document.file)


def _outside(document: Document, name: str) -> ScenarioError:
    name_in_words = value_in_words(name)
    text = f"{name_in_words} lies outside the scenario's folder; move it there, or write {SHIPPED}"
    return _refusal(document, text)


def _similar(name: str, folder: Path) -> str:
    """Return the scenario with a similar name in a folder, or of those that come with fedsim."""
    known = {name: name for name in shipped()}
    for file in sorted(folder.glob("*.y*ml"))[:1000]:
        known |= {file.stem: file.name, file.name: file.name}
    if near := nearest(name, known):
        return f"; did you mean {known[near]}?"
    return f"; write the path of a file in the scenario's folder, or {SHIPPED}"


def _name_of(file: Path, document: Document) -> str:
    """Return the name of a base in messages: seen from where the scenario was named."""
    folder = Path(document.file).parent
    if _is_below(file, folder):
        return str(folder / file.resolve().relative_to(folder.resolve()))
    return str(file)


# ---- what the base says


def _with_files_named(base: Document) -> Document:
    """Return a base whose positions name its file."""
    positions = {
        path: position if position.file else position._replace(file=base.file)
        for path, position in base.positions.items()
    }
    return base._replace(positions=positions)


def _with_paths_from(base: Document, base_folder: Path, folder: Path) -> Document:
    """Return a base whose data files are named as seen from the folder of the scenario."""
    if base_folder.resolve() == folder.resolve() or not _is_below(base_folder, folder):
        return base
    values = copy.deepcopy(base.values)
    for _, section in naming_files(values):
        path = section["path"]
        if isinstance(path, str) and (base_folder / path).exists():
            section["path"] = os.path.relpath(base_folder / path, folder)
    return base._replace(values=values)


def _with_own_name(document: Document) -> Document:
    """Return a document that is named like its file unless it has a name.

    With the base's name it would be written into the base's run directory.
    """
    stem = Path(document.file).stem
    is_file = document.file.endswith((".yaml", ".yml"))
    if "name" in document.values or not is_file or not re.fullmatch(NAME_PATTERN, stem):
        return document
    return document._replace(values={"name": stem, **document.values})


def _untitled(base: Document) -> Document:
    """Return a base without its title, which says what the base asks."""
    return base._replace(values={key: base.values[key] for key in base.values if key != "title"})


# ---- merging


def _merged(base: Document, document: Document) -> Document:
    """Return a document with everything of its base that it does not replace."""
    base = with_optimizer(with_calls_expanded(base, Spec))
    document = with_calls_expanded(document, Spec)
    document = _with_optimizer_of(base, document)
    method = document.values.get("method")
    if method is not None:
        base = without_replaced_by(base, method)

    own_values = {key: value for key, value in document.values.items() if key != EXTENDS}
    values = _merged_value(base.values, own_values, Spec, ())
    known_keys = [key for key in Spec.model_fields if key in values]
    in_order = {key: values[key] for key in (*known_keys, *values)}
    positions = {**_positions_left(base, values), **document.positions}
    return document._replace(values=in_order, positions=positions)


def _with_optimizer_of(base: Document, document: Document) -> Document:
    """Return a document whose `client.momentum`, say, stands where that of its base does.

    Next to another optimizer of the base it stays, and the schema refuses both together.
    """
    client = document.values.get("client")
    client_of_base = base.values.get("client")
    if not isinstance(client, dict) or not isinstance(client_of_base, dict):
        return with_optimizer(document)
    if kind_name(client_of_base.get("optimizer", "sgd")) not in ("", "sgd"):
        return document

    # The client's kind decides which of its keys are short for the optimizer's.
    kind = client.get("kind", client_of_base.get("kind"))
    if kind is not None:
        client = {**client, "kind": kind}
    return with_optimizer(document._replace(values={**document.values, "client": client}))


def _merged_value(base: Any, value: Any, annotation: Any, path: KeyPath) -> Any:
    """Return the value at a path, merged into that of the base."""
    kinds = kinds_of(annotation)
    if kinds is not None:
        base, value = _as_sections(base, value, kinds)
    are_mappings = isinstance(base, dict) and isinstance(value, dict)
    if not are_mappings or (kinds is None and section_for(annotation, value) is None):
        return value

    merged = dict(base)
    if kinds is not None and "kind" in value:
        merged = without_parameters(merged, kinds, value["kind"])
    alternatives = ALTERNATIVES.get(path, ())
    if any(value.get(key) is not None for key in alternatives):
        merged = {key: inner for key, inner in merged.items() if key not in alternatives}

    left = dict(merged)
    for key, inner in value.items():
        if key in left:
            inner_annotation = annotation_of_key(annotation, {**left, **value}, key)
            inner = _merged_value(left[key], inner, inner_annotation, (*path, key))
        merged[key] = inner
    return merged


def _as_sections(base: Any, value: Any, kinds: AllowedKinds) -> tuple[Any, Any]:
    """Return two values with a bare kind as a mapping where the other one is a mapping."""
    if isinstance(base, str) and isinstance(value, dict):
        return {"kind": base}, value
    is_kind = isinstance(value, str) and kinds.kind_of(value) is not None
    if isinstance(base, dict) and is_kind:
        return base, {"kind": value}
    return base, value


def _positions_left(base: Document, values: dict[str, Any]) -> dict[KeyPath, Position]:
    """Return the positions of what is left of the base among merged values."""
    left: dict[KeyPath, Position] = {}
    for path, position in base.positions.items():
        at = path[:-1] if path[-1:] == ("<key>",) else path
        value = value_at(base.values, at)
        if value is value_at(values, at):
            left[path] = position
        elif path == at and isinstance(value, str) and value is value_at(values, (*at, "kind")):
            left[(*at, "kind")] = position
        elif isinstance(value, dict) and isinstance(value_at(values, at), dict):
            left[path] = position
    return left
