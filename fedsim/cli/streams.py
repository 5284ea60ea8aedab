"""Standard input, output and error as a command meets them: closed, into a pipe that nobody reads, onto a full disk."""

import contextlib
import io
import os
import sys


class Outlet(io.FileIO):
    """A standard stream; once nobody reads it any more, or it takes nothing more, what follows goes nowhere.

    A closed pipe is no error: the command goes on, does what it was asked for, and ends with the exit code of that.
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


def settle() -> None:
    """Make the standard streams such that writing to them goes well or is an error of its own; for a whole process.

    Descriptors 0 to 2 that were closed lead nowhere: the next file that is opened would get their numbers, and what a
    library prints would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(
                os.open(os.devnull, os.O_RDWR), True
            )  # gets the lowest number that is free: this one
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is sys.__stdout__:
        sys.stdout = _outlet(sys.stdout, 1)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _outlet(sys.stderr, 2)


def _outlet(stream, number: int) -> io.TextIOWrapper:
    """A stream like the one that Python has made, where it has made one; a letter that its locale lacks is a `?`."""
    at_once = number == 2 or (
        stream is not None and (stream.line_buffering or stream.write_through)
    )
    encoding = "utf-8" if stream is None else stream.encoding
    raw = io.BufferedWriter(Outlet(number, "wb", closefd=False))
    return io.TextIOWrapper(raw, encoding=encoding, errors="replace", line_buffering=at_once)


def flush() -> None:
    """Write out what is held back, as far as anybody takes it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
