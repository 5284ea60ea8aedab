"""HDF5 files of examples by client, as TensorFlow Federated has them: `examples/CLIENT/FIELD`.

They are read by h5py in a separate process, `hdf5_reader`, which may use a limited amount of
memory, and is ended when it makes no progress: damaged files lead HDF5 into endless loops and
crashes. Arrays come back in a file.
"""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fedsim.errors import DataError
from fedsim.limits import memory_limit
from fedsim.sources.files import MAX_BYTES, MAX_RATIO, SMALL_BYTES, opened
from fedsim.sources.names import fault_of_name

PROGRAM = Path(__file__).with_name("hdf5_reader.py")
SECONDS = 60  # that a step may take, and more where it reads much
SPARE_BYTES = 1 << 30  # of memory for Python and HDF5, besides the arrays
CLIENTS_PER_QUESTION = 256
MAX_ID_CHARACTERS = 200
ENVIRONMENT = {
    "HDF5_PLUGIN_PRELOAD": "::",  # load no filters, which are programs
    "OPENBLAS_NUM_THREADS": "1",  # each thread takes memory
}


class Examples:
    """The examples of a file, client by client.

    Args:
      process: the reader of the file.
      arrays: the file that it writes arrays into.
      errors: its standard error.

    Attributes:
      clients: the ids of the clients, sorted.

    Raises:
      DataError: for invalid ids.
    """

    def __init__(self, process: subprocess.Popen, arrays: BinaryIO, errors: BinaryIO):
        self.process = process
        self.arrays = arrays
        self.errors = errors
        clients = self._ask(ask="clients")
        for client in clients:
            fault = fault_of_name(client)
            if fault is not None:
                raise DataError(f"client {fault}")
        self.clients = sorted(clients)
        for client in self.clients:
            if not 0 < len(client) <= MAX_ID_CHARACTERS or not client.isprintable():
                rule = f"an id is a text of 1 to {MAX_ID_CHARACTERS} printable characters"
                raise DataError(f"client {client[:40]!a}: {rule}")

    def fields(self, client: str) -> list[str]:
        """Return the names of the fields of a client's examples."""
        return self._ask(ask="fields", client=client)

    def read(self, fields: Sequence[str], clients: int | None = None) -> Iterator[list[np.ndarray]]:
        """Yield fields of each client's examples: numbers `[n, ...]`, or texts as bytes `[n]`.

        Args:
          fields: the names of the fields.
          clients: how many clients are read, the first ones; None: all.

        Raises:
          DataError: for fields that are not plain arrays, or would fill the memory.
        """
        remaining = self.clients[:clients]
        while remaining:
            batch = remaining[:CLIENTS_PER_QUESTION]
            answer = self._ask(ask="read", clients=batch, fields=fields)
            self.arrays.seek(0)
            # The reader answers for as many of the clients as fit into the file.
            for are_texts in answer:
                yield [self._texts() if is_text else self._array() for is_text in are_texts]
            remaining = remaining[len(answer) :]

    def _array(self) -> np.ndarray:
        """The next array in the file."""
        return np.load(self.arrays, allow_pickle=False)

    def _texts(self) -> np.ndarray:
        """The next texts in the file, stored as an array of their lengths and one of all bytes."""
        ends = np.cumsum(self._array()).tolist()
        starts = [0, *ends[:-1]]
        content = self._array().tobytes()
        texts = np.empty(len(ends), object)
        texts[:] = [content[start:end] for start, end in zip(starts, ends, strict=False)]
        return texts

    def _ask(self, **question: Any) -> Any:
        """Ask the reader.

        Raises:
          DataError: where it refuses the file, or has ended.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and may have said why
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            raise DataError(self._exit_reason())
        reply = json.loads(line)
        if "refused" in reply:
            raise DataError(reply["refused"])
        return reply["answer"]

    def _exit_reason(self) -> str:
        """Why the reader ended without an answer."""
        code = self.process.wait()
        if code == -signal.SIGALRM:
            reason = f"HDF5 made no progress and was ended after {SECONDS} seconds"
            return f"not a sound HDF5 file: {reason}"
        if code < 0:
            return f"not a sound HDF5 file: HDF5 was ended by {signal.Signals(-code).name}"
        self.errors.seek(0)
        lines = self.errors.read().decode("utf-8", "replace").splitlines()
        reason = lines[-1][:200] if lines else code
        return f"its reader ended: {reason}"


@contextlib.contextmanager
def examples(path: Path) -> Iterator[Examples]:
    """Open the examples of a file; errors name the file.

    Raises:
      DataError: for another file, or where h5py is missing.
    """
    if find_spec("h5py") is None:
        install = "pip install 'fedsim-jax[hdf5]', or pip install h5py"
        raise DataError(f"tff_hdf5 needs h5py: {install}")
    with (
        opened(str(path), None, math.inf) as file,
        tempfile.TemporaryFile(buffering=0) as arrays,
        tempfile.TemporaryFile() as errors,
    ):
        size = os.fstat(file.fileno()).st_size
        max_bytes = min(MAX_BYTES, max(MAX_RATIO * size, SMALL_BYTES))
        settings = {
            "path": str(path),
            "arrays": arrays.fileno(),
            "max_bytes": max_bytes,
            "limit": f"{MAX_BYTES} bytes, or {MAX_RATIO} times its size",
            "memory": min(max_bytes + SPARE_BYTES, memory_limit()),
            "seconds": SECONDS,
        }
        process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", str(PROGRAM), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=[arrays.fileno()],
            env=os.environ | ENVIRONMENT,
            start_new_session=True,  # Ctrl-C goes to this process, which ends that one
            text=True,
        )
        try:
            yield Examples(process, arrays, errors)
        finally:
            process.kill()
            process.communicate()
