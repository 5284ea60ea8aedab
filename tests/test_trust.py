"""The table of what can be relied on is whole: every promise with its figure, the command that measured it, and the date."""

import datetime
import json
import re

import pytest
from trust import table


@pytest.mark.parametrize("number", range(1, 26))
def test_every_promise_has_a_figure_a_command_and_a_date(number):
    row, found = table.ROWS[number], table.read().get(str(number))
    if row.measure is None:
        assert found is None and row.waits  # nothing to measure: the page says why
        return
    if found is None:
        pytest.skip(f"not measured yet: python -m tests.trust {number}")
    assert re.search(r"\d", found["figure"]) and isinstance(found["met"], bool)
    assert found["command"] == f"python -m tests.trust {number}" and re.fullmatch(r"[0-9a-f]{7,}", found["commit"])
    assert datetime.date.fromisoformat(found["date"]) >= datetime.date(2026, 1, 1)


def test_the_page_is_made_of_the_figures():
    assert set(table.ROWS) == set(range(1, 26)) and set(json.loads(table.FIGURES.read_text())) <= set(
        map(str, table.ROWS)
    )
    assert table.PAGE.read_text() == table.page()
    assert all(table.PAGE.read_text().count(f"| {number} | ") == 1 for number in table.ROWS)
