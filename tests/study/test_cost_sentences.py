"""Sentences say what is saved in bytes at the same score, and what is reached in equal time."""

import re

import numpy as np
import pytest
from runs_with_costs import SCORES, aimed, clocked, close, concluded, rounds, summary
from scipy import stats

from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.study.claims import IN_TIME, SAME_SCORE
from fedsim.study.findings import findings_of
from fedsim.study.statistics import holm
from fedsim.study.verdict import verdict

ABOUT_BYTES = {"vary": {"wire": [[], ["cast"]]}}
FLEET = {
    "fleet": {"deadline": 9.0},
    "evaluate": {"target": 0.65},
    "compare": {"vary": {"fleet.deadline": [1, 9]}},
}


def said(found, compare=None, **scenario):
    """The verdict on tables, under a scenario with a section `compare`."""
    return verdict(findings_of(found, "dense", "final", {**scenario, "compare": compare}))


def about_bytes(runs, **compare):
    """The verdict on runs of a comparison that is about bytes."""
    return said(concluded(runs, rounds()), {**ABOUT_BYTES, **compare})


def claims_of(about, kind=SAME_SCORE):
    return [claim for claim in about.claims if claim.kind == kind]


def test_the_first_sentence_says_what_can_be_saved():
    about = about_bytes(close(summary()))
    headline, statistics, *_ = about.lines
    assert headline == "cast sends 2 times fewer bytes up than dense, at the same test accuracy."
    assert about.main_number == ("fewer bytes", "2 times")
    assert re.fullmatch(
        r"Test accuracy 0\.\d+ against 0\.\d+, difference [-+]\S+, 95 % CI -\S+ to [-+]\S+; "
        r"less than 0\.01 worse, p = \S+ after Holm\.",
        statistics,
    )


def test_the_same_score_is_claimed_where_the_interval_ends_above_the_margin():
    """By SciPy, for every cheaper row, after Holm over them."""
    runs = close(summary())
    scores = {m: np.array([r["final"] for r in runs if r["method"] == m]) for m in SCORES}
    test = stats.ttest_1samp(scores["cast"] - scores["dense"], -0.01, alternative="greater")
    (claim,) = claims_of(about_bytes(runs))
    assert (claim.who, claim.whom) == ("cast", "dense")
    # the others are far below
    assert claim.p == pytest.approx(holm([2 * test.pvalue, 1.0, 1.0])[0])
    ends = stats.ttest_rel(scores["cast"], scores["dense"]).confidence_interval(0.95)
    for margin, wanted in ((0.01, True), (2 * -ends.low, True), (0.99 * -ends.low, False)):
        assert bool(claims_of(about_bytes(runs, margin=margin))) is wanted, margin
    with pytest.raises(ScenarioError, match=r"compare\.margin: "):
        read({"name": "margins", "data": "digits", "compare": {"margin": -0.001}})
    kept = read({"name": "margins", "data": "digits", "compare": {"margin": 0}}).resolved()
    assert kept["compare"]["margin"] == 0


def test_without_significance_a_score_may_be_as_much_worse_as_its_interval_allows():
    """Numbers that were once reported as the same: 0.664 and 0.731, 95 % CI -0.135 to +0.002."""
    runs = summary()
    for row in runs:
        row["final"] = {"dense": 0.731, "cast": 0.664}.get(row["method"], 0.3)
        row["final"] += 0.0595 * (-1) ** row["seed"] * (row["method"] == "cast")
    about = about_bytes(runs)
    assert about.lines[0] == "No saving in bytes up is shown at the test accuracy of dense."
    assert re.fullmatch(
        r"Cast, 2 times fewer: test accuracy 0\.664 against 0\.731, "
        r"difference -0\.067, 95 % CI -0\.13\d+ to \+0\.00\d+\.",
        about.lines[1],
    )
    assert not claims_of(about) and about.main_number is None


def test_equal_scores_under_few_seeds_are_no_claim():
    """As with codecs that lose nothing: six seeds are too few for three cheaper methods."""
    runs = close(summary())
    dense = {row["seed"]: row["final"] for row in runs if row["method"] == "dense"}
    for row in runs:
        if row["method"] == "cast":
            row["final"] = dense[row["seed"]]
    about = about_bytes(runs)
    assert "No saving" in about.lines[0] and not claims_of(about)
    assert about.lines[1].endswith("test accuracy 0.900 against 0.900, difference +0.")


def test_the_margin_of_a_loss_is_a_hundredth_of_the_baseline_s():
    runs = close(summary())
    for row in runs:
        row |= {"metric": "test_loss", "final": 10 * (1.9 - row["final"])}
    statistics = about_bytes(runs).lines[1]
    assert statistics.startswith("Test loss 10 against 10, difference ")
    assert "less than 0.1 worse" in statistics
    assert not claims_of(about_bytes(runs, margin=0.001))


def test_holm_runs_over_the_tables_of_bytes_and_of_seconds():
    """Equal scores are one test in both tables; more rows in a table are more tests."""
    both = concluded(close(aimed()), clocked())
    few = [row for row in both["bytes"] if row["method"] in ("dense", "cast")]
    alone = {**both, "seconds": []}
    claims = [
        claims_of(said({**found, "bytes": few}, ABOUT_BYTES, fleet=FLEET["fleet"]))[0]
        for found in (alone, both)
    ]
    assert claims[1].p == pytest.approx(3 * claims[0].p)


def test_sentences_are_about_seconds_where_machines_decide_them():
    few = concluded(aimed(), clocked())
    about = said(few, **FLEET)
    # 3 * 2 / 2**6 is too large
    assert about.lines[0] == "In equal time, none clearly beats dense."
    assert about.lines[1].startswith("Top_k: test accuracy 0.700 against 0.000, difference +0.7")
    assert not claims_of(about, IN_TIME)
    assert "In equal time" not in " ".join(said(few).lines)

    about = said(concluded(aimed(8), clocked(8)), **FLEET)
    assert about.lines[0] == "In equal time, top_k beats dense: test accuracy 0.700."
    assert about.main_number == ("test accuracy", "0.700")
    assert [(one.who, one.p) for one in claims_of(about, IN_TIME)] == [("top_k", 3 * 2 / 2**8)]
