"""Several processes as one run: each plans the same rounds and trains its share of the lanes; the first one writes.

When one of them dies the others cannot go on. XLA then raises, or aborts the process from a thread of its own with pages
of log; both end here, in one line.
"""

import ctypes
import os
import signal
import sys
import tempfile
from typing import Any

import jax
import numpy as np
from jax._src import distributed

from fedsim.disk.checkpoint import Snapshot, decode, encode
from fedsim.errors import ProcessError

HEARTBEAT = 10  # seconds without a sign of life after which a process counts as dead
_kept: list[Any] = []  # the handler must live as long as the process
_number: list[int] = []  # of this process, once it has joined


def join(coordinator: str, processes: int | None, process: int | None, lost: str) -> None:
    """Become one of the processes of a run; before anything else uses the devices.

    Args:
      coordinator: `HOST:PORT` of the first process, or `auto` to ask the scheduler's environment (Slurm, Open MPI, ...).
      processes: how many there are.
      process: number of this one, from 0.
      lost: line to print when another process is gone.

    Raises:
      ProcessError: when the processes do not come together.
    """
    log = _quiet()
    _end_readably(f"fedsim: error: {lost} (log: {log})\n")
    address = None if coordinator == "auto" else coordinator
    try:
        jax.distributed.initialize(address, processes, process, heartbeat_timeout_seconds=HEARTBEAT)
    except (ValueError, RuntimeError, TypeError) as error:
        raise ProcessError(f"--coordinator {coordinator}: {str(error).splitlines()[0]}") from None
    _number.append(
        distributed.global_state.process_id
    )  # `jax.process_index` would start the devices


def joined() -> bool:
    """Whether this process is one of several."""
    return bool(_number)


def first() -> bool:
    """Whether this process is the one that writes."""
    return _number in ([], [0])


def shared(snapshot: Snapshot | None) -> Snapshot | None:
    """What the first process read, for all of them."""
    if not joined():
        return snapshot
    from jax.experimental import multihost_utils

    blob = b"".join(encode(snapshot)) if snapshot is not None and first() else b""
    size = int(multihost_utils.broadcast_one_to_all(np.array(len(blob), np.int32)))
    padded = (
        np.frombuffer(blob.ljust(size, b"\0"), np.uint8) if first() else np.zeros(size, np.uint8)
    )
    whole = np.asarray(multihost_utils.broadcast_one_to_all(padded)).tobytes() if size else b""
    return decode(whole) if whole else None


def _quiet() -> str:
    """What C++ prints goes to a file; Python's own streams go on to where they went."""
    log, path = tempfile.mkstemp(prefix="fedsim-", suffix=".log")
    for name, number in (("stdout", 1), ("stderr", 2)):
        getattr(sys, name).flush()
        setattr(sys, name, os.fdopen(os.dup(number), "w", buffering=1))
        os.dup2(log, number)
    return path


def _end_readably(line: str) -> None:
    """An abort ends the process with one line and exit code 1. Python's own handlers come too late for that."""

    def aborted(number: int) -> None:
        del number
        os.write(sys.stderr.fileno(), line.encode())
        os._exit(1)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(aborted)
    _kept.append(handler)
    ctypes.CDLL(None).signal(signal.SIGABRT, handler)
