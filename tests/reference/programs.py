"""Compiled programs of tests: little optimised if few runs use them, and freed in time."""

from pathlib import Path

import jax
import pytest


@pytest.fixture(autouse=True)
def programs(request):
    """Let XLA optimise little in fast tests; free programs in long ones before maps run out.

    On Linux a process may have 65,530 memory maps, and XLA crashes beyond that. The fixture of
    `conftest` only counts them between files.
    """
    long = request.node.get_closest_marker("long")
    jax.config.update("jax_disable_most_optimizations", not long)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    maps = Path("/proc/self/maps")
    if long and maps.exists() and maps.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()
