"""What a comparison says in sentences, and the names that scenario paths have in them."""

import json

import pandas as pd
import pytest
from conftest import if_all_installed

from fedsim.report.results import results
from fedsim.scenario.sections import ClientCommon, DataCommon, Fleet, Numerics, Spec
from fedsim.study import words
from fedsim.study.cautions import few_seeds_lines
from fedsim.study.claims import BETTER as BETTER_OR_WORSE
from fedsim.study.claims import claims_of
from fedsim.study.findings import findings_of
from fedsim.study.guessing import chance_levels
from fedsim.study.pairing import against
from fedsim.study.standings import standings
from fedsim.study.verdict import verdict

BASE = [0.50, 0.52, 0.48, 0.51, 0.49, 0.50, 0.53]
BETTER = [b + d for b, d in zip(BASE, [0.1, 0.12, 0.11, 0.1, 0.13, 0.12, 0.11], strict=True)]
LEVEL = [b + d for b, d in zip(BASE, [0.01, -0.01, 0.02, -0.02, 0.0, 0.01, -0.01], strict=True)]


def rows_of(scores: dict[str, list], metric="test_accuracy", **more) -> list[dict]:
    return [
        {
            "method": method,
            "seed": seed,
            "metric": metric,
            "final": value,
            "best": 9.0,
            "diverged": 0,
            **more,
        }
        for method, values in scores.items()
        for seed, value in enumerate(values)
    ]


def verdict_of(rows, baseline="base", chance=None, **more):
    tables = {"compare": against(rows, baseline, "final"), "summary": rows}
    findings = findings_of(tables, baseline, chance=chance)
    return verdict(findings._replace(**more))


def lines_of(rows, baseline="base", **more):
    return verdict_of(rows, baseline, **more).lines


def test_a_headline_then_significant_differences_then_the_rest():
    assert lines_of(rows_of({"base": BASE, "level": LEVEL, "better": BETTER})) == [
        "better leads with test accuracy 0.617, against 0.504 for base "
        "(0.113 better, 95 % CI 0.103 to 0.123; better in 7 of 7 seeds; p = 0.031 after Holm).",
        "Significantly better than base (p < 0.05 after Holm): "
        "better (+0.113, 95 % CI +0.103 to +0.123; better in 7 of 7 seeds).",
        "No significant difference from base: "
        "level (+0, 95 % CI -0.0131 to +0.0131; better in 3 of 7 seeds, tied in 1).",
    ]


def test_a_single_method_is_described_by_its_best_and_worst_variation():
    rows = rows_of({"base": BETTER}, variant="data.partition=iid")
    rows += rows_of({"base": BASE}, variant="data.partition=shards")
    best_and_worst = "0.617 with partition IID and 0.504 with partition shards"
    assert lines_of(rows)[0] == f"base ends at test accuracy {best_and_worst}."
    assert lines_of(rows_of({"base": BASE}))[0] == "base ends at test accuracy 0.504."


def test_a_smaller_loss_is_better():
    lines = lines_of(rows_of({"base": BETTER, "less": BASE}, "test_loss"))
    assert lines[0].startswith(
        "less leads with test loss 0.504, against 0.617 for base "
        "(0.113 better, 95 % CI 0.103 to 0.123;"
    )
    assert lines[1].startswith(
        "Significantly better than base (p < 0.05 after Holm): "
        "less (-0.113, 95 % CI -0.123 to -0.103;"
    )


def test_a_leading_baseline_is_told_how_many_are_significantly_worse():
    level = [score - 0.001 * (i % 2) for i, score in enumerate(BETTER)]
    lines = lines_of(rows_of({"base": BETTER, "level": level, "less": BASE}))
    assert lines[0] == (
        "base, the baseline, leads with test accuracy 0.617; "
        "1 of the 2 others is significantly worse."
    )
    both = lines_of(rows_of({"base": BETTER, "less": BASE, "least": [b / 2 for b in BASE]}))
    assert both[0].endswith("; both others are significantly worse.")


