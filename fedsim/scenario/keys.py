"""Every key of a scenario by its path: where a name stands, what may stand there, its default."""

import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from fedsim.scenario.annotations import annotation_of, fields_of, names_of, nested_in, sections_in
from fedsim.scenario.schema import Kind, per_registry
from fedsim.scenario.sections import CLIENT_SGD, LOCAL_OPTIMIZERS, Spec


class Key(NamedTuple):
    """A key at a path."""

    path: tuple[str, ...]  # without list indices
    field: FieldInfo
    kinds: tuple[
        str, ...
    ]  # the kinds that have the key as a parameter of their own; none for one that all have

    @property
    def dotted(self) -> str:
        return ".".join(self.path)


@per_registry
def keys() -> dict[tuple[str, ...], list[Key]]:
    """Path -> its keys: one that all kinds have first, then a key for each that kinds mean in their own way."""
    known: dict[tuple[str, ...], list[Key]] = {}
    for path, section, field in _walk(Spec, (), set()):
        at = known.setdefault(path, [])
        kinds = () if _is_common(section, path[-1]) else (section.name,)
        same = next(
            (
                key
                for key in at
                if bool(key.kinds) == bool(kinds) and _means(key.field) == _means(field)
            ),
            None,
        )
        if same is None:
            at.append(Key(path, field, kinds))
        else:
            at[at.index(same)] = same._replace(kinds=tuple(dict.fromkeys((*same.kinds, *kinds))))
    for name in CLIENT_SGD:
        known.setdefault(("client", name), []).append(Key(("client", name), short_field(name), ()))
    return {path: sorted(at, key=lambda key: bool(key.kinds)) for path, at in known.items()}


@per_registry
def key_names() -> set[str]:
    """The last words of all paths, without a model of any kind."""
    names, sections = {*CLIENT_SGD}, [Spec]
    while sections:
        section = sections.pop()
        names.update(names_of(section))
        sections += [
            inner for annotation in nested_in(section).values() for inner in sections_in(annotation)
        ]
    return names


@per_registry
def short_field(name: str) -> FieldInfo:
    """A key of `client` that is short for the sgd's of `client.optimizer`."""
    sgd = LOCAL_OPTIMIZERS.named_by("sgd")
    assert sgd is not None
    field = sgd.model.model_fields[name]
    text = f"{field.description} Short for `optimizer: {{kind: sgd, {name}: ...}}`."
    return FieldInfo.merge_field_infos(field, description=text)


def _walk(
    annotation: Any, path: tuple[str, ...], seen: set
) -> Iterator[tuple[tuple[str, ...], Any, FieldInfo]]:
    for section in sections_in(annotation):
        if (path, section) in seen:
            continue
        seen.add((path, section))
        for name, field in fields_of(section).items():
            if name == "kind":
                continue
            yield (*path, name), section, field
            yield from _walk(annotation_of(field), (*path, name), seen)


def _is_common(section: Any, name: str) -> bool:
    """Whether a key is one that a section has whatever its kind."""
    return (
        not isinstance(section, Kind) or name not in inspect.signature(section.factory).parameters
    )


def _means(field: FieldInfo) -> str:
    return repr((field.description, field.default, field.annotation, field.metadata))


def keys_at(written: str) -> list[Key]:
    """The keys at a path as `--set` takes it: `client.lr`, `server[0].trim`, `rounds`; `data.kind` is what `data` is."""
    return keys().get(
        tuple(re.sub(r"\[[0-9]*\]", "", written).removesuffix(".kind").split(".")), []
    )


def keys_below(path: tuple[str, ...]) -> list[Key]:
    """The keys of a section that all of its kinds have."""
    return [at[0] for below, at in keys().items() if below[:-1] == path and not at[0].kinds]


def paths_of(name: str) -> list[str]:
    """Where a key of this name stands: `lr` -> `client.lr`; among parameters of kinds only where it is nowhere else."""
    named = [key for path, at in keys().items() if path[-1] == name for key in at[:1]]
    common = [key.dotted for key in named if not key.kinds]
    return sorted(common, key=lambda path: path.count(".")) or [key.dotted for key in named]
