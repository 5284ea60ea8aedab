"""The score of a method is one number in every table, picture and sentence, whatever the metric."""

import itertools
import re
from pathlib import Path
from typing import get_args

import pandas as pd
import pytest

import fedsim
from fedsim.report import tables
from fedsim.report.context import context_of
from fedsim.report.page.setting import setting
from fedsim.report.paper_table import paper_table
from fedsim.report.pictures.differences import forests
from fedsim.report.results import results
from fedsim.scenario import read
from fedsim.scenario.sections import Evaluate
from fedsim.study.findings import findings_of
from fedsim.study.grid import design_of
from fedsim.study.methods import methods_of, score_against
from fedsim.study.pairing import against
from fedsim.study.standings import NO_OWN_SCORE, few_seeds, too_few
from fedsim.study.summary import larger_is_better, of_clients, of_own_models, own_score, summarise
from fedsim.study.verdict import verdict
from fedsim.study.words import difference_in_words

METRICS = get_args(Evaluate.model_fields["metric"].annotation)
KINDS_OF_METRICS = ("test_accuracy", "train_loss", "client_mae_mean", "personal_accuracy_mean")
SCENARIO = {"name": "scores", "seeds": [0, 1, 2], "data": {"client_test": 0.3}}


def runs(metric, has_own=True):
    """Rows of `summary.csv`: a method with a shared model, and clients that train alone."""
    rows = []
    for seed in SCENARIO["seeds"]:
        final = 0.5 + 0.01 * seed
        scores = {"final": final, "best": final + 0.1, "mean_last_k": final - 0.1}
        alone = {"metric": metric, **scores}
        if not of_own_models(metric):
            alone = {"metric": metric if has_own else None, **dict.fromkeys(scores)}
        shared = {"metric": metric, **scores}
        if has_own:
            shared["own"] = final + 0.2
            alone["own"] = final + 0.3
        targets = dict.fromkeys(("rounds_to_target", "bytes_to_target"))
        more = {"seed": seed, "diverged": 0, "k": 2, **targets}
        rows.append({"method": "fedavg", **shared, **more})
        rows.append({"method": "local_only", **alone, **more, "not_federated": "alone"})
    return rows


@pytest.mark.parametrize("score", ["final", "mean_last_k", "own"])
@pytest.mark.parametrize("baseline", ["fedavg", "local_only"])
@pytest.mark.parametrize("metric", KINDS_OF_METRICS)
def test_clients_alone_have_the_same_score_everywhere(metric, baseline, score):
    (method,) = methods_of(baseline)
    if baseline == "local_only" and not of_own_models(metric):
        score = score_against(method, metric, "final")
    summary = runs(metric)
    compared = against(summary, baseline, score)
    findings = findings_of({"compare": compared, "summary": summary}, baseline, score, SCENARIO)
    standings = verdict(findings).standings
    name = "local_only"
    (row,) = [row for row in compared if row["method"] == name]
    (standing,) = [standing for standing in standings[""] if standing.method == name]
    assert row["mean"] is not None and standing.mean == pytest.approx(row["mean"])
    assert NO_OWN_SCORE not in standing.verdict

    (cells,) = [r for r in results(summary, compared, score) if r["method"][0] == name]
    assert cells["score"][0] == f"{row['mean']:.4f}"
    frames = pd.DataFrame(summary), pd.DataFrame(compared)
    assert f"{row['mean']:.4f}" in tables.markdown(tables.for_paper(*frames, score))
    assert "no score" not in paper_table(summary, compared, score, SCENARIO)

    (forest,) = forests(compared, context_of(SCENARIO, summary, score, ["fedavg", name]))
    (drawn,) = forest.rows
    (other,) = [row for row in compared if row["method"] != baseline]
    assert drawn["difference"] == other["difference"] and drawn["difference"] is not None
    on_own = score == "own" or not of_own_models(metric)
    expected = 0.1 if on_own else 0.0
    assert abs(drawn["difference"]) == pytest.approx(expected)
    said = [*verdict(findings).lines, standing.verdict]
    assert any(re.search(r"\bown\b", line.lower()) for line in said) == on_own


def test_clients_without_scores_on_own_samples_are_left_out():
    summary = runs("test_accuracy", has_own=False)
    compared = against(summary, "fedavg", "final")
    assert compared[1]["mean"] is None and compared[1]["p_value"] is None
    findings = findings_of({"compare": compared, "summary": summary}, "fedavg", "final", SCENARIO)
    (_, alone) = verdict(findings).standings[""]
    assert alone.verdict == NO_OWN_SCORE and findings.tests == 0

    summary = runs("test_accuracy")
    del summary[0]["own"]  # a run of an earlier version
    (_, row) = against(summary, "fedavg", "final")
    assert row["seeds"] == 2 and row["difference"] == pytest.approx(0.1)


