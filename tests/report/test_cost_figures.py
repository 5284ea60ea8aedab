"""Figures of costs have curves over bytes or seconds, and a front below."""

import pandas as pd
import pytest
from runs_with_costs import SCORES, aimed, clocked, concluded, rounds, summary
from test_cost_sentences import FLEET

from fedsim.report import figures
from fedsim.report.context import context_of
from fedsim.study.cost_axes import BYTES, TIME


def test_the_figure_has_curves_and_a_front():
    """Points that coincide share their numbers."""
    twins = [{**row, "method": "twin"} for row in summary() if row["method"] == "cast"]
    again = [{**row, "method": "twin"} for row in rounds() if row["method"] == "cast"]
    sent = rounds() + again
    rows = concluded(summary() + twins, sent)["bytes"]
    context = context_of({"name": "bytes"})
    (figure,) = figures.figures_of_costs(BYTES, rows, pd.DataFrame(sent), context)
    above, below = figure.axes
    curves = {line.get_label(): line for line in above.lines}
    assert set(curves) == {*SCORES, "twin"}
    assert above.get_xscale() == below.get_xscale() == "log"
    x, y = curves["cast"].get_data()
    assert list(x) == [2000, 4000, 6000]
    assert list(y) == pytest.approx([0.899 / 3, 0.899 * 2 / 3, 0.899])
    front = next(line for line in below.lines if line.get_label() == "front")
    assert list(front.get_xdata()) == [10, 200, 200, 400]
    hollow = {line.get_label() for line in below.lines if line.get_markerfacecolor() == "white"}
    assert hollow & set(SCORES) == {"bad"}
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(filter(None, legend)) == ["1 dense", "2 cast", "3 top_k", "4 bad", "5 twin"]
    assert "2, 5" in {text.get_text() for text in below.texts}


def test_curves_over_seconds_are_means_at_the_same_rounds():
    rows = concluded(aimed(), clocked())["seconds"]
    context = context_of({"name": "seconds", **FLEET})
    (figure,) = figures.figures_of_costs(TIME, rows, pd.DataFrame(clocked()), context)
    above, below = figure.axes
    x, y = next(line for line in above.lines if line.get_label() == "cast").get_data()
    assert list(x) == pytest.approx([7 / 3, 14 / 3, 7.0])
    assert list(y) == pytest.approx([0.899 / 3, 2 * 0.899 / 3, 0.899])
    assert below.get_xlabel() == "virtual seconds to test accuracy 0.65"
    marks = [line.get_xdata()[0] for line in below.lines if line.get_label() == "mark"]
    assert sorted(marks) == [6.0, 24.0]  # half of the seeds of `top_k` never get there
