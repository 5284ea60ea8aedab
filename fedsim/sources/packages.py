"""Packages that only some readers need."""

import importlib
from typing import Any

from fedsim.errors import DataError


def required(module: str, needed_by: str, extra: str) -> Any:
    """Return a module of an optional package; without it, the error says which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        install = f"pip install 'fedsim-jax[{extra}]', or pip install {package}"
        raise DataError(f"{needed_by} needs {package}: {install}") from None