@pytest.mark.parametrize("metric", sorted(filter(of_clients, METRICS)))
def test_a_metric_of_clients_is_one_of_their_models(metric):
    """Its score is a mean over clients of that column; smaller errors are better."""
    assert metric in METRICS
    assert larger_is_better(metric) == ("accuracy" in metric)
    rounds = [{"round": 0, metric: 0.5, "test_loss": 1.0}]
    line = summarise(rounds, metric, 5, None, "done", "", "alone")
    assert line["metric"] == (metric if of_own_models(metric) else None)
    name = "accuracy" if "accuracy" in metric else "mae"
    clients = {f"personal_{name}": [0.25, None, 0.75], f"global_{name}": [0.1, 0.1, 0.1]}
    assert own_score(clients, "done", metric) == {"metric": metric, "own": 0.5}


SMALL = {"kind": "gaussian_blobs", "samples": 120, "clients": 4, "client_test": 0.3}
ALONE = {"name": "alone", "rounds": 1, "data": SMALL, "model": "logistic"}


@pytest.mark.long
def test_a_comparison_with_clients_alone_as_baseline_has_what_its_files_say(tmp_path):
    found = fedsim.compare(ALONE, "fedavg,local_only", baseline="local_only", out=tmp_path / "a")
    assert found.score == "own" and found.table["difference"].notna().sum() == 1
    clients = pd.read_csv(tmp_path / "a/clients.csv").set_index("method")
    own = found.summary.set_index("method")["own"]
    for method, column in (("fedavg", "global_accuracy"), ("local_only", "personal_accuracy")):
        assert own[method] == pytest.approx(clients.loc[method, column].mean())


NO_OWN_SAMPLES = (0.0, None, r"set data\.client_test")
ANOTHER_SCORE = (0.3, "best", "which best test_accuracy is about; write own")


@pytest.mark.parametrize(("client_test", "score", "text"), [NO_OWN_SAMPLES, ANOTHER_SCORE])
def test_clients_alone_are_no_baseline_for_what_they_do_not_have(client_test, score, text):
    scenario = {**ALONE, "data": {**ALONE["data"], "client_test": client_test}}
    with pytest.raises(fedsim.ScenarioError, match=text):
        fedsim.compare(scenario, "fedavg,local_only", baseline="local_only", score=score)


def test_a_tie_is_never_minus_zero():
    rows = []
    for method, seed in itertools.product(["tied", "base"], range(3)):
        row = {"method": method, "seed": seed, "metric": "test_loss", "final": 0.5, "diverged": 0}
        rows.append(row)
    tables = {"compare": against(rows, "base", "final"), "summary": rows}
    text = " ".join(verdict(findings_of(tables, "base")).lines)
    assert not re.search(r"-0(?![.\d])", text) and "difference +0; better in 0 of 3" in text
    assert difference_in_words(-0.0, -0.0, 0.5) == "+0, 95 % CI +0 to +0.5"


def test_a_number_with_a_sign_is_never_minus_zero():
    """`z` in a format makes -0 and what rounds to it 0."""
    signed = re.compile(r":\+(?!z)[.,\d]*[fg]\}")
    for file in sorted(Path(fedsim.__file__).parent.rglob("*.py")):
        assert not signed.findall(file.read_text(encoding="utf-8")), file


@pytest.mark.parametrize("tests", [1, 2, 7])
def test_the_seeds_that_are_said_to_be_enough_are_enough(tests):
    text = few_seeds(2, tests)
    enough = int(re.search(r", (\d+) would do", text)[1])
    assert few_seeds(enough, tests) == "" and too_few(enough - 1, tests)


def test_a_tuned_method_has_one_label():
    """What is tried does not change it, so that values can be added; what is chosen is a column."""
    few, more, other = methods_of("fedadam(lr=0.01|0.03), fedadam(lr=0.01|0.1|1), fedadam(tau=1|2)")
    assert few.label == more.label == "fedadam(lr=tuned)" and other.label == "fedadam(tau=tuned)"
    (again,) = methods_of([few.entry])
    assert again == few and again.grid == {"method.lr": ["0.01", "0.03"]}


def test_what_was_run_says_what_was_tuned_and_not_the_rate_that_was_not():
    compare = {"methods": ["fedavg", "fedadam(lr=0.01|0.03)"], "tune": {"client.lr": [0.05, 0.2]}}
    scenario = {"name": "tuned", "rounds": 1, "data": {"kind": "digits", "validation": 0.1}}
    design = design_of(read({**scenario, "client": {"lr": 0.5}, "compare": compare}))
    record = {"scenario": design.scenario.resolved(), "halves": {"fedadam(lr=tuned)": "sgd → adam"}}
    steps = dict(setting(record)["steps"])
    assert steps["client"].startswith("sgd, lr tuned, batch") and "0.5" not in steps["client"]
    assert steps["methods"][1] == "fedadam(lr=tuned): sgd → adam, lr of 0.01, 0.03"
    assert steps["tuned"] == "client learning rate (client.lr): 0.05, 0.2"
