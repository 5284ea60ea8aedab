"""The library torch, which not everybody has installed."""

from importlib.util import find_spec

MISSING = "torch is not installed: pip install 'fedsim-jax[torch]'"


def is_installed() -> bool:
    """Whether there is the library."""
    return find_spec("torch") is not None
