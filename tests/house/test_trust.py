"""The table of promises is complete: each has a figure, the command that measured it, the date."""

import datetime
import json
import re

from conftest import if_all_installed
from trust import ROOT, table


def test_the_page_is_made_of_figures_each_with_its_commit_and_date():
    figures = json.loads(table.FIGURES.read_text())
    assert set(figures) <= set(map(str, table.ROWS))
    for found in figures.values():
        assert re.search(r"\d", found["figure"]) and isinstance(found["met"], bool)
        assert re.fullmatch(r"[0-9a-f]{7,}", found["commit"])
        assert datetime.date.fromisoformat(found["date"])
    assert table.PAGE.read_text() == table.page()


@if_all_installed
def test_a_row_names_what_measures_it_and_the_code_that_it_speaks_of():
    for row in table.ROWS.values():
        assert row.code and all((ROOT / path).exists() for path in row.code), row
        module, _, name = row.measure.partition(":")
        source = (ROOT / f"tests/trust/{module}.py").read_text()
        assert f"def {name}(quick: bool) -> Figure:" in source, row