def test_too_few_seeds_are_named_instead_of_a_p_of_1():
    scores = {"base": [0.1, 0.1, 0.11]}
    for i in range(6):
        scores[f"m{i}"] = [0.84, 0.83, 0.85 + 0.01 * i]
    lines = lines_of(rows_of(scores))
    assert "better in 3 of 3 seeds, too few for significance" in lines[0]
    assert not any("p = 1" in line for line in lines)
    assert lines[1].startswith(
        "Better than base by the 95 % interval, with too few seeds for significance: m5 (+0.7"
    )
    assert lines[2:] == [
        "With 3 seeds, no difference can be significant: the smallest p of a two-sided test is 1 "
        "after Holm over 6 comparisons. At least 8 seeds are needed.",
    ]
    one = lines_of(rows_of({"base": [0.5], "a": [0.75], "b": [0.25]}))
    assert one[0] == (
        "One seed tells nothing apart: a leads with test accuracy 0.750, against 0.500 for base, "
        "but not significantly (0.25 better; better in 1 of 1 seed)."
    )
    assert one[-1].endswith("is 1 after Holm over one comparison. At least 6 seeds are needed.")


def test_the_headline_says_where_nothing_can_be_told_apart():
    level = {"base": [0.50, 0.52, 0.51], "a": [0.53, 0.50, 0.52]}
    headline, *_ = lines_of(rows_of(level))
    assert headline.startswith("No clear difference: a leads with test accuracy 0.517, against")
    assert "but not significantly" in headline
    other = {"base": [0.53, 0.50, 0.52], "a": [0.50, 0.52, 0.51]}
    assert lines_of(rows_of(other))[0].startswith("No clear difference: base, the baseline, leads")
    for far in ([0.1, 0.12, 0.12], [0.1, 0.12, 0.11]):  # the second is 0.4 worse under all seeds
        assert "No clear difference" not in lines_of(rows_of({**level, "far": far}))[0]


def test_no_number_of_seeds_is_enough_for_very_many_comparisons():
    """Beyond 16 seeds the smallest p does not fall any more."""
    rows = rows_of({"base": BASE, "m": BETTER})
    findings = findings_of({"compare": against(rows, "base", "final"), "summary": rows}, "base")
    (line,) = few_seeds_lines(findings._replace(tests=10_000))
    assert line.endswith("is 1 after Holm over 10000 comparisons.")


def test_the_headline_under_attack_says_which_method_holds_up():
    chance = {"fleet.malicious=0": 0.1, "fleet.malicious=0.2": 0.1}
    rows = rows_of({"base": BETTER, "m": BASE}, variant="fleet.malicious=0")
    rows += rows_of(
        {"base": [0.1, 0.11, 0.1, 0.1, 0.1, 0.1, 0.1], "m": BASE}, variant="fleet.malicious=0.2"
    )
    lines = lines_of(rows, chance=chance)
    assert lines[0].startswith(
        "With 20 % malicious, m holds up with test accuracy 0.504, "
        "against 0.101 for base, which is at chance level (0.4"
    )
    assert lines[0].endswith(
        "; with 0 % malicious, base leads with 0.617 (the other is significantly worse)."
    )
    assert [line.split(":")[0] for line in lines[1:]] == [
        "With 0 % malicious",
        "With 20 % malicious",
        "With 20 % malicious",
    ]


def test_methods_at_chance_level_are_not_compared():
    rows = rows_of({"base": [0.1] * 7, "m": [0.105] * 7, "wild": [0.1] * 7})
    for row in rows:
        row["diverged"] = int(row["method"] == "wild")
    lines = lines_of(rows, chance={"": 0.101})
    assert lines[0] == (
        "No method is above chance level: m, the best, has test accuracy 0.105; "
        "wild diverged under all seeds."
    )
    assert "At chance level: m, base; they are not compared with each other." in lines
    assert not any("better than base" in line for line in lines)


def test_the_leader_holds_up_only_if_half_of_its_gain_is_significantly_left():
    variants = ("fleet.malicious=0", "fleet.malicious=0.2")
    spread = [0.02, -0.01, 0.0, 0.01, -0.02, 0.015, -0.015]
    for left, verb in ((0.60, "holds up"), (0.50, "leads"), (0.46, "leads"), (0.30, "leads")):
        rows = rows_of({"base": [0.8] * 7, "m": [0.9 + d for d in spread]}, variant=variants[0])
        rows += rows_of(
            {"base": [0.2] * 7, "m": [left + d for d in reversed(spread)]}, variant=variants[1]
        )
        headline = lines_of(rows, start=dict.fromkeys(variants, 0.1))[0]
        assert f"with 20 % malicious, it {verb} with" in headline, left
    assert "it leads with" in lines_of(rows)[0]  # the gain from training is unknown


