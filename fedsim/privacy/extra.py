"""The accountants of dp-accounting, which not everybody has installed."""

from typing import Any

from fedsim.errors import PrivacyError


def dp_accounting() -> Any:
    """Return dp-accounting.

    Raises:
      PrivacyError: where it is not installed.
    """
    try:
        import dp_accounting as module
    except ImportError:
        raise PrivacyError("", needs("dp-accounting")) from None
    return module


def needs(package: str) -> str:
    """Return how to install what is missing."""
    return f"needs {package}: pip install 'fedsim-jax[privacy]'"
