"""The figure and the page show every method under every attack."""

import pandas as pd
from test_page_content import comparison, page_text
from test_worst_case import summary

from fedsim.report.context import context_of
from fedsim.report.figures import figures_of_attacks
from fedsim.study.conclusions import conclusions


def test_the_figure_has_a_number_for_every_pair():
    first, second = figures_of_attacks(
        summary(), context_of({"name": "grid"}, summary(), order=["c", "a", "b"])
    )
    (axes,) = first.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["c", "a", "b"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["sign flip scale 5", "gaussian"]
    assert [text.get_text() for text in axes.texts][:2] == ["0.501", "0.7"]
    assert len(axes.texts) == 6
    assert len(second.axes) == 1


def test_the_page_shows_every_method_under_every_attack():
    rows = summary(seeds=2)
    found = {**conclusions(rows, [], "a", "final", ["wire"]), "summary": rows}
    frames = {name: pd.DataFrame(table) for name, table in found.items()}
    text = page_text(comparison(baseline="a"), frames)
    assert "Every method under every attack" in text
    assert text.count(' worst">') == 3 * 2  # methods and other variations
