"""Packages of the extra `privacy`, which not everybody has installed."""

from importlib import import_module
from typing import Any

from fedsim.errors import PrivacyError


def dp_accounting() -> Any:
    """Return dp-accounting; a `PrivacyError` where it is not installed."""
    return imported("dp_accounting", package="dp-accounting")


def imported(module: str, package: str, key: str = "") -> Any:
    """Return a module of a package.

    Args:
      key: the key of `privacy` that asks for it; empty: the section.
    """
    try:
        return import_module(module)
    except ImportError:
        text = f"needs {package}: pip install 'fedsim-jax[privacy]'"
        raise PrivacyError(key, text) from None
