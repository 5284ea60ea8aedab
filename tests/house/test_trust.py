"""The table of promises is complete: each has a figure, the command that measured it, the date."""

import datetime
import json
import re
import subprocess

import pytest
from conftest import if_all_installed
from trust import ROOT, stale, table


@pytest.mark.parametrize("number", table.ROWS)
def test_every_promise_has_a_figure_a_command_and_a_date(number):
    row, found = table.ROWS[number], table.read().get(str(number))
    if row.measure is None:
        assert found is None and row.waits  # nothing to measure: the page says why
        return
    if found is None:
        pytest.skip(f"not measured yet: python -m tests.trust {number}")
    assert re.search(r"\d", found["figure"]) and isinstance(found["met"], bool)
    assert found["command"] == f"python -m tests.trust {number}" and re.fullmatch(
        r"[0-9a-f]{7,}", found["commit"]
    )
    assert datetime.date.fromisoformat(found["date"]) >= datetime.date(2026, 1, 1)


def test_the_page_is_made_of_the_figures():
    assert list(table.ROWS) == list(range(1, len(table.ROWS) + 1))
    assert set(json.loads(table.FIGURES.read_text())) <= set(map(str, table.ROWS))
    assert table.PAGE.read_text() == table.page()
    assert all(table.PAGE.read_text().count(f"| {number} | ") == 1 for number in table.ROWS)


@if_all_installed
@pytest.mark.parametrize("number", table.ROWS)
def test_a_row_names_the_code_that_it_speaks_of(number):
    row = table.ROWS[number]
    assert bool(row.code) == (row.measure is not None)
    assert all((ROOT / path).exists() for path in stale.code_of(row))


@pytest.fixture
def clone(tmp_path):
    """A repository with one module, and its only commit."""
    module = tmp_path / "fedsim" / "tree.py"
    module.parent.mkdir()
    module.write_text('def double(x):\n    """Twice x."""\n    return 2 * x\n')
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=tmp_path, capture_output=True, text=True
    )
    return module, head.stdout.strip()


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ('def double(x):\n    """Twice x."""\n    return 2 * x\n', []),
        ("# a comment\ndef double(\n    x,\n):\n    return 2 * x\n", []),
        ('def double(x):\n    """Twice x."""\n    return 3 * x\n', ["fedsim/tree.py"]),
        (None, ["fedsim/tree.py"]),
    ],
)
def test_a_row_is_stale_once_the_code_that_it_speaks_of_has_changed(clone, source, changed):
    module, commit = clone
    if source is None:
        module.unlink()
    else:
        module.write_text(source)
    row = table.Row("a promise", "a target", None, ("fedsim",))
    assert stale.age(row, {"commit": commit}, module.parents[1]).changed == changed


def test_a_commit_that_a_clone_does_not_have_is_said_to_be_unknown(clone):
    module, _ = clone
    row = table.Row("a promise", "a target", None, ("fedsim",))
    assert stale.age(row, {"commit": "0123456"}, module.parents[1]).changed is None
