"""The page and the tables for papers say what scores cost in bytes."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from runs_with_costs import concluded, rounds, summary
from test_page_content import comparison

from fedsim.report.derived import derived_files
from fedsim.report.page.charts import lower_axes


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
