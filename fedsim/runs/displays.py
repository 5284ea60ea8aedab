"""Where the progress of runs is shown: a bar on a terminal, a line in a notebook, elsewhere lines.

Nothing is shown in a log, in a pipe, or in a test, unless it is asked for.
"""

import contextlib
import html
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from fedsim.engine.processes import is_first_process
from fedsim.runs.progress import Count, Show
from fedsim.scenario import Scenario
from fedsim.study.words import seconds_in_words

SECONDS_BETWEEN_LINES = 30.0  # where there is no terminal
SECONDS_BETWEEN_UPDATES = 0.1  # in a notebook


@contextlib.contextmanager
def progress_of(scenario: Scenario, progress: bool | None) -> Iterator[Count | None]:
    """Show the progress of a run or a comparison.

    Args:
      progress: True: always, in a log as a line every half minute; False: never; None: where
        somebody looks, which is at a terminal or in a notebook.

    Yields:
      What the runs report to; None if nothing is shown.
    """
    name = scenario.spec.name
    if progress is None:
        progress = somebody_looks()
    if not progress or not is_first_process():
        yield None
        return

    with _shown(name, scenario.spec.rounds * len(scenario.spec.seeds)) as show:
        count = Count(scenario, show)
        yield count
        count.close()


@contextlib.contextmanager
def _shown(name: str, rounds: int) -> Iterator[Show]:
    """Show progress below the cell of a notebook, as a bar on a terminal, or else as lines."""
    shell = notebook_shell()
    if shell is not None:
        with notebook_line(shell, name) as show:
            yield show
        return

    from rich.console import Console

    from fedsim.runs.bar import bar

    console = Console(stderr=True)
    if console.is_terminal:
        with bar(console, name, rounds) as show:
            yield show
    else:
        lines = Lines(name, lambda line: print(line, file=sys.stderr, flush=True))
        yield lines
        lines.close()


def somebody_looks() -> bool:
    """Whether this is the main thread of a notebook, or of a program with a terminal on stderr.

    Threads would write into each other's lines, and pytest shows what a test prints in a report.
    """
    if "PYTEST_CURRENT_TEST" in os.environ:
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    if notebook_shell() is not None:
        return True
    return sys.stderr is not None and sys.stderr.isatty()


def notebook_shell() -> Any:
    """IPython's shell where it serves a notebook; None elsewhere. IPython is not imported."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if getattr(shell, "kernel", None) is not None else None


@contextlib.contextmanager
def notebook_line(
    shell: Any, name: str, clock: Callable[[], float] = time.monotonic
) -> Iterator[Show]:
    """Show a bar and a line below the cell that runs, replaced in place and empty at the end."""
    display_id = f"fedsim-{uuid.uuid4().hex}"
    last_shown = clock()

    def publish(line: str, bar: str, update: bool = True) -> None:
        shell.display_pub.publish(
            {"text/plain": line, "text/html": f"{bar}{html.escape(line)}"},
            transient={"display_id": display_id},
            update=update,
        )

    def show(done: int, total: int, words: str, left: float | None) -> None:
        nonlocal last_shown
        moment = clock()
        if moment - last_shown >= SECONDS_BETWEEN_UPDATES:
            last_shown = moment
            bar = f'<progress value="{done}" max="{total}"></progress> '
            publish(line_of(name, done, total, words, left), bar)

    publish(f"{name}: compiling", "<progress></progress> ", update=False)
    try:
        yield show
    finally:
        publish("", "")


def line_of(name: str, done: int, total: int, words: str, left: float | None) -> str:
    """Progress as a line of text; the arguments after the name are those of `Show`.

    >>> line_of("iid", 40, 100, "accuracy 0.9000", 12.0)
    'iid: 40/100 rounds, about 12 s left  accuracy 0.9000'
    """
    about = f", about {seconds_in_words(left)} left" if left and done < total else ""
    return f"{name}: {done}/{total} rounds{about}  {words}"


class Lines:
    """Progress as lines, not too many; a run that ends soon prints none."""

    def __init__(
        self,
        name: str,
        print_line: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ):
        self.name = name
        self.print_line = print_line
        self.clock = clock
        self.started = clock()
        self.last_printed = self.started
        self.any_printed = False
        self.newest = ""

    def __call__(self, done: int, total: int, words: str, left: float | None) -> None:
        self.newest = f"fedsim: {line_of(self.name, done, total, words, left)}"
        moment = self.clock()
        if moment - self.last_printed >= SECONDS_BETWEEN_LINES:
            self.last_printed = moment
            self.any_printed = True
            self.print_line(self.newest)

    def close(self) -> None:
        """Print the last line, if there were others."""
        if self.any_printed:
            took = seconds_in_words(self.clock() - self.started)
            self.print_line(f"{self.newest}; {took} in all")