def test_a_difference_can_be_insignificant_after_holm_with_enough_seeds():
    """Two of ten seeds have the other sign: the interval excludes 0, Holm over seven does not."""
    lean = [0.03, 0.02, 0.025, 0.02, 0.03, 0.02, 0.025, 0.02, -0.006, -0.004]
    scores = {
        "base": [0.5] * 10,
        **{f"m{i}": [0.5 + (1 + i / 100) * d for d in lean] for i in range(7)},
    }
    lines = lines_of(rows_of(scores))
    assert lines[0].endswith(
        "; better in 8 of 10 seeds; by the 95 % interval, but not after Holm)."
    )
    assert lines[1].startswith(
        "Better than base by the 95 % interval, but not after Holm: m6 (+0.0"
    )
    assert len(lines) == 2
    assert not claims_of(lines)


def test_equal_scores_are_one_test_and_one_sentence():
    """Along an axis that no method reads."""
    values = [0.1, 0.2, 0.3]
    rows = [
        row
        for value in values
        for row in rows_of(
            {"base": BASE, "better": BETTER, "level": LEVEL}, variant=f"client.mu={value}"
        )
    ]
    table = {
        (row["variant"], row["method"]): row["p_adjusted"] for row in against(rows, "base", "final")
    }
    alone = {
        row["method"]: row["p_adjusted"]
        for row in against(
            rows_of({"base": BASE, "better": BETTER, "level": LEVEL}), "base", "final"
        )
    }
    assert all(
        table[f"client.mu={value}", method] == p for value in values for method, p in alone.items()
    )
    lines = lines_of(rows)
    assert [line for line in lines if "the same scores" in line] == [
        f"With client μ {value}: the same scores as with client μ 0.1." for value in values[1:]
    ]
    assert sum("better (" in line for line in lines[1:]) == 1


def test_methods_that_ignore_an_axis_are_reported_once():
    rows = rows_of({"base": BASE, "same": BETTER, "reads": LEVEL}, variant="client.mu=0.1")
    rows += rows_of({"base": BASE, "same": BETTER, "reads": BETTER[::-1]}, variant="client.mu=0.2")
    lines = lines_of(rows)
    assert "With client μ 0.2: the same scores as with client μ 0.1: same." in lines
    twins = lines_of(rows_of({"base": BASE, "one": BETTER, "two": BETTER}))
    assert twins[1].endswith(
        "one and two (+0.113, 95 % CI +0.103 to +0.123; better in 7 of 7 seeds; identical scores)."
    )


def test_no_interval_of_width_0_is_printed():
    twins = lines_of(rows_of({"base": BASE, "one": BASE, "two": [b + 0.25 for b in [0.5] * 7]}))
    level = "No significant difference from base: one (+0; better in 0 of 7 seeds, tied in 7)."
    assert level in twins
    constant = lines_of(rows_of({"base": [0.5, 0.75], "m": [0.75, 1.0]}))
    assert "m (+0.25; better in 2 of 2 seeds)" in constant[1]
    assert "0.25 better; better in 2 of 2" in constant[0]


def test_sentences_carry_their_claims_as_data():
    lines = lines_of(rows_of({"base": BASE, "level": LEVEL, "better": BETTER}))
    claims = claims_of(lines)
    assert {(claim.kind, claim.who, claim.whom) for claim in claims} == {
        (BETTER_OR_WORSE, "better", "base")
    }
    assert all(claim.p == pytest.approx(2 * 2 / 2**7) for claim in claims)
    assert not claims_of(lines[2:])
    assert json.loads(json.dumps(lines)) == lines  # to all other code they are plain strings


def test_a_verdict_is_a_headline_and_at_most_five_sentences():
    """None of nine variations is singled out; what is left out is in the column, and counted."""
    values = [0.1 * i for i in range(1, 10)]
    rows = []
    for i, value in enumerate(values):
        better = [score + i / 1000 for score in BETTER]
        rows += rows_of(
            {"base": BASE, "better": better, "level": LEVEL}, variant=f"client.lr={value:.1f}"
        )
    more = [{**row, "seed": seed} for row in rows for seed in (row["seed"], row["seed"] + 7)]
    about = verdict_of(more)
    assert about.lines[0].startswith("better has the best mean in all 9 variations")
    assert len(about.lines) == 1
    assert {standing.verdict for group in about.standings.values() for standing in group} == {
        "",
        "significantly better",
        "no significant difference",
    }
    assert len({claim.where for claim in about.claims if claim.kind == BETTER_OR_WORSE}) == 9
    few = verdict_of([row for row in more if row["variant"] < "client.lr=0.3"])
    assert [line.priority.name for line in few.lines] == [
        "HEADLINE",
        "SIGNIFICANT",
        "LEVEL",
        "SIGNIFICANT",
        "REPEATED",
    ]


