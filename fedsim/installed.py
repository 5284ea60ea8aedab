"""Which tools are installed: the folders of `fedsim.tools`, and what each of them adds."""

import functools
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

TOOLS = "tools"


@functools.cache
def tools() -> dict[str, ModuleType]:
    """Return name -> module of every tool, whose modules are not imported."""
    folder = Path(__file__).parent / TOOLS
    names = [module.name for module in pkgutil.iter_modules([str(folder)])]
    return {name: import_module(f"fedsim.{TOOLS}.{name}") for name in names}


def added(entry: str) -> Iterator[tuple[str, Any]]:
    """Yield (name of a tool, what it adds) for every tool with an entry.

    Args:
      entry: such as `COMMANDS`; `fedsim.tools` lists them.
    """
    for name, module in tools().items():
        if hasattr(module, entry):
            yield name, getattr(module, entry)


def module_of(tool: str, module: str) -> ModuleType:
    """Import a module of a tool."""
    return import_module(f"fedsim.{TOOLS}.{tool}.{module}")


def texts_of(file: str) -> Iterator[str]:
    """Yield a file of fedsim, then that of every tool that has one.

    Args:
      file: such as `synonyms.csv`.
    """
    root = Path(__file__).parent
    for folder in (root, *(root / TOOLS / name for name in tools())):
        path = folder / file
        if path.exists():
            yield path.read_text(encoding="utf-8")
