"""Ctrl-C and SIGTERM: the first one asks for a commit and an orderly end, the second one ends at once.

A thread reads the signals, since the main thread may be deep inside a compilation or a long device call and would not see
them. Ending at once is safe: what is committed is whole, and a file that is half written is waited for.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

from fedsim.disk.files import CLAIMS, WRITING, free

PATIENCE = 4.0  # seconds that the first signal leaves for an orderly end
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """The signals that came.

    Args:
      farewell: line to print when the process ends at once, from whether a run was under way.
    """

    def __init__(self, farewell: str):
        self.farewell = farewell
        self.signal: int | None = None
        self.running = False  # whether there is a loop that looks at `asked`

    @property
    def code(self) -> int:
        """Exit code of the signal that came."""
        return 128 + (self.signal or signal.SIGINT)

    def asked(self) -> bool:
        """Whether to come to rest and end."""
        return self.signal is not None

    @contextlib.contextmanager
    def heeded(self) -> Iterator[None]:
        """Meanwhile there is a loop that looks at `asked`."""
        self.running = True
        yield
        self.running = False

    @contextlib.contextmanager
    def watched(self) -> Iterator["Interrupts"]:
        """Signals are taken over, and given back at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        read, write = os.pipe()
        os.set_blocking(write, False)
        before = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
        wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(read,), daemon=True).start()
        try:
            yield self
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(write)  # ends the thread

    def _watch(self, pipe: int) -> None:
        while byte := os.read(pipe, 1):
            number = byte[0]
            if number not in SIGNALS:
                continue
            if self.signal is not None or not self.running:
                self._end(number)
            self.signal = number
            timer = threading.Timer(PATIENCE, self._end, [number])
            timer.daemon = True
            timer.start()
        os.close(pipe)

    def _end(self, number: int) -> None:
        """Out, now; but not in the middle of a file."""
        self.signal = self.signal or number
        with contextlib.suppress(OSError, ValueError):
            if sys.stderr.isatty():
                os.write(2, b"\x1b[?25h")  # a progress bar hides the cursor
            os.write(2, f"fedsim: interrupted; {self.farewell}\n".encode())
        WRITING.acquire(timeout=1.0)
        for claim in tuple(CLAIMS):
            free(claim)
        os._exit(self.code)
