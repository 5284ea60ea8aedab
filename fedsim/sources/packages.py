"""Packages that only some readers need."""

import importlib
from typing import Any

from fedsim.errors import DataError


def required(module: str, needed_by: str, extra: str) -> Any:
    """Return a module of an optional package.

    Args:
      module: its name.
      needed_by: what needs it, for the error.
      extra: the extra of fedsim that brings the package.

    Raises:
      DataError: saying how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        install = f"pip install 'fedsim-jax[{extra}]', or pip install {package}"
        raise DataError(f"{needed_by} needs {package}: {install}") from None