def test_the_verdict_column_has_a_result_for_every_method():
    chance = {"": 0.12}
    scores = {
        "base": BETTER,
        "level": [b - 0.001 * (i % 2) for i, b in enumerate(BETTER)],
        "less": [0.1] * 7,
    }
    rows = rows_of({**scores, "wild": BASE, "gone": BASE, "idle": BASE})
    for row in rows:
        row["diverged"] = int(row["method"] == "wild")
        row |= (
            {"status": "failed", "metric": None, "final": None} if row["method"] == "gone" else {}
        )
        row |= {"status": "not_run", "final": None} if row["method"] == "idle" else {}
    about = verdict_of(rows, chance=chance)
    assert {standing.method: standing.verdict for standing in about.standings[""]} == {
        "base": "",
        "level": "no significant difference",
        "less": "significantly worse, at chance level",
        "wild": "significantly worse, diverged",
        "gone": "failed",
        "idle": "not run",
    }
    table = results(rows, against(rows, "base", "final"), "final", by_variation=about.standings)
    assert {row["method"][0]: row["verdict"][0] for row in table} == {
        standing.method: standing.verdict for standing in about.standings[""]
    }


def test_headlines_of_regressions_name_r2_and_mae():
    rows = rows_of({"base": BETTER, "less": BASE}, "test_loss")
    errors = {("", "base"): "R² 0.71, MAE 0.52", ("", "less"): "R² 0.8, MAE 0.4"}
    assert lines_of(rows, errors=errors)[0].startswith(
        "less leads with test loss 0.504 (R² 0.8, MAE 0.4), "
        "against 0.617 (R² 0.71, MAE 0.52) for base (0.113 better"
    )
    assert lines_of(rows_of({"base": BASE, "m": BETTER}, "test_r2"))[0].startswith(
        "m leads with test R² 0.617, against"
    )
    assert lines_of(rows_of({"base": BETTER, "m": BASE}, "test_mae"))[0].startswith(
        "m leads with test MAE 0.504"
    )


def test_chance_is_the_share_of_the_most_frequent_label():
    table = pd.DataFrame(
        {"client": ["A", "A", "B"], "label": ["cat", "dog", "dog"], "samples": [4, 2, 4]}
    )
    assert chance_levels(table, "test_accuracy") == {"": 0.6}
    assert chance_levels(table, "test_loss") == {}
    assert (
        chance_levels(table.assign(label=None), "test_accuracy")
        == chance_levels(None, "test_accuracy")
        == {}
    )
    assert chance_levels(table.assign(variant=["x", "x", "y"]), "test_accuracy") == {
        "x": 4 / 6,
        "y": 1.0,
    }


def test_failures_and_infinite_losses_are_reported():
    rows = rows_of({"base": BASE, "gone": BETTER, "wild": BASE}, "test_loss")
    for row in rows:
        row |= {"status": "failed", "metric": None} if row["method"] == "gone" else {}
        row["diverged"] = int(row["method"] == "wild")
    assert lines_of(rows) == [
        "base, the baseline, leads with test loss 0.504; the other is significantly worse; "
        "wild diverged under all seeds.",
        "Significantly worse than base (p < 0.05 after Holm): "
        "wild (better in 0 of 7 seeds; 7 of 7 runs diverged).",
        "Failed under all seeds, and so not compared: gone.",
    ]
    assert lines_of([{**row, "status": "failed", "metric": None} for row in rows]) == [
        "No run has a score."
    ]


