"""The progress of runs on a terminal: a bar, a count, the time left, and words."""

import contextlib
import time
from collections.abc import Iterator
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from fedsim.runs.progress import Show

# Characters of the bar, on a terminal of at most WIDTH columns and on a wider one.
WIDTH = 100
NARROW_BAR = 12
WIDE_BAR = 40


class TimeLeftColumn(ProgressColumn):
    """The time left as it was last estimated, less the time since."""

    def render(self, task: Task) -> Text:
        """Render the field `estimate` of a task: the seconds left, and when that was known."""
        left, estimated_at = task.fields["estimate"]
        text = "-:--:--"
        if left is not None:
            seconds = max(left - (time.monotonic() - estimated_at), 0.0)
            text = str(timedelta(seconds=round(seconds)))
        return Text(text, style="progress.remaining")


@contextlib.contextmanager
def bar(console: Console, name: str, total: int) -> Iterator[Show]:
    """Show a bar, a count and the time left, uncut at any width, and words that may be cut."""
    words_column = TextColumn(
        "{task.description}",
        table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        markup=False,
    )
    columns = (
        BarColumn(WIDE_BAR if console.width > WIDTH else NARROW_BAR),
        MofNCompleteColumn(),
        TimeLeftColumn(),
        words_column,
    )
    with Progress(*columns, console=console, transient=True, expand=True) as view:
        task = view.add_task(f"{name}: compiling", total=total, estimate=(None, 0.0))

        def show(done: int, total: int, words: str, left: float | None) -> None:
            estimate = (left, time.monotonic())
            view.update(task, completed=done, total=total, description=words, estimate=estimate)

        yield show
