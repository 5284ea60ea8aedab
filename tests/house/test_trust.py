"""The table of promises is complete: each has a figure, the command that measured it, the date."""

import datetime
import json
import re

import pytest
from conftest import if_all_installed
from trust import ROOT, table
from trust.suites import SUITES


@pytest.mark.parametrize("number", table.ROWS)
def test_every_promise_has_a_figure_and_a_date(number):
    found = table.read().get(str(number))
    if found is None:
        pytest.skip(f"not measured yet: python -m tests.trust {number}")
    assert re.search(r"\d", found["figure"]) and isinstance(found["met"], bool)
    assert re.fullmatch(r"[0-9a-f]{7,}", found["commit"])
    assert datetime.date.fromisoformat(found["date"]) >= datetime.date(2026, 1, 1)


def test_the_page_is_made_of_the_figures():
    assert set(json.loads(table.FIGURES.read_text())) <= set(map(str, table.ROWS))
    assert table.PAGE.read_text() == table.page()


@if_all_installed
@pytest.mark.parametrize("number", table.ROWS)
def test_a_row_names_what_measures_it_and_the_code_that_it_speaks_of(number):
    row = table.ROWS[number]
    assert row.code and all((ROOT / path).exists() for path in row.code)
    module, _, name = row.measure.partition(":")
    if module == "tests":
        files, _ = SUITES[number][1]
        assert all((ROOT / path).exists() for path in files.split())
    else:
        assert (
            f"def {name}(quick: bool) -> Figure:" in (ROOT / f"tests/trust/{module}.py").read_text()
        )
