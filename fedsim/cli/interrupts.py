"""Ctrl-C and SIGTERM: the first asks for a commit and an orderly end, the second ends at once.

A thread reads the signals, since the main thread may be deep inside a compilation or a long device
call, and would not see them. Ending at once is safe: a commit is complete or not there, and a file
that is being written is waited for.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

from fedsim.disk.files import CLAIMS, WRITING, release

PATIENCE = 4.0  # seconds that the first signal leaves for an orderly end
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHOW_CURSOR = b"\x1b[?25h"  # which a progress bar hides


class Interrupts:
    """The signals that have arrived; `farewell` is printed when the process ends at once."""

    def __init__(self, farewell: str):
        self.farewell = farewell
        self.signal: int | None = None
        self.is_heeded = False  # whether a loop looks at `asked`

    @property
    def code(self) -> int:
        """The exit code of the signal that has arrived."""
        return 128 + (self.signal or signal.SIGINT)

    def asked(self) -> bool:
        """Whether to commit and end."""
        return self.signal is not None

    @contextlib.contextmanager
    def heeded(self) -> Iterator[None]:
        """Context in which a loop looks at `asked`."""
        self.is_heeded = True
        yield
        self.is_heeded = False

    @contextlib.contextmanager
    def watched(self) -> Iterator["Interrupts"]:
        """Context in which signals are taken over, in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return

        # Python writes the number of every signal into the pipe, whatever the main thread does.
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        handlers = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
        wakeup_fd = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(read_end,), daemon=True).start()
        try:
            yield self
        finally:
            signal.set_wakeup_fd(wakeup_fd)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            os.close(write_end)  # ends the thread

    def _watch(self, pipe: int) -> None:
        while byte := os.read(pipe, 1):
            number = byte[0]
            if number not in SIGNALS:
                continue
            if self.signal is not None or not self.is_heeded:
                self._end(number)
            self.signal = number
            timer = threading.Timer(PATIENCE, self._end, [number])
            timer.daemon = True
            timer.start()
        os.close(pipe)

    def _end(self, number: int) -> None:
        """End the process now, but not in the middle of a file."""
        self.signal = self.signal or number
        with contextlib.suppress(OSError, ValueError):
            if sys.stderr.isatty():
                os.write(2, SHOW_CURSOR)
            os.write(2, f"fedsim: interrupted; {self.farewell}\n".encode())
        WRITING.acquire(timeout=1.0)
        for claim in tuple(CLAIMS):
            release(claim)
        os._exit(self.code)
