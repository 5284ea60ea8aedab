"""Figures, the page and the tables for papers show what scores cost in bytes and seconds."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from runs_with_costs import SCORES, aimed, clocked, concluded, rounds, summary
from test_cost_sentences import FLEET
from test_page_content import comparison

from fedsim.report import figures
from fedsim.report.context import context_of
from fedsim.report.derived import derived_files
from fedsim.report.page.charts import lower_axes
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


@pytest.fixture(scope="module")
def files():
    """The page and the tables for papers; two methods have codecs with an entropy code."""
    found = concluded(summary(), rounds())
    frames = {name: pd.DataFrame(rows) for name, rows in found.items() if rows}
    sent = frames["rounds"]
    for name, column, size in (("cast", "a", 7.0), ("top_k", "b", 9.0)):
        has = (sent["method"] == name) & (sent["round"] > 0)
        sent[f"{column}/entropy_bytes"] = np.where(has, size, np.nan)
    made = derived_files(frames, comparison(baseline="dense"), drawn=())
    return {name: content.decode() for name, content in made.items()}


def markdown(text: str) -> list[dict[str, str]]:
    """The rows of the table in a Markdown file."""
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_the_table_of_a_paper_names_the_front_and_the_saving(files):
    rows = markdown(files["tables/bytes.md"])
    assert [row["method"] for row in rows] == ["dense", "cast", "top_k", "bad"]
    assert [row["× fewer"] for row in rows] == ["baseline", "2", "40", "1.33"]
    assert [row["front"] for row in rows] == ["yes"] * 3 + [""]
    assert (rows[2]["reached"], rows[2]["MB to target"]) == ("3 of 6", "∞ (0.01 to ∞)")
    assert rows[1]["up"] == "200 bytes"


def test_mb_to_target_is_one_number_in_every_table(files):
    """The median over all runs, in the tables of costs and of results, and in those of papers."""
    costs = {row["method"]: row["MB to target"] for row in markdown(files["tables/bytes.md"])}
    medians = {name: text.split(" (")[0] for name, text in costs.items()}
    assert medians == {"dense": "0.4", "cast": "0.2", "top_k": "∞", "bad": "∞"}
    scores = {row["method"]: row["MB to target"] for row in markdown(files["tables/summary.md"])}
    assert scores == {**medians, "top_k": "∞ (3 of 6)", "bad": "not reached"}
    assert re.search(r"^dense .*& 2 & 0\.4 ", files["tables/summary.tex"], re.M)
    page = files["report.html"]
    table = page[page.index('id="table"') : page.index('id="curves"')]
    assert ">0.4<" in table and ">∞ (3 of 6)<" in table and ">not reached<" in table


def test_curves_have_byte_axes_where_messages_differ(files):
    frame = pd.DataFrame(rounds())
    assert [axis for axis, _ in lower_axes(frame)] == ["round", "bytes", "up", "down", "seconds"]
    of_one = frame[frame["method"] == "cast"]
    assert [axis for axis, _ in lower_axes(of_one)] == ["round", "bytes", "seconds"]
    first, *_, entropy = map(json.loads, re.findall(r"data-numbers='(.*?)'", files["report.html"]))
    axes = first["axes"][0]
    assert axes["round"] == axes["seconds"] == [0, 1, 2, 3]
    assert axes["up"] == axes["down"] == [0, 4000, 8000, 12000]
    assert axes["bytes"] == [0, 8000, 16000, 24000]
    # Entropy-coded bytes of all codecs share a chart.
    curves = [(curve["name"], curve["y"]) for curve in entropy["curves"]]
    assert curves == [("cast", [7.0] * 3), ("top_k", [9.0] * 3)]
    assert "bytes of a message behind an entropy code" in files["report.html"].lower()
