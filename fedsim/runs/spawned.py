"""The start of a process that another one spawned to execute runs.

It ends with its parent, and is set up in the same way.
"""

import ctypes
import os
import signal
import sys
from typing import Any

CACHE_SETTINGS = (  # of JAX
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)
PDEATHSIG = 1  # of Linux' prctl: a signal when the parent dies, whatever killed it


def compile_cache() -> dict[str, Any]:
    """JAX's settings of the cache in which this process stores compiled programs."""
    import jax

    return {name: jax.config.values[name] for name in CACHE_SETTINGS}


def begin(parent: int, plugins: tuple[str, ...], cache: dict[str, Any]) -> None:
    """Set this process up like its parent, with which it ends.

    Args:
      parent: the id of the process that spawned this one.
    """
    end_with(parent)
    import jax

    for name, value in cache.items():
        jax.config.update(name, value)
    from fedsim.scenario import enable

    for plugin in plugins:
        enable(plugin)


def end_with(parent: int) -> None:
    """Leave Ctrl-C to the parent, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)
    # The parent may have ended before the call above.
    if os.getppid() != parent:
        os._exit(1)
