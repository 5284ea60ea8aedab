"""The tasks of a suite, scenarios with `compare.suite`, and their sizes.

A size is an entry of the file `sizes.yml` beside a task: what `--set` changes in it, path by path.
What the task's own file says stays, such as the methods of a task that not all methods can do.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsim.errors import Problem, ScenarioError, did_you_mean
from fedsim.scenario import Scenario, read
from fedsim.scenario.reader import parse, text_of

SIZES = "sizes.yml"


def tasks_of(paths: Sequence[Path], size: str | None, edits: Sequence[str]) -> list[Scenario]:
    """Return the tasks in some folders and files, by name.

    Scenarios of a folder that are no tasks, such as what tasks build on, are left out.

    Args:
      size: an entry of `sizes.yml`; None: the tasks as they are written.
      edits: what is changed in all of them after that, as `--set` takes it.

    Raises:
      ScenarioError: for a task that is not valid, an unknown size, and two tasks of one name.
    """
    tasks: dict[str, Scenario] = {}
    for path in paths:
        files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        in_path = []
        for file in files:
            task = read(file, (*_edits_of(file, size), *edits))
            if task.spec.compare.suite is not None:
                in_path.append(task)
        if not in_path:
            raise _refusal(path, "no task; a task is a scenario with compare.suite=1")
        for task in in_path:
            name = task.spec.name
            if name in tasks:
                raise _refusal(path, f"'{name}' is the name of two tasks; rename one of them")
            tasks[name] = task
    return [tasks[name] for name in sorted(tasks)]


def _edits_of(task: Path, size: str | None) -> list[str]:
    """The `PATH=VALUE` texts of a size, without the paths that the file of the task has itself."""
    if size is None:
        return []
    own = parse(text_of(task), str(task)).values
    edits = []
    for path, value in _changes_of(task.parent / SIZES, size).items():
        if not _has(own, path):
            # As JSON, since a comma of a text, `fedprox(mu=log(1e-3, 1))`, would end it in a list.
            edits.append(f"{path}={json.dumps(value)}")
    return edits


def _changes_of(file: Path, size: str) -> dict[str, Any]:
    """What a size changes, by path."""
    if not file.is_file():
        raise _refusal(file, f"there is no such file, which says what '{size}' is")
    sizes = parse(text_of(file), str(file)).values
    if not all(isinstance(entry, dict) for entry in sizes.values()):
        raise _refusal(file, "should be mappings by size, {small: {seeds: 10}}")
    if size not in sizes:
        raise _refusal(file, f"no size '{size}'{did_you_mean(size, list(map(str, sizes)))}")
    return sizes[size]


def _has(values: Any, path: str) -> bool:
    """Whether a mapping of sections has a value at a path such as `compare.methods`."""
    for key in path.split("."):
        if not isinstance(values, dict) or key not in values:
            return False
        values = values[key]
    return True


def _refusal(path: Path, text: str) -> ScenarioError:
    return ScenarioError([Problem("", text)], str(path))
