"""The page of the documentation about the tasks and sizes of the suite."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

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
    for task in tasks_of([SUITE], None, []):
        name = task.spec.name
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
        _in_sizes(table),
    ]
    return {"suite.md": sections}


def _in_sizes(table: Table) -> str:
    """A table of what is changed, with a column for every size."""
    sizes: dict[str, dict[str, Any]] = yaml.safe_load((SUITE / SIZES).read_text())
    paths = dict.fromkeys(path for changes in sizes.values() for path in changes)
    rows = []
    for path in paths:
        values = [_in_cell(changes.get(path)) for changes in sizes.values()]
        rows.append((f"`{path}`", *values))
    return table(("", *(f"`{size}`" for size in sizes)), rows)


def _in_cell(value: Any) -> str:
    """A value in a size; None where the size leaves it as it is."""
    if isinstance(value, list):
        return ", ".join(f"`{entry}`" for entry in value)
    return "" if value is None else str(value)


def _comment_of(name: str) -> str:
    """What the comment at the top of a task says."""
    text = about(SUITE / f"{name}.yaml").removeprefix("Task: ")
    return text[0].upper() + text[1:]
