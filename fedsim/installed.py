"""Which fields and tools are installed, and what each of them adds.

They are the folders of `fedsim.fields` and `fedsim.tools`; other packages add fields by the
entry-point group `fedsim.fields`.
"""

import functools
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from fedsim.errors import FieldError

FIELDS = "fields"
TOOLS = "tools"
ROOT = Path(__file__).parent


@functools.cache
def tools() -> dict[str, ModuleType]:
    """Return name -> package of every tool, whose modules are not imported."""
    return _folders(TOOLS)


@functools.cache
def fields() -> dict[str, ModuleType]:
    """Return name -> package of every field, in the order in which they are asked."""
    found = present_fields()
    usable = {name: found[name] for name in found if not missing_requirements(name)}
    return dict(sorted(usable.items(), key=lambda item: (item[1].ORDER, item[0])))


@functools.cache
def present_fields() -> dict[str, ModuleType]:
    """Return name -> package of every field, also of those that lack one that they require.

    Raises:
      FieldError: for a field of another package that cannot be used.
    """
    packages = _folders(FIELDS)
    for point in entry_points(group=f"fedsim.{FIELDS}"):
        if point.name in packages:
            raise FieldError(f"{_refused(point)}: there is another field of this name; rename it")
        packages[point.name] = _loaded(point)
    return packages


def _loaded(point: EntryPoint) -> ModuleType:
    try:
        package = point.load()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise FieldError(f"{_refused(point)}: {text}; mend or uninstall it") from error
    if not isinstance(getattr(package, "ORDER", None), int):
        text = "its package has no number ORDER; write ORDER = 100"
        raise FieldError(f"{_refused(point)}: {text}")
    return package


def _refused(point: EntryPoint) -> str:
    """The words by which a field of another package is refused."""
    return f"the field {point.name} ({point.value})"


def missing_requirements(field: str) -> list[str]:
    """Return the fields that a field needs, by itself or through others, and that are missing."""
    found = present_fields()
    missing = []
    for name in getattr(found[field], "REQUIRES", ()):
        missing += missing_requirements(name) if name in found else [name]
    return missing


def _folders(room: str) -> dict[str, ModuleType]:
    names = [each.name for each in pkgutil.iter_modules([str(ROOT / room)]) if each.ispkg]
    return {name: import_module(f"fedsim.{room}.{name}") for name in names}


def packages() -> list[ModuleType]:
    """Return the packages of all fields, then those of all tools."""
    return [*fields().values(), *tools().values()]


def added(entry: str) -> Iterator[tuple[str, Any]]:
    """Yield (name of a package, what it adds) for every field and tool with an entry.

    Args:
      entry: such as `COMMANDS`; `fedsim.fields` and `fedsim.tools` list them.
    """
    for package in packages():
        if hasattr(package, entry):
            yield package.__name__, getattr(package, entry)


def module_of(package: str, module: str) -> ModuleType:
    """Import a module of a package that `added` names."""
    return import_module(f"{package}.{module}")


def modules_with(entry: str) -> Iterator[ModuleType]:
    """Yield the module that every field and tool with an entry names there."""
    for package, module in added(entry):
        yield module_of(package, module)


def offered(entry: str, name: str) -> Iterator[Any]:
    """Yield what the modules of an entry have by a name, of those that have it."""
    for module in modules_with(entry):
        if hasattr(module, name):
            yield getattr(module, name)


def texts_of(file: str) -> Iterator[str]:
    """Yield a file of fedsim, then that of every field and tool that has one.

    Args:
      file: such as `synonyms.csv`.
    """
    for folder in (ROOT, *map(folder_of, packages())):
        path = folder / file
        if path.exists():
            yield path.read_text(encoding="utf-8")


def folder_of(package: ModuleType) -> Path:
    """Return the folder of a package."""
    return Path(package.__path__[0])