def test_methods_that_have_not_run_are_distinguished_from_failed_ones():
    rows = rows_of({"base": BASE, "idle": BETTER, "gone": BETTER, "part": BASE})
    for row in rows:
        if row["method"] == "gone":
            row |= {"status": "failed", "metric": None, "final": None}
        if row["method"] == "idle" or (row["method"], row["seed"]) == ("part", 3):
            row |= {"status": "not_run", "final": None}
    assert lines_of(rows) == [
        "base, the baseline, leads with test accuracy 0.504; the other is not significantly worse.",
        "No significant difference from base: part (+0; better in 0 of 6 seeds, tied in 6).",
        "Failed under all seeds, and so not compared: gone.",
        "Not run (no round was aggregated), and so without a score: "
        "idle (7 of 7 seeds), part (1 of 7 seeds).",
    ]
    counts = {
        row["method"]: (row["failed"], row.get("not_run")) for row in against(rows, "base", "final")
    }
    assert counts == {"base": (0, None), "idle": (0, 7), "gone": (7, None), "part": (0, 1)}
    assert lines_of(
        [
            {**row, "status": "not_run"}
            for row in rows_of({"base": BASE}, variant="fleet.malicious=0.2")
        ]
    ) == [
        "No run has a score.",
        "Not run (no round was aggregated), and so without a score: "
        "base with 20 % malicious (7 of 7 seeds).",
    ]


def test_a_baseline_that_has_not_run_fails_no_other_method():
    rows = rows_of({"base": BASE, "good": BETTER})
    for row in rows[:7]:
        row |= {"status": "not_run", "final": None}
    assert lines_of(rows) == [
        "good leads with test accuracy 0.617.",
        "Not run (no round was aggregated), and so without a score: base (7 of 7 seeds).",
    ]


def test_few_runs_that_all_diverged_are_reported_as_such():
    rows = rows_of({"base": [0.5, 0.6, 0.4], "wild": [0.5, 0.6, 0.4]}, "test_loss")
    for row in rows:
        row["diverged"] = int(row["method"] == "wild")
    lines = lines_of(rows)
    end = "the other is not significantly worse; wild diverged under all seeds."
    assert lines[0].endswith(end)
    assert lines[1] == (
        "Diverged under all seeds: wild (better in 0 of 3 seeds; 3 of 3 runs diverged)."
    )


def test_the_baselines_own_row_changes_nothing():
    rows = rows_of({"base": BASE, "level": LEVEL, "better": BETTER})
    table = against(rows, "base", "final")
    own = [
        {**dict.fromkeys(table[0]), "method": "base", "baseline": "base", "seeds": 7},
        *(r for r in table if r["method"] != "base"),
    ]
    one, other = (
        findings_of({"compare": part, "summary": rows}, "base") for part in (own, own[1:])
    )
    assert verdict(one) == verdict(other)
    assert results(rows, own, "final") == results(rows, own[1:], "final")


def test_seeds_are_counted_with_their_ties():
    rows = rows_of({"base": [0.1, 0.2, 0.3, 0.4], "m": [0.1, 0.3, 0.2, 0.3]})
    (standing,) = [
        s for s in standings(against(rows, "base", "final"), rows, "base", "final")[""] if s.row
    ]
    assert standing.seeds_in_words == "better in 1 of 4 seeds, tied in 1"
    assert (
        results(rows, against(rows, "base", "final"), "final")[1]["better in"][0]
        == "1 of 4, 1 tied"
    )


@pytest.mark.parametrize(
    ("label", "text"),
    {
        "fleet.malicious=0": "0 % malicious",
        "fleet.malicious=[0, 3]": "clients 0, 3 malicious",
        "fleet.malicious={count: 5}": "5 malicious",
        "cohort.size=1, client.epochs=2": "1 client per round, 2 local epochs",
        "data.partition.alpha=0.1": "Dirichlet α 0.1",
        "data.partition={kind: dirichlet, alpha: 1}": "partition Dirichlet α 1",
        "data.partition=iid": "partition IID",
        "wire[0].scale=5": "sign flip scale 5",
        "client.mu=0.1": "client μ 0.1",
        "evaluate.every=5": "evaluate every 5",
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
    }
    assert words.variation_in_words(label, scenario) == text


@if_all_installed
def test_paths_that_have_a_title_are_keys_of_a_scenario():
    sections = {"data": DataCommon, "client": ClientCommon, "fleet": Fleet, "numerics": Numerics}
    for path in words.TITLES:
        first, *rest = path.split(".")
        assert first in Spec.model_fields
        assert len(rest) != 1 or first not in sections or rest[0] in sections[first].model_fields, (
            path
        )
