"""Comparisons of runs that end early: what was spent until then is compared as scores are."""

from xml.etree import ElementTree

import numpy as np
import pytest

import fedsim
from fedsim.study.conclusions import conclusions
from fedsim.study.findings import findings_of
from fedsim.study.statistics import paired
from fedsim.study.verdict import verdict

SEEDS = range(8)
ENDS = {  # the last round of each seed; the baseline of seed 7 diverged
    "base": [20, 22, 24, 20, 26, 22, 20, 5],
    "quick": [10, 11, 13, 12, 10, 12, 11, 12],
    "same": [20, 22, 24, 20, 26, 22, 20, 20],
    "pooled": [9, 9, 9, 9, 9, 9, 9, 9],
}


def tables(ends=ENDS):
    """Rows of `summary.csv` and `rounds.csv`; a round sends 3 bytes up and 4 down, in 2 seconds."""
    summary = []
    rounds = []
    for method, lasts in ends.items():
        for seed, last in zip(SEEDS, lasts, strict=True):
            diverged = int(method == "base" and seed == 7)
            run = {"method": method, "seed": seed, "metric": "test_accuracy", "diverged": diverged}
            run |= {"final": 0.5 + seed / 100, "stopped": last}
            if method == "pooled":
                run["not_federated"] = "pooled"
            summary.append(run)
            for round in (0, last):
                row = {"method": method, "seed": seed, "round": round, "test_accuracy": 0.5}
                sent = (None, None) if method == "pooled" else (3 * round, 4 * round)
                row |= dict(zip(("bytes_up", "bytes_down"), sent, strict=True))
                rounds.append({**row, "virtual_seconds": 2.0 * round})
    return summary, rounds


def compared(summary, rounds):
    rows = conclusions(summary, [], "base", "final", [], rounds)["compare"]
    return {row["method"]: row for row in rows}


def test_what_was_spent_until_the_end_is_paired_by_seed_and_tested():
    rows = compared(*tables())
    quick, base = ENDS["quick"][:7], ENDS["base"][:7]
    row = rows["quick"]
    expected = paired(np.array(quick), np.array(base), False)
    assert row["stopped_rounds"] == np.mean(quick)
    for name in ("difference", "ci_low", "ci_high"):
        assert row[f"stopped_rounds_{name}"] == getattr(expected, name)
    # Of three tests one finds no difference, and the smallest p of seven signs is 2 / 2⁷.
    assert row["stopped_rounds_p_adjusted"] == 3 * 2 / 2**7
    assert row["stopped_bytes"] == 7 * np.mean(quick)
    assert row["stopped_virtual_seconds"] == 2 * np.mean(quick)

    assert rows["pooled"]["stopped_bytes"] is None  # nobody counts them
    assert rows["pooled"]["stopped_virtual_seconds_difference"] < 0
    assert rows["base"]["stopped_rounds"] == np.mean(base)
    assert "stopped_rounds_difference" not in rows["base"]
    assert rows["same"]["stopped_rounds_difference"] == 0
    assert rows["same"]["stopped_rounds_p_adjusted"] == 1


def lines_of(summary, rounds):
    found = {**conclusions(summary, [], "base", "final", [], rounds), "summary": summary}
    return verdict(findings_of(found, "base")).lines


def test_the_verdict_says_that_rounds_are_unequal_and_who_ended_earlier():
    lines = lines_of(*tables())
    assert lines[2].startswith("32 of 32 runs ended early, after 5 to 26 rounds. Scores are of une")
    assert lines[3] == (
        "quick ended 10.7 rounds earlier than base, after 11.3 on average (p = 0.047)."
    )
    equal = tables({"base": [9] * 8, "same": [9] * 8})
    assert lines_of(*equal)[2] == "16 of 16 runs ended early, after 9 rounds."


@pytest.mark.long
@pytest.mark.usefixtures("pictures")
def test_a_comparison_whose_runs_end_early_is_checked_and_says_so_once(tmp_path):
    data = {"kind": "gaussian_blobs", "samples": 240, "clients": 6, "validation": 0.2}
    scenario = {"name": "s", "rounds": 12, "data": data, "client": {"lr": 0.02, "batch": 16}}
    stop = {"patience": 1, "delta": 0.02}
    comparison = fedsim.compare(
        {**scenario, "stop": stop}, ["fedavg", "fedadam"], seeds=2, out=tmp_path / "out"
    )
    last = comparison.rounds.groupby(["method", "seed"])["round"].max()
    table = comparison.table.set_index("method")
    assert table["stopped_rounds"].to_dict() == last.groupby("method").mean().to_dict()
    assert fedsim.verify(tmp_path / "out").equal
    page = (tmp_path / "out/report.html").read_text()
    assert page.count("ended early, after") == 1 and "Where runs ended" in page
    assert ElementTree.parse(tmp_path / "out/figures/stopping.svg").getroot().tag.endswith("svg")
