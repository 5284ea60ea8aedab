"""Keys that fields add to the sections of a scenario."""

import ast
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import new_class
from typing import Any, NamedTuple

from fedsim.errors import FieldError
from fedsim.installed import added, module_of, offered
from fedsim.scenario.schema import Section


class AddedKeys(NamedTuple):
    """Keys of a section that a field adds.

    Attributes:
      section: the section's path, empty for the top of a scenario.
      after: the key that they stand behind; empty: they come first.
      keys: a class with annotations, defaults, a string below each key, and validators.
      written: whether resolved scenarios have them also where they are None.
    """

    section: str
    after: str
    keys: type
    written: bool = False

    def names(self) -> list[str]:
        """Return the paths of the keys."""
        prefix = f"{self.section}." if self.section else ""
        return [f"{prefix}{name}" for name in inspect.get_annotations(self.keys)]


def extensible(path: str) -> Callable[[type], type[Section]]:
    """Decorator: make a class with keys the section at a path, with the keys that fields add."""

    def with_added_keys(own: type) -> type[Section]:
        own_names = list(inspect.get_annotations(own))
        known = list(own_names)
        of_fields = []
        for package, keys in keys_of_fields():
            if keys.section == path:
                _require_new(package, keys, known)
                _require_place(package, keys, own_names)
                known += inspect.get_annotations(keys.keys)
                of_fields.append(keys)
        annotations: dict[str, Any] = {}
        for name, annotation in {"": None, **inspect.get_annotations(own)}.items():
            if name:
                annotations[name] = annotation
            for each in reversed(of_fields):  # the keys of the field that is asked last stand first
                if each.after == name:
                    annotations |= inspect.get_annotations(each.keys)

        namespace: dict[str, Any] = {}
        for keys in (own, *(each.keys for each in of_fields)):
            for name, value in _body(keys).items():
                namespace.setdefault(name, value)
        namespace["__annotations__"] = annotations
        section = new_class(own.__name__, (Section,), exec_body=lambda body: body.update(namespace))
        for keys in (own, *(each.keys for each in of_fields)):
            describe(section, keys)
        return section

    return with_added_keys


def _require_new(package: str, keys: AddedKeys, known: list[str]) -> None:
    """Refuse keys that a section has already, with a FieldError."""
    for name in inspect.get_annotations(keys.keys):
        if name in known:
            section = keys.section or "a scenario"
            raise FieldError(f"{package}: {section} has a key {name}; rename that of the field")


def _require_place(package: str, keys: AddedKeys, own_names: list[str]) -> None:
    """Refuse keys that stand behind one that the section does not have, with a FieldError."""
    if keys.after and keys.after not in own_names:
        section = keys.section or "a scenario"
        text = f"its keys stand behind {keys.after}, which {section} does not have itself"
        raise FieldError(f"{package}: {text}; write one of {', '.join(own_names)}")


def keys_of_fields() -> Iterator[tuple[str, AddedKeys]]:
    """Yield (package, keys) of every field that adds some."""
    for package, module in added("KEYS"):
        for keys in module_of(package, module).KEYS:
            yield package, keys


def _body(keys: type) -> dict[str, Any]:
    """The names of a class that a section takes over."""
    ours = ("__module__", "__qualname__", "__doc__")
    return {name: value for name, value in vars(keys).items() if name in ours or name[:2] != "__"}


def leave_out_added(plain: dict[str, Any]) -> None:
    """Remove the keys of fields that are None from a scenario's plain values."""
    for _, keys in keys_of_fields():
        if keys.written:
            continue
        section = plain[keys.section] if keys.section else plain
        for name in inspect.get_annotations(keys.keys):
            if section.get(name) is None:
                section.pop(name, None)


def idle_sections(spec: Any) -> tuple[str, ...]:
    """Return the sections that say nothing in a scenario, because of what fields have there."""
    return tuple(itertools.chain(*(idle(spec) for idle in offered("KEYS", "idle"))))


def without_messages() -> dict[str, Any]:
    """Return what fields have baselines set, of which no message is sent."""
    sections: dict[str, Any] = {}
    for of_field in offered("KEYS", "WITHOUT_MESSAGES"):
        sections |= of_field
    return sections


def settled_keys(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return kind of a rule -> the keys that fields settle where nobody says otherwise."""
    settled: dict[str, dict[str, Any]] = {}
    for settles in offered("KEYS", "settles"):
        settled |= settles(values)
    return settled


def describe(section: type[Section], keys: type | None = None) -> None:
    """Make the string below each key in the file of a section the description of the key.

    pydantic offers the same (`use_attribute_docstrings`), but reads the file for every section.

    Args:
      keys: the class that has the strings; None: the section itself.
    """
    source = keys or section
    for statement, next_statement in itertools.pairwise(
        _bodies(source.__module__)[source.__name__]
    ):
        text = _string(next_statement)
        if isinstance(statement, ast.AnnAssign) and text is not None:
            field = section.model_fields[ast.unparse(statement.target)]
            field.description = inspect.cleandoc(text)


@functools.cache
def _bodies(module: str) -> dict[str, list[ast.stmt]]:
    """Return class -> its statements, of the classes at the top of a module."""
    file = sys.modules[module].__file__
    assert file is not None
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}


def _string(statement: ast.stmt) -> str | None:
    """Return the text of a statement that is just a string."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return str(statement.value.value)
    return None
