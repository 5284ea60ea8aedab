"""The page of a comparison shows where runs ended and what they spent until then."""

import pandas as pd
from test_comparisons import ENDS, tables

from fedsim.fields.stopping.page import section
from fedsim.report.context import context_of
from fedsim.report.page.sources import Source
from fedsim.study.conclusions import conclusions


def test_the_page_shows_where_runs_ended_and_what_they_spent():
    summary, rounds = tables()
    found = conclusions(summary, [], "base", "final", [], rounds)
    frames = {name: pd.DataFrame(rows) for name, rows in found.items() if rows}
    frames |= {"summary": pd.DataFrame(summary), "rounds": pd.DataFrame(rounds)}
    scenario = {"name": "s", "rounds": 30, "evaluate": {"metric": "test_accuracy"}}
    context = context_of(scenario, summary, order=[*ENDS])
    made = section([Source({"scenario": scenario, "baseline": "base"}, frames)], context)
    assert made is not None
    for text in ("quick: 11.4 rounds on average", "-10.7 (", ">0.0469<", "MB", "virtual seconds"):
        assert text in made.html, text
