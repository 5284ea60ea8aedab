"""Tables have a verdict for every row, and count the seeds in which it is better or tied."""

import pandas as pd
from compared import BASE, BETTER, rows_of
from test_verdict import verdict_of

from fedsim.report.results import results
from fedsim.study.conclusions import conclusions
from fedsim.study.pairing import against


def test_the_verdict_column_has_a_result_for_every_row():
    chance = {"": 0.12}
    scores = {
        "base": BETTER * 2,
        "level": [b + 0.001 * (-1) ** i for i, b in enumerate(BETTER * 2)],
        "less": [0.1] * 14,
    }
    others = dict.fromkeys(("wild", "gone", "idle", "part"), BASE * 2)
    rows = rows_of({**scores, **others})
    for row in rows:
        row["diverged"] = int(row["method"] == "wild")
        if row["method"] == "gone":
            row |= {"status": "failed", "metric": None, "final": None}
        if row["method"] == "idle" or (row["method"], row["seed"]) == ("part", 3):
            row |= {"status": "not_run", "final": None}
    about = verdict_of(rows, chance=chance)
    verdicts = {standing.method: standing.verdict for standing in about.standings[""]}
    assert verdicts == {
        "base": "baseline",
        "level": "no clear difference",
        "less": "worse, at chance level",
        "wild": "worse, diverged",
        "gone": "failed",
        "idle": "not run",
        "part": "worse",
    }
    assert about.lines[2] == (
        "Without a score: gone (14 of 14 seeds failed), idle (14 of 14 seeds aggregated no round), "
        "part (1 of 14 seeds aggregated no round)."
    )
    table = results(rows, against(rows, "base", "final"), "final", by_variation=about.standings)
    assert {row["method"][0]: row["verdict"][0] for row in table} == verdicts

    # The same words are in compare.csv; half of the samples have the most frequent label.
    labels = {"client": [0, 0], "label": ["a", "b"], "samples": [6, 6]}
    partition = pd.DataFrame(labels)
    tables = conclusions(rows, [], "base", "final", [], partition=partition)
    column = {row["method"]: row["verdict"] for row in tables["compare"]}
    assert column["less"] == "worse, at chance level" and column["idle"] == "not run"


def test_the_table_counts_seeds_with_their_ties():
    rows = rows_of({"base": [0.1, 0.2, 0.3, 0.4], "m": [0.1, 0.3, 0.2, 0.3]})
    _, row = results(rows, against(rows, "base", "final"), "final")
    assert row["better in"][0] == "1 of 4, 1 tied"
