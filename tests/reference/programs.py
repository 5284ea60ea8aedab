"""Compiled programs of the tests: quickly made where few runs use them, and let go before there are too many."""

from pathlib import Path

import jax
import pytest


@pytest.fixture(autouse=True)
def programs(request):
    """In the fast part XLA optimises little; in the long one programs go before they use up the maps of a process.

    A process may have 65,530 maps on Linux; beyond, XLA crashes. `conftest.room` counts them between files alone.
    """
    long = request.node.get_closest_marker("long")
    jax.config.update("jax_disable_most_optimizations", not long)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    maps = Path("/proc/self/maps")
    if long and maps.exists() and maps.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()
