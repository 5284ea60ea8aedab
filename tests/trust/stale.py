"""Which rows are older than the code that they are about: `python -m tests.trust --stale`."""

import ast
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from trust import ROOT, table


class Age(NamedTuple):
    """What has changed in the code of a row since the row was measured.

    Attributes:
      commit: the abbreviated commit at which the row was measured.
      changed: files whose code has changed since, relative to the root; None if the clone lacks the
        commit.
    """

    commit: str
    changed: list[str] | None


def code_of(row: table.Row) -> list[str]:
    """Files and folders that a row is about: the package's, and the module that measures it."""
    module = (row.measure or "").partition(":")[0]
    measuring = [f"tests/trust/{module}.py"] if module else []
    return [*row.code, *measuring]


def age(row: table.Row, figure: dict[str, Any], root: Path = ROOT) -> Age:
    """Return which code has changed since a figure was measured; comments do not count."""
    commit = figure["commit"]
    known = _git(root, "cat-file", "-e", f"{commit}^{{commit}}")
    if known is None:
        return Age(commit, None)

    names = _git(root, "diff", "--name-only", commit, "--", *code_of(row)) or ""
    changed = [name for name in names.splitlines() if _code_differs(root, commit, name)]
    return Age(commit, changed)


def report(root: Path = ROOT) -> str:
    """Return a line for every measured row whose code has changed, and the number of others."""
    figures = table.read()
    lines = []
    current = 0
    for number, row in table.ROWS.items():
        figure = figures.get(str(number))
        if figure is None:
            continue
        row_age = age(row, figure, root)
        if row_age.changed == []:
            current += 1
        else:
            lines.append(_line(number, figure["date"], row_age))
    return "\n".join([*lines, f"{current} rows are as new as the code that they are about"])


def _line(number: int, date: str, row_age: Age) -> str:
    measured = f"row {number}, measured {date} at {row_age.commit}"
    if row_age.changed is None:
        return f"{measured}: unknown, this clone has no such commit"
    count = len(row_age.changed)
    examples = ", ".join(row_age.changed[:3])
    return f"{measured}: {count} files have changed since, such as {examples}"


def _code_differs(root: Path, commit: str, name: str) -> bool:
    """Whether a file that git reports differs in more than comments, docstrings and layout."""
    path = root / name
    before = _git(root, "show", f"{commit}:{name}") if name.endswith(".py") else None
    if before is None or not path.exists():
        return True
    return _without_prose(before) != _without_prose(path.read_text())


def _without_prose(source: str) -> str:
    """The syntax tree of a module as text, without comments and docstrings."""
    module = ast.parse(source)
    for node in ast.walk(module):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [statement for statement in body if not _is_text(statement)]
    return ast.dump(module)


def _is_text(statement: ast.AST) -> bool:
    value = getattr(statement, "value", None)
    return (
        isinstance(statement, ast.Expr)
        and isinstance(value, ast.Constant)
        and isinstance(value.value, str)
    )


def _git(root: Path, *words: str) -> str | None:
    """Return what git prints, or None if it fails."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None
