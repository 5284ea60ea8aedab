"""Pages of the documentation: tasks and sizes of the suite, and on the site each task.

Links are those of the repository, seen from the page; `kind:FAMILY/KIND` is the page of a kind.
"""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from fedsim.scenario import Scenario
from fedsim.scenario.explain import as_value
from fedsim.scenario.shipped import about
from fedsim.tools.suite.tasks import SIZES, tasks_of

SUITE = Path(__file__).parents[3] / "scenarios" / "suite"
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
# Sections that say what a task is; the others are the protocol's.
SHOWN = ("data", "model", "cohort", "client", "fleet", "wire", "privacy", "evaluate")
# Keys whose kinds have pages, by the family of the kind.
FAMILIES = {
    ("data",): "dataset",
    ("data", "partition"): "partition",
    ("data", "skew"): "skew",
    ("model",): "model",
    ("cohort",): "cohort",
}


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


def site_pages(table: Table) -> dict[str, list[str]]:
    """The same, of pages that only the site has."""
    return {f"suite/{name}.md": list(_page_of(name, table)) for name in _tasks()}


def _page_of(name: str, table: Table) -> Iterator[str]:
    """The page of a task."""
    resolved = _tasks()[name].resolved()
    file = f"scenarios/suite/{name}.yaml"
    yield f"# {name}"
    yield _comment_of(name)
    yield f"```text\nfedsim suite run {file} --size small --out reports/suite\n```"
    yield (
        f"It is [`{file}`](../../{file}), version {resolved['compare']['suite']}, on "
        "[the protocol](../../scenarios/suite/protocol.yaml) of [the suite](../suite.md)."
    )
    yield "## What clients have and do"
    yield table(("section", "value"), list(_rows(resolved)))
    yield "## Sizes"
    specs = [_tasks(size)[name].spec for size in _sizes()]
    rows = [
        ("rounds", [spec.rounds for spec in specs]),
        ("seeds", [len(spec.seeds) for spec in specs]),
        ("trials of every method", [spec.compare.budget for spec in specs]),
        ("methods", [[_label(method) for method in spec.compare.methods] for spec in specs]),
    ]
    yield _in_sizes(table, rows)


@functools.cache
def _tasks(size: str | None = None) -> dict[str, Scenario]:
    """Name -> task, in a size."""
    return {task.spec.name: task for task in tasks_of([SUITE], size, [])}


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


def _rows(resolved: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A row for each section; in `data`, one for each key."""
    for section in SHOWN:
        if not resolved.get(section):
            continue
        if section != "data":
            yield _row((section,), resolved[section])
            continue
        yield _row(("data",), {"kind": resolved["data"]["kind"]})
        for key, value in resolved["data"].items():
            if key != "kind":
                yield _row(("data", key), value)


def _row(path: tuple[str, ...], value: Any) -> tuple[str, str]:
    """A key and its value, whose kinds link to their pages."""
    text = f"`{as_value(value)}`"
    family = FAMILIES.get(path)
    links = value if isinstance(value, list) else [value]
    if family is not None:
        for kind in dict.fromkeys(entry["kind"] for entry in links):
            text += f" [{kind}](kind:{family}/{kind})"
    return f"`{'.'.join(path)}`", text


def _label(method: Any) -> str:
    """A method as a task writes it, or its label."""
    return method["label"] if isinstance(method, dict) else method
