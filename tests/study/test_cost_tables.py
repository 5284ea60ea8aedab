"""The tables of bytes and of seconds: scores, costs until the target, and the front."""

import math

import numpy as np
import pandas as pd
import pytest
from runs_with_costs import aimed, clocked, concluded, rounds, summary
from test_cost_sentences import ABOUT_BYTES, said

from fedsim.disk import tables
from fedsim.report import figures
from fedsim.report.context import context_of
from fedsim.study.cost_axes import BYTES
from fedsim.study.statistics import interval


def rows_of_table(runs, courses=None, table="bytes") -> dict[str, dict]:
    """The rows of `bytes.csv` by method, or those of another table."""
    return {row["method"]: row for row in concluded(runs, courses or rounds())[table]}


def test_rows_hold_scores_bytes_targets_and_the_front():
    """A seed that never reached the target counts as infinite, a message of what arrives."""
    runs = summary()
    rows = rows_of_table(runs)
    cast = rows["cast"]
    values = np.array([run["final"] for run in runs if run["method"] == "cast"])
    ends = cast["mean"], cast["ci_low"], cast["ci_high"]
    assert ends == pytest.approx((values.mean(), *interval(values)))
    assert (cast["bytes_up"], cast["bytes_down"]) == (6000, 12000)
    assert (cast["up_per_client_round"], cast["down_per_client_round"]) == (200, 400)
    assert [row["front"] for row in rows.values()] == [1, 1, 1, 0]
    assert set(cast) == set(tables.BYTES)

    lost = [{**r, "clients_late": 0, "clients_reported": 5 if r["round"] else 0} for r in rounds()]
    assert rows_of_table(runs, lost)["dense"]["up_per_client_round"] == 800

    assert (rows["dense"]["bytes_to_target"], rows["dense"]["reached"]) == (400_002.5, 6)
    columns = ("reached", "bytes_to_target", "target_low", "target_high")
    assert [rows["top_k"][name] for name in columns] == [3, math.inf, 10_001, math.inf]
    assert [rows["bad"][name] for name in columns] == [0, math.inf, math.inf, math.inf]
    text = tables.to_csv(list(rows.values()), tables.BYTES)
    assert ",inf," in text and "nan" not in text


def test_the_front_is_what_no_other_row_beats():
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 6, (40, 2)).astype(float).tolist()
    runs, courses = [], []
    for number, (loss, sent) in enumerate(pairs):
        run = {"method": f"m{number}", "seed": 0}
        runs.append({**run, "metric": "test_loss", "final": loss, "diverged": 0})
        courses.append({**run, "round": 1, "bytes_up": sent, "bytes_down": 1, "clients_sampled": 1})
        courses[-1] |= {"virtual_seconds": 1.0, "test_loss": loss}
    rows = rows_of_table(runs, courses)
    for number, (loss, sent) in enumerate(pairs):
        beaten = any((a < loss and b <= sent) or (a <= loss and b < sent) for a, b in pairs)
        assert bool(rows[f"m{number}"]["front"]) is not beaten


def test_equal_message_sizes_leave_a_table_of_targets_alone():
    same = [{**row, "bytes_up": 10 * row["round"]} for row in rounds()]
    found = concluded(summary(), same)
    rows = found["bytes"]
    assert len(rows) == 4
    assert "front" not in rows[0]
    assert rows[0]["reached"] == 6
    assert figures.figures_of_costs(BYTES, rows, pd.DataFrame(same), context_of({})) == []
    assert "bytes" not in said(found, ABOUT_BYTES).lines[0]
    without_target = [{**row, "bytes_to_target": None} for row in summary()]
    assert concluded(without_target, same)["bytes"] == []


def test_a_diverged_run_counts_as_the_worst_and_a_failed_one_not_at_all():
    runs = summary()
    for run in runs:
        if run["method"] == "dense":
            run |= {"diverged": 1, "final": None}
        if run["method"] == "bad":
            run["status"] = "failed"
    rows = rows_of_table(runs)
    assert rows.keys() == {"dense", "cast", "top_k"} and rows["dense"]["mean"] == 0.0


def test_rows_of_seconds_hold_scores_in_equal_time():
    """The first run of a seed ends after three seconds, before which `dense` only starts."""
    found = rows_of_table(aimed(), clocked(), "seconds")
    rows = list(found.values())
    assert {name for row in rows for name in row} == set(tables.SECONDS)
    assert [row["virtual_seconds"] for row in rows] == pytest.approx([28.0, 7.0, 3.5, 7.0])
    assert [row["in_time"] for row in rows] == pytest.approx([0, 0.899 / 3, 0.7, 0.2])
    assert [row["front"] for row in rows] == [1, 1, 1, 0]
    half = found["top_k"]
    assert (half["reached"], half["virtual_seconds_to_target"]) == (3, math.inf)
    assert half["target_low"] == 3.0
    assert rows_of_table(aimed(), rounds(), "seconds") == {}  # where all take as long


def test_a_diverged_run_does_not_limit_the_time():
    runs = [{**row, "diverged": int(row["method"] == "top_k")} for row in aimed()]
    rows = rows_of_table(runs, clocked(), "seconds")
    assert rows["top_k"]["in_time"] == 0.0
    assert rows["cast"]["in_time"] == pytest.approx(0.899)
    assert rows["dense"]["in_time"] == 0.0  # a round takes 8 seconds, and `cast` ends after 6
