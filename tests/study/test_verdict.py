"""What a comparison says in sentences, and the names that scenario paths have in them."""

import itertools

import numpy as np
import pandas as pd
import pytest
from compared import BASE, BETTER, LEVEL, rows_of
from conftest import if_all_installed

from fedsim.errors import ScenarioError
from fedsim.report.results import results
from fedsim.scenario import read
from fedsim.scenario.sections import ClientCommon, DataCommon, Fleet, Numerics, Spec
from fedsim.study import words
from fedsim.study.claims import BETTER as BETTER_OR_WORSE
from fedsim.study.claims import MAX_WORDS
from fedsim.study.conclusions import conclusions
from fedsim.study.findings import findings_of
from fedsim.study.grid import design_of
from fedsim.study.guessing import chance_levels
from fedsim.study.headline import with_few_seeds
from fedsim.study.pairing import against
from fedsim.study.verdict import verdict

LOW = [score / 2 for score in BASE]


def verdict_of(rows, baseline="base", chance=None, scenario=None):
    tables = {"compare": against(rows, baseline, "final"), "summary": rows}
    return verdict(findings_of(tables, baseline, chance=chance, scenario=scenario))


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


VARIED = {"fleet.malicious": [0, 0.2], "client.lr": [0.1, 1]}


def of_variations(scores):
    """Rows by variation, and the scenario in which they vary."""
    rows = []
    for malicious, lr in itertools.product(*VARIED.values()):
        variant = f"fleet.malicious={malicious}, client.lr={lr}"
        rows += rows_of(scores(malicious, lr), variant=variant)
    return rows


@pytest.mark.parametrize(
    ("question", "headline"),
    [
        ({}, "With 20 % malicious, client learning rate 1, m beats base: test accuracy 0.617."),
        ({"fleet.malicious": 0}, "With 0 % malicious, client learning rate 1, no clear difference"),
    ],
)
def test_the_headline_is_about_what_is_asked(question, headline):
    """It is the last value of every axis, unless the scenario asks for another one."""
    rows = of_variations(lambda share, lr: {"base": BASE, "m": BETTER if share and lr else LEVEL})
    scenario = {"compare": {"vary": VARIED, "question": question}}
    about = verdict_of(rows, scenario=scenario)
    assert about.lines[0].startswith(headline)
    where = "fleet.malicious=0.2, client.lr="
    assert {claim.where for claim in about.claims} == {f"{where}0.1", f"{where}1"}


def test_a_long_name_of_what_is_asked_is_in_the_statistics():
    rows = rows_of({"base": BASE, "m": BETTER}, variant="some words of no path at all, and more")
    headline, statistics = lines_of(rows)[:2]
    assert headline == "m beats base: test accuracy 0.617."
    assert statistics.endswith("; with some words of no path at all, and more.")


def test_a_question_is_about_a_value_that_varies():
    compare = {"methods": ["fedavg", "median"], "vary": {"client.lr": [0.1, 1]}}
    written = {"name": "asked", "data": "digits"}
    compare["question"] = {"client.lr": 0.1}
    scenario = read({**written, "compare": compare})
    assert design_of(scenario).scenario.resolved()["compare"]["question"] == {"client.lr": 0.1}
    compare["question"] = {"client.lr": 0.2}
    with pytest.raises(ScenarioError, match=r"lr=0\.2 does not vary; client\.lr has 0\.1, 1"):
        design_of(read({**written, "compare": compare}))
    del compare["question"]
    assert "question" not in design_of(read({**written, "compare": compare})).scenario.resolved()


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


def test_chance_is_the_share_of_the_most_frequent_label():
    labels = {"client": ["A", "A", "B"], "label": ["cat", "dog", "dog"], "samples": [4, 2, 4]}
    table = pd.DataFrame(labels)
    assert chance_levels(table, "test_accuracy") == {"": 0.6}
    assert chance_levels(table, "test_loss") == {}
    for unknown in (table.assign(label=None), None):
        assert chance_levels(unknown, "test_accuracy") == {}
    varied = table.assign(variant=["x", "x", "y"])
    assert chance_levels(varied, "test_accuracy") == {"x": 4 / 6, "y": 1.0}


def test_infinite_losses_have_no_difference():
    rows = rows_of({"base": BASE, "wild": BASE}, "test_loss")
    rows = [{**row, "diverged": int(row["method"] == "wild")} for row in rows]
    headline, statistics = lines_of(rows)
    assert headline == "wild is worse than base."
    assert "Test loss ∞ with wild, 0.504 with base; better in 0 of 7 seeds; p = " in statistics


def test_the_table_counts_seeds_with_their_ties():
    rows = rows_of({"base": [0.1, 0.2, 0.3, 0.4], "m": [0.1, 0.3, 0.2, 0.3]})
    _, row = results(rows, against(rows, "base", "final"), "final")
    assert row["better in"][0] == "1 of 4, 1 tied"


@pytest.mark.parametrize(
    ("label", "text"),
    {
        "fleet.malicious=[0, 3]": "clients 0, 3 malicious",
        "fleet.malicious={count: 5}": "5 malicious",
        "fleet.malicious={share: 0.2, per: round}": "20 % malicious, drawn every round",
        "cohort.size=1, client.epochs=2": "1 client per round, 2 local epochs",
        "data.partition={kind: dirichlet, alpha: 1}": "Dirichlet α = 1",
        "data.partition=dirichlet(alpha=0.1)": "Dirichlet α = 0.1",
        "wire=[]": "no attack",
        "broadcast=[]": "uncompressed",
        "wire[0].scale=5": "sign flip scale 5",
        "wire=[{kind: error_feedback, codec: {kind: top_k, k: 9}}]": "error_feedback(top_k(k=9))",
        "broadcast=[{kind: ef21, codec: cast}]": "ef21(cast) in the broadcast",
        "server[9].trim=4": "server trim 4",
        "a strange label": "a strange label",
        "x=<b>{[": "x <b>{[",
    }.items(),
)  # fmt: skip
def test_a_variation_is_put_into_words(label, text):
    scenario = {
        "data": {"partition": {"kind": "dirichlet"}},
        "wire": [{"kind": "sign_flip"}],
        "client": {"kind": "sgd"},
        "compare": {"vary": {"wire": [[], ["zero"]]}},
    }
    assert words.variation_in_words(label, scenario) == text


@if_all_installed
def test_paths_that_have_a_title_are_keys_of_a_scenario():
    sections = {"data": DataCommon, "client": ClientCommon, "fleet": Fleet, "numerics": Numerics}
    for path in words.TITLES:
        first, *rest = path.split(".")
        assert first in Spec.model_fields
        if len(rest) == 1 and first in sections:
            assert rest[0] in sections[first].model_fields, path
