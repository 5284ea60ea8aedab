"""HDF5 files of examples by client, as TensorFlow Federated has them: `examples/CLIENT/FIELD`.

They are read by h5py in a process of its own, `hdf5_reader`, which may hold so much memory, and is
ended where it gets on no more: damaged files lead HDF5 into endless loops and crashes. Arrays come
back in a file.
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
from fedsim.sources.files import MOST_BYTES, MOST_RATIO, SMALL_BYTES, opened
from fedsim.sources.names import fault_of

PROGRAM = Path(__file__).with_name("hdf5_reader.py")
SECONDS = 60  # that a step may take, and more where it reads much
SPARE_BYTES = 1 << 30  # of memory, for Python and HDF5, beside the arrays
ASKED = 256  # clients that are asked for at a time
MOST_NAME = 200  # characters of a client's id
ENVIRONMENT = {
    "HDF5_PLUGIN_PRELOAD": "::",  # filters that are loaded as programs: none
    "OPENBLAS_NUM_THREADS": "1",  # each takes room
}


class Examples:
    """The examples of a file, client after client.

    Args:
      process: the reader of the file.
      arrays: where it leaves arrays.
      errors: where it says what ended it.

    Attributes:
      clients: their ids, sorted.

    Raises:
      DataError: for ids that name nothing.
    """

    def __init__(self, process: subprocess.Popen, arrays: BinaryIO, errors: BinaryIO):
        self.process = process
        self.arrays = arrays
        self.errors = errors
        names = self._told(ask="clients")
        for name in names:
            if (fault := fault_of(name)) is not None:
                raise DataError(f"client {fault}")
        self.clients = sorted(names)
        for name in self.clients:
            if not 0 < len(name) <= MOST_NAME or not name.isprintable():
                text = f"an id is a text of 1 to {MOST_NAME} printable characters"
                raise DataError(f"client {name[:40]!a}: {text}")

    def fields(self, client: str) -> list[str]:
        """Names of what a client's examples consist of."""
        return self._told(ask="fields", client=client)

    def read(self, fields: Sequence[str], clients: int | None = None) -> Iterator[list[np.ndarray]]:
        """Fields of the examples of each client: numbers `[n, ...]`, or texts as bytes `[n]`.

        Args:
          fields: their names.
          clients: only so many, the first ones; None: all.

        Raises:
          DataError: for what is no plain array, or would fill the memory.
        """
        names = self.clients[:clients]
        place = 0
        while place < len(names):
            told = self._told(ask="read", clients=names[place : place + ASKED], fields=fields)
            self.arrays.seek(0)
            for texts in told:
                yield [self._texts() if are_texts else self._array() for are_texts in texts]
            place += len(told)

    def _array(self) -> np.ndarray:
        """The next array in the file."""
        return np.load(self.arrays, allow_pickle=False)

    def _texts(self) -> np.ndarray:
        """The next texts in the file."""
        ends = np.cumsum(self._array()).tolist()
        content = self._array().tobytes()
        texts = np.empty(len(ends), object)
        texts[:] = [content[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        return texts

    def _told(self, **question: Any) -> Any:
        """What the reader answers to a question.

        Raises:
          DataError: where it refuses the file, or has ended.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and may have said why
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer.endswith("\n"):
            raise DataError(self._end())
        known = json.loads(answer)
        if "refused" in known:
            raise DataError(known["refused"])
        return known["told"]

    def _end(self) -> str:
        """How the reader ended that has not answered."""
        code = self.process.wait()
        if code == -signal.SIGALRM:
            text = f"HDF5 got on no more, and was ended after {SECONDS} seconds"
            return f"not a sound HDF5 file: {text}"
        if code < 0:
            return f"not a sound HDF5 file: HDF5 was ended by {signal.Signals(-code).name}"
        self.errors.seek(0)
        lines = self.errors.read().decode("utf-8", "replace").splitlines()
        return f"its reader ended: {lines[-1][:200] if lines else code}"


@contextlib.contextmanager
def examples(path: Path) -> Iterator[Examples]:
    """The examples of a file; faults are headed by its name.

    Raises:
      DataError: for another file, or where h5py is missing.
    """
    if find_spec("h5py") is None:
        text = "tff_hdf5 needs h5py: pip install 'fedsim-jax[hdf5]', or pip install h5py"
        raise DataError(text)
    with (
        opened(str(path), None, math.inf) as file,
        tempfile.TemporaryFile(buffering=0) as arrays,
        tempfile.TemporaryFile() as errors,
    ):
        most = min(MOST_BYTES, max(MOST_RATIO * os.fstat(file.fileno()).st_size, SMALL_BYTES))
        settings = {
            "path": str(path),
            "arrays": arrays.fileno(),
            "most": most,
            "limit": f"{MOST_BYTES} bytes, or {MOST_RATIO} times its size",
            "memory": min(most + SPARE_BYTES, memory_limit()),
            "seconds": SECONDS,
        }
        process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", str(PROGRAM), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=[arrays.fileno()],
            env=os.environ | ENVIRONMENT,
            start_new_session=True,  # Ctrl-C is for this process, which ends that one
            text=True,
        )
        try:
            yield Examples(process, arrays, errors)
        finally:
            process.kill()
            process.communicate()
