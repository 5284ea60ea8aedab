"""A disk that fails when told to: operations on one folder are counted, and the N-th kills the process or errs.

    with Disk(folder, at=7) as disk: ...                    # the process dies at the 7th operation, and touches nothing after
    with Disk(folder, at=7, error=errno.EIO) as disk: ...   # the 7th operation fails, `lasting`: and all after it

What a killed process wrote is kept by the kernel, so nothing is really flushed here: that is quick, and a kill cannot
tell. That everything is flushed before it counts is a law about the order of operations, which `disk.trace` holds.
"""

import os
from typing import Any, NamedTuple

OPERATIONS = (
    "open",
    "write",
    "pwrite",
    "fsync",
    "replace",
    "ftruncate",
    "unlink",
    "mkdir",
    "rmdir",
)
WRITES = ("write", "pwrite")


class Killed(BaseException):
    """What stands for SIGKILL: nothing catches it, and nothing that runs while it passes reaches the disk."""


class Step(NamedTuple):
    """An operation that was asked for."""

    name: str
    path: str


class Disk:
    """The operations of `os` on a folder, counted from 1.

    Args:
      folder: which; operations elsewhere are left alone.
      at: the operation that fails (None: none does).
      error: number of the system's error; None = the process is killed.
      lasting: whether every later operation fails as well (after a kill it does).
      half: whether a write that is killed has written half of its bytes.
      only: names of operations that count.
      short: bytes that a write takes at most.
    """

    def __init__(
        self,
        folder: os.PathLike | str,
        at: int | None = None,
        error: int | None = None,
        lasting: bool = False,
        half: bool = False,
        only: tuple[str, ...] = OPERATIONS,
        short: int | None = None,
    ):
        self.folder, self.at, self.error = os.fspath(folder), at, error
        self.lasting, self.half, self.only, self.short = lasting or error is None, half, only, short
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
        for file in (
            self.files if killed else ()
        ):  # as the kernel closes what a killed process had open
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
            if name in self.only:
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
        """Where an operation is about to happen; None = elsewhere."""
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
        where = (
            () if name in ("write", "pwrite", "fsync", "ftruncate") else (path,)
        )  # as the system tells it
        return OSError(self.error, os.strerror(self.error), *where)
