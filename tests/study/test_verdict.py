"""What a comparison says in sentences: who is better, by how much, and what stays open."""

import numpy as np
import pytest
from compared import BASE, BETTER, LEVEL, rows_of

from fedsim.study.claims import BETTER as BETTER_OR_WORSE
from fedsim.study.claims import MAX_WORDS
from fedsim.study.findings import findings_of
from fedsim.study.headline import with_few_seeds
from fedsim.study.pairing import against
from fedsim.study.verdict import verdict

LOW = [score / 2 for score in BASE]


def verdict_of(rows, baseline="base", chance=None, scenario=None, score="final"):
    tables = {"compare": against(rows, baseline, score), "summary": rows}
    return verdict(findings_of(tables, baseline, score, scenario, chance))


def lines_of(rows, baseline="base", **more):
    return verdict_of(rows, baseline, **more).lines


def test_a_headline_a_line_of_statistics_and_no_more_and_claims_as_data():
    about = verdict_of(rows_of({"base": BASE, "level": LEVEL, "better": BETTER}))
    assert about.lines == [
        "better beats base: test accuracy 0.617.",
        "Test accuracy 0.617 with better, 0.504 with base; difference +0.113, 95 % CI +0.103 to "
        "+0.123; better in 7 of 7 seeds; p = 0.031 after Holm.",
    ]
    assert about.main_number == ("test accuracy", "0.617")
    (claim,) = about.claims
    assert (claim.kind, claim.who, claim.whom) == (BETTER_OR_WORSE, "better", "base")
    assert claim.p == pytest.approx(2 * 2 / 2**7)


@pytest.mark.parametrize(
    ("base", "others", "headline"),
    [
        (BETTER, {"less": BASE}, "less is 0.113 worse than base."),
        (BETTER, {"less": BASE, "least": LOW}, "No method beats base; both others are worse."),
        (
            BETTER,
            {"same": BETTER, "less": BASE},
            "No method beats base; 1 of the 2 others is worse.",
        ),
        (BASE, {"level": LEVEL}, "No clear difference from base."),
        (BASE, {}, "base ends at test accuracy 0.504."),
    ],
)
def test_the_headline_answers_in_a_few_words(base, others, headline):
    assert lines_of(rows_of({"base": base, **others}))[0] == headline
    assert len(headline.split()) <= MAX_WORDS


@pytest.mark.parametrize(
    ("why", "scores", "part"),
    [
        ("less is better", {"base": BETTER, "m": BASE}, "-0.113, 95 % CI -0.123 to -0.103;"),
        ("no interval of width 0", {"base": [0.75, 1], "m": [0.5, 0.75]}, "-0.25; better in 2 of"),
        ("ties count", {"base": [1, 2, 3, 4], "m": [1, 1, 4, 5]}, "in 1 of 4 seeds, tied in 1"),
    ],
)
def test_the_statistics_of_a_loss(why, scores, part):
    assert part in lines_of(rows_of(scores, "test_loss"))[1], why


@pytest.mark.parametrize(
    ("seeds", "few"), [(3, "3 seeds are too few, 8 would do"), (1, "1 seed is too few, 8 would do")]
)
def test_too_few_seeds_are_said_first_and_how_many_would_do(seeds, few):
    scores = {"base": [0.1, 0.1, 0.11][:seeds]}
    for i in range(6):
        scores[f"m{i}"] = [0.84 + 0.001 * i, 0.83, 0.85 + 0.01 * i][:seeds]
    about = verdict_of(rows_of(scores))
    assert about.lines[0] == f"No clear difference from base: {few}."
    assert "p = 1" not in " ".join(about.lines) and not about.claims
    assert {standing.verdict for standing in about.standings[""]} == {"baseline", "too few seeds"}
    # Beyond 16 seeds the smallest p does not fall any more.
    assert with_few_seeds("Nothing", 7, 10_000) == "Nothing: 7 seeds are too few"


def test_what_is_not_significant_after_holm_is_no_clear_difference():
    """Two of ten seeds have the other sign: the interval excludes 0, Holm over seven does not."""
    lean = [0.03, 0.02, 0.025, 0.02, 0.03, 0.02, 0.025, 0.02, -0.006, -0.004]
    scores = {"base": [0.5] * 10}
    scores |= {f"m{i}": [0.5 + (1 + i / 100) * d for d in lean] for i in range(7)}
    about = verdict_of(rows_of(scores))
    assert about.lines[0] == "No clear difference from base." and len(about.lines) == 2
    assert {s.verdict for s in about.standings[""]} == {"baseline", "no clear difference"}
    assert not about.claims


def test_on_pure_noise_the_headline_names_nobody():
    """Seven methods under ten seeds: a leader in at most 5 % of comparisons, else the words."""
    rng = np.random.default_rng(63)
    headlines = []
    for _ in range(40):
        shared = rng.normal(size=10)
        noise = {f"m{m}": list(0.5 + 0.02 * (shared + rng.normal(size=10))) for m in range(7)}
        headlines.append(lines_of(rows_of(noise), "m0")[0])
    named = [line for line in headlines if line != "No clear difference from m0."]
    assert len(named) <= 5, named  # P(Bin(40, 5 %) > 5) < 2 %


def test_methods_at_chance_level_are_not_compared():
    rows = rows_of({"base": [0.1] * 7, "m": [0.105] * 7, "wild": [0.1] * 7})
    for row in rows:
        row["diverged"] = int(row["method"] == "wild")
    about = verdict_of(rows, chance={"": 0.101})
    assert about.lines == [
        "No method is above chance level.",
        "The best mean test accuracy is 0.105, with m.",
    ]
    assert about.standings[""][0].verdict == "at chance level"


def test_equal_scores_are_one_test():
    """Along an axis that no method reads."""
    scores = {"base": BASE, "better": BETTER, "level": LEVEL}
    rows = []
    for value in (0.1, 0.2, 0.3):
        rows += rows_of(scores, variant=f"client.mu={value}")
    alone = {row["method"]: row["p_adjusted"] for row in against(rows_of(scores), "base", "final")}
    for row in against(rows, "base", "final"):
        assert row["p_adjusted"] == alone[row["method"]]


def test_where_there_is_nothing_to_compare_it_is_said():
    rows = rows_of({"base": BASE, "good": BETTER})
    for row in rows[:7]:
        row |= {"status": "not_run", "final": None}
    assert lines_of(rows) == [
        "Nothing is compared; good has the best mean, test accuracy 0.617.",
        "Without a score: base (7 of 7 seeds aggregated no round).",
    ]
    failed = [{**row, "status": "failed", "metric": None} for row in rows]
    assert lines_of(failed)[0] == "No run has a score."


def test_infinite_losses_have_no_difference():
    rows = rows_of({"base": BASE, "wild": BASE}, "test_loss")
    rows = [{**row, "diverged": int(row["method"] == "wild")} for row in rows]
    headline, statistics = lines_of(rows)
    assert headline == "wild is worse than base."
    assert "Test loss ∞ with wild, 0.504 with base; better in 0 of 7 seeds; p = " in statistics
