"""Standard input, output and error: perhaps closed, a pipe that nobody reads, or a full disk."""

import contextlib
import io
import os
import sys


class Outlet(io.FileIO):
    """A standard stream that discards what follows once nobody reads it, or it is full.

    A closed pipe is not an error: the command continues, and ends with the exit code of its work.
    """

    def write(self, data) -> int | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            return super().write(data)
        except OSError as error:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self.fileno())
            os.close(nothing)
            if isinstance(error, BrokenPipeError):
                return len(memoryview(data).cast("B"))
            name = "standard output" if self.fileno() == 1 else "standard error"
            raise OSError(error.errno, error.strerror, name) from None


def prepare() -> None:
    """Make writing to the standard streams succeed, or fail with an error that names the stream.

    This is for a process as a whole. Descriptors 0 to 2 that are closed are opened on the null
    device: else the next file would get their numbers, and a library's prints would go into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # A new descriptor gets the lowest free number, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is sys.__stdout__:
        sys.stdout = _outlet(sys.stdout, 1)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _outlet(sys.stderr, 2)


def _outlet(stream, number: int) -> io.TextIOWrapper:
    """Return an `Outlet` with the encoding and buffering of Python's own stream, if it has one.

    A letter that the encoding lacks becomes a question mark.
    """
    encoding = "utf-8"
    line_buffering = number == 2
    if stream is not None:
        encoding = stream.encoding
        line_buffering = line_buffering or stream.line_buffering or stream.write_through
    raw = io.BufferedWriter(Outlet(number, "wb", closefd=False))
    return io.TextIOWrapper(raw, encoding=encoding, errors="replace", line_buffering=line_buffering)


def flush() -> None:
    """Write out what is buffered, as far as anybody takes it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
