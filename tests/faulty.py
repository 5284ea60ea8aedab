"""A disk that fails on demand: the N-th operation on a folder kills the process or raises an error.

    with Disk(folder, at=7) as disk: ...                    # the process dies at the 7th operation
    with Disk(folder, at=7, error=errno.EIO) as disk: ...   # the 7th operation fails

With `lasting=True` all later operations fail, too. The kernel keeps what a killed process wrote, so
nothing is really flushed here, which is quick and makes no difference to a kill. That everything is
flushed before it counts is a matter of the order of operations, recorded in `disk.trace`.
"""

import os
from typing import Any, NamedTuple

WRITES = ("write", "pwrite")
OPERATIONS = (*WRITES, "open", "fsync", "replace", "ftruncate", "unlink", "mkdir", "rmdir")


class Killed(BaseException):
    """Simulates SIGKILL: nothing catches it, and handlers that run on the way change no file."""


class Step(NamedTuple):
    """An operation that was requested."""

    name: str
    path: str


class Disk:
    """The operations of `os` on a folder, counted from 1.

    Args:
      folder: the folder; operations elsewhere are not affected.
      at: the number of the operation that fails; None: none does.
      error: the number of the system's error; None: the process is killed.
      lasting: whether all later operations fail as well; after a kill they always do.
      half: whether a write that is killed has written half of its bytes.
      short: the most bytes that one write takes.
    """

    def __init__(
        self,
        folder: os.PathLike | str,
        at: int | None = None,
        error: int | None = None,
        lasting: bool = False,
        half: bool = False,
        short: int | None = None,
    ):
        self.folder, self.at, self.error = os.fspath(folder), at, error
        self.lasting, self.half, self.short = lasting or error is None, half, short
        self.count, self.trace = 0, []
        self.files: dict[int, str] = {}  # descriptors of the folder
        self.real: dict[str, Any] = {}

    @property
    def struck(self) -> bool:
        """Whether the operation that was to fail was reached."""
        return self.at is not None and self.count >= self.at

    def __enter__(self) -> "Disk":
        self.real = {name: getattr(os, name) for name in (*OPERATIONS, "close")}
        for name in OPERATIONS:
            setattr(os, name, self._counting(name))
        os.close = self._close
        return self

    def __exit__(self, *_: Any) -> None:
        for name, real in self.real.items():
            setattr(os, name, real)
        killed = self.struck and self.error is None
        # The kernel closes the files of a killed process.
        for file in self.files if killed else ():
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, file, inheritable=False)
            os.close(nothing)

    def _close(self, file: int) -> None:
        self.files.pop(file, None)
        self.real["close"](file)

    def _counting(self, name: str):
        real = self.real[name]

        def operation(target: Any, *arguments: Any, **options: Any) -> Any:
            path = self._path(target, options.get("dir_fd"))
            if path is None:
                return real(target, *arguments, **options)
            self.count += 1
            self.trace.append(Step(name, path))
            if self.struck and (self.count == self.at or self.lasting):
                if self.half and name in WRITES and self.count == self.at:
                    whole = bytes(arguments[0])
                    real(target, whole[: len(whole) // 2], *arguments[1:])
                raise self._fault(name, path)
            if name == "fsync":
                return None
            if name in WRITES and self.short:
                arguments = (bytes(arguments[0])[: self.short], *arguments[1:])
            done = real(target, *arguments, **options)
            if name == "open":
                self.files[done] = path
            return done

        return operation

    def _path(self, target: Any, folder: int | None) -> str | None:
        """The path of an operation; None if it is outside the folder."""
        if isinstance(target, int):
            return self.files.get(target)
        path = os.fspath(target)
        if folder is not None:
            above = self.files.get(folder)
            return above and os.path.join(above, path)
        return path if path == self.folder or path.startswith(self.folder + os.sep) else None

    def _fault(self, name: str, path: str) -> BaseException:
        if self.error is None:
            return Killed(f"{self.count}: {name} {path}")
        if name in ("write", "pwrite", "fsync", "ftruncate"):
            return OSError(self.error, os.strerror(self.error))  # the system names no path
        return OSError(self.error, os.strerror(self.error), path)
