"""The page of the documentation about the tasks and sizes of the suite."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from fedsim.scenario import Scenario
from fedsim.scenario.explain import as_value
from fedsim.scenario.shipped import about
from fedsim.tools.suite.tasks import SIZES, tasks_of

SUITE = Path(__file__).parents[3] / "scenarios" / "suite"
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


def pages(table: Table) -> dict[str, list[str]]:
    """Name of a page -> its sections.

    Args:
      table: makes Markdown of a header and rows.
    """
    rows = []
    for name, task in _tasks().items():
        first = re.split(r"(?<=[.?]) ", _comment_of(name))[0]
        data = task.resolved()["data"]
        given = {key: value for key, value in data["partition"].items() if value is not None}
        link = f"[`{name}`](../scenarios/suite/{name}.yaml)"
        rows.append((link, first, f"`{data['kind']}`", f"`{as_value(given)}`"))
    sections = [
        "# The suite",
        "A task is a scenario with `compare.suite`, its version. `fedsim suite run` compares the "
        "methods of every task in a folder of its own, and says in a line how each has ended:",
        "```text\nfedsim suite run scenarios/suite --size small --out reports/suite\n```",
        "All tasks build on [one protocol](../scenarios/suite/protocol.yaml): every method tries "
        "as many settings as the others, they are chosen on validation samples, and the final "
        "round is scored on test samples. [What came out](../reports/suite/report.html) of its "
        "small size: eight methods a task, a budget of four, ten seeds.",
        "## Tasks",
        table(("task", "what it asks", "samples", "partition"), rows),
        "## Sizes",
        "A size is an entry of [`sizes.yml`](../scenarios/suite/sizes.yml): what it changes in "
        "every task, except for what the task's own file says.",
        _in_sizes(table, [(f"`{path}`", values) for path, values in _changes().items()]),
    ]
    return {"suite.md": sections}


def _tasks() -> dict[str, Scenario]:
    """Name -> task."""
    return {task.spec.name: task for task in tasks_of([SUITE], None, [])}


def _sizes() -> dict[str, dict[str, Any]]:
    """Name of a size -> path -> value."""
    return yaml.safe_load((SUITE / SIZES).read_text())


def _changes() -> dict[str, list[Any]]:
    """Path -> its value in every size, None where the size leaves it as it is."""
    sizes = _sizes().values()
    paths = dict.fromkeys(path for changes in sizes for path in changes)
    return {path: [changes.get(path) for changes in sizes] for path in paths}


def _in_sizes(table: Table, rows: Sequence[tuple[str, Sequence[Any]]]) -> str:
    """A table with a column for every size."""
    header = ("", *(f"`{size}`" for size in _sizes()))
    return table(header, [(title, *map(_in_cell, values)) for title, values in rows])


def _in_cell(value: Any) -> str:
    """A value in a size."""
    if isinstance(value, list):
        return ", ".join(f"`{entry}`" for entry in value)
    return "" if value is None else str(value)


def _comment_of(name: str) -> str:
    """What the comment at the top of a task says."""
    text = about(SUITE / f"{name}.yaml").removeprefix("Task: ")
    return text[0].upper() + text[1:]
