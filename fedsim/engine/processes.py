"""Several processes as one run: each plans the same rounds and trains its share of the lanes.

The first process writes. When one of them dies, the others cannot continue. XLA then raises, or
aborts the process from its own thread with pages of log; both end here, in one line.
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
_handlers: list[Any] = []  # C function pointers, which must live as long as the process
_number: list[int] = []  # of this process, once it has joined


def join(coordinator: str, processes: int | None, process: int | None, lost: str) -> None:
    """Make this process one of a run's processes, before anything else uses the devices.

    Args:
      coordinator: `HOST:PORT` of the first process, or `auto` to ask the scheduler's environment
        (Slurm, Open MPI, ...).
      process: number of this one, from 0.
      lost: line to print when another process is gone.

    Raises:
      ProcessError: when the processes do not come together.
    """
    log = _redirect_native_output()
    _end_readably(f"fedsim: error: {lost} (log: {log})\n")
    address = None if coordinator == "auto" else coordinator
    try:
        jax.distributed.initialize(address, processes, process, heartbeat_timeout_seconds=HEARTBEAT)
    except (ValueError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ProcessError(f"--coordinator {coordinator}: {reason}") from None
    # `jax.process_index` would start the devices.
    _number.append(distributed.global_state.process_id)


def is_multiprocess() -> bool:
    """Return whether this process is one of several."""
    return bool(_number)


def is_first_process() -> bool:
    """Return whether this process is the one that writes."""
    return _number in ([], [0])


def from_first_process(snapshot: Snapshot | None) -> Snapshot | None:
    """Return what the first process read, in all processes.

    Args:
      snapshot: what this process read; None: nothing.
    """
    if not is_multiprocess():
        return snapshot
    from jax.experimental import multihost_utils

    # All processes must know the size before the bytes are broadcast.
    blob = b""
    if snapshot is not None and is_first_process():
        blob = b"".join(encode(snapshot))
    size = int(multihost_utils.broadcast_one_to_all(np.array(len(blob), np.int32)))
    if not size:
        return None

    data = np.zeros(size, np.uint8)
    if is_first_process():
        data = np.frombuffer(blob, np.uint8)
    received = np.asarray(multihost_utils.broadcast_one_to_all(data))
    return decode(received.tobytes())


def _redirect_native_output() -> str:
    """Write what C++ prints to a file, and return its path; Python's streams stay as they are."""
    log, path = tempfile.mkstemp(prefix="fedsim-", suffix=".log")
    for name, number in (("stdout", 1), ("stderr", 2)):
        getattr(sys, name).flush()
        setattr(sys, name, os.fdopen(os.dup(number), "w", buffering=1))
        os.dup2(log, number)
    return path


def _end_readably(line: str) -> None:
    """Let an abort end the process with one line and exit code 1.

    Python's own signal handlers would run too late for that.
    """

    def aborted(number: int) -> None:
        del number
        os.write(sys.stderr.fileno(), line.encode())
        os._exit(1)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(aborted)
    _handlers.append(handler)
    ctypes.CDLL(None).signal(signal.SIGABRT, handler)
