"""Every key of a scenario by its path: what it may be, its default, and the kinds that have it."""

import inspect
import re
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from fedsim.scenario.annotations import annotation_of, fields_of, names_of, sections_in
from fedsim.scenario.schema import KindSchema, per_registry
from fedsim.scenario.sections import CLIENT_SGD, LOCAL_OPTIMIZERS, Spec

# The sections that words of other tools are mostly about, first; keys elsewhere come last.
SECTIONS = ("data.partition", "client", "server", "cohort", "fleet", "wire", "model")


class Key(NamedTuple):
    """A key at a path.

    Attributes:
      path: its path, without list indices.
      field: its annotation, default and description.
      kinds: the kinds that have it as a parameter; empty if it is there whatever the kind.
    """

    path: tuple[str, ...]
    field: FieldInfo
    kinds: tuple[str, ...]

    @property
    def dotted(self) -> str:
        return ".".join(self.path)


@per_registry
def keys() -> dict[tuple[str, ...], list[Key]]:
    """Return path -> its keys: first the common one, then one for each meaning of it to kinds."""
    by_meaning: dict[tuple[str, ...], dict[Any, Key]] = {}
    for path, section, field in _walk(Spec, (), set()):
        kinds = () if is_common(section, path[-1]) else (section.name,)
        described = (field.description, field.default, field.annotation, field.metadata)
        meaning = (bool(kinds), repr(described))
        keys_here = by_meaning.setdefault(path, {})
        known = keys_here.get(meaning, Key(path, field, ()))
        all_kinds = dict.fromkeys((*known.kinds, *kinds))
        keys_here[meaning] = known._replace(kinds=tuple(all_kinds))
    for name in CLIENT_SGD:
        path = ("client", name)
        by_meaning.setdefault(path, {})["short"] = Key(path, short_field(name), ())

    common_first = lambda key: bool(key.kinds)
    return {path: sorted(known.values(), key=common_first) for path, known in by_meaning.items()}


def _walk(
    annotation: Any, path: tuple[str, ...], seen: set
) -> Iterator[tuple[tuple[str, ...], Any, FieldInfo]]:
    """Yield (path, section or kind, field) of every key below an annotation."""
    for section in sections_in(annotation):
        if (path, section) in seen:
            continue
        seen.add((path, section))
        for name, field in fields_of(section).items():
            if name == "kind" and len(typing.get_args(field.annotation)) == 1:  # it has no choice
                continue
            yield (*path, name), section, field
            yield from _walk(annotation_of(field), (*path, name), seen)


def is_common(section: Any, name: str) -> bool:
    """Whether a section has this key whatever its kind."""
    if not isinstance(section, KindSchema):
        return True
    return name not in inspect.signature(section.factory).parameters


@per_registry
def places() -> dict[str, dict[str, list[str]]]:
    """Return name of a key -> path of a section with it -> the kinds that have it there.

    There are none where the section has it whatever its kind. Unlike `keys`, this makes no model of
    a kind, and does not know the sections below the hyper-parameters of kinds.
    """
    places_of: dict[str, dict[str, list[str]]] = {}

    def visit(path: str, sections: list[Any]) -> None:
        below: dict[str, list[Any]] = {}
        for section in sections:
            for name in names_of(section):
                kind = "" if is_common(section, name) else section.name
                places_of.setdefault(name, {}).setdefault(path, []).append(kind)
            common = section.common if isinstance(section, KindSchema) else section
            for name, field in common.model_fields.items():
                below[name] = list(sections_in(annotation_of(field)))
        for name, inner in below.items():
            visit(f"{path}.{name}".lstrip("."), inner)

    visit("", [Spec])
    for name, of_name in places_of.items():
        in_order = sorted(of_name, key=_rank)
        places_of[name] = {path: [] if "" in of_name[path] else of_name[path] for path in in_order}
    return places_of


def _rank(section: str) -> tuple[int, int]:
    """Return what sorts sections: the top, those that are mostly meant, the others by depth."""
    sections = ("", *SECTIONS)
    rank = sections.index(section) if section in sections else len(sections)
    return rank, section.count(".")


@per_registry
def short_field(name: str) -> FieldInfo:
    """Return a key of `client` that is short for that of the sgd in `client.optimizer`."""
    sgd = LOCAL_OPTIMIZERS.kind_of("sgd")
    assert sgd is not None
    field = sgd.model.model_fields[name]
    text = f"{field.description} Short for `optimizer: {{kind: sgd, {name}: ...}}`."
    return FieldInfo.merge_field_infos(field, description=text)


def keys_at(path: str) -> list[Key]:
    """Return the keys at a path as in `--set`: `client.lr`, `server[0].trim`, `rounds`.

    The key of `data.kind` is `data`.
    """
    without_indices = re.sub(r"\[[0-9]*\]", "", path)
    names = without_indices.removesuffix(".kind").split(".")
    return keys().get(tuple(names), [])


def keys_below(path: tuple[str, ...]) -> list[Key]:
    """Return the keys of a section that it has whatever its kind."""
    first_keys = [same_path[0] for key_path, same_path in keys().items() if key_path[:-1] == path]
    return [key for key in first_keys if not key.kinds]


def paths_of(name: str) -> list[str]:
    """Return the paths of a key, the one that is mostly meant first: `lr` -> `client.lr`.

    Parameters of kinds count only if no other key has the name.
    """
    first_keys = [same_path[0] for path, same_path in keys().items() if path[-1] == name]
    common = [key for key in first_keys if not key.kinds]
    paths = [key.dotted for key in common or first_keys]
    return sorted(paths, key=lambda path: _rank(path.rpartition(".")[0]))
