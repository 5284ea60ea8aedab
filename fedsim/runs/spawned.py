"""How a process begins that another one has started to play runs.

It ends with that one, and is set up as that one is.
"""

import ctypes
import os
import signal
import sys
from typing import Any

CACHE = (  # settings of JAX
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)
PDEATHSIG = 1  # of Linux' prctl: a signal when the parent dies, whatever killed it


def compile_cache() -> dict[str, Any]:
    """Where this process keeps compiled programs, and which."""
    import jax

    return {name: jax.config.values[name] for name in CACHE}


def begin(parent: int, plugins: tuple[str, ...], cache: dict[str, Any]) -> None:
    """This process ends with its parent, knows its plug-ins, and finds what it has compiled.

    Args:
      parent: number of the process that started this one.
      plugins: as `enable` takes them.
      cache: of `compile_cache`.
    """
    end_with(parent)
    import jax

    for name, value in cache.items():
        jax.config.update(name, value)
    from fedsim.scenario import enable

    for plugin in plugins:
        enable(plugin)


def end_with(parent: int) -> None:
    """This process leaves Ctrl-C to its parent, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
