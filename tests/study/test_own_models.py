"""Clients that train alone are compared by scores of their own models, on their own samples."""

from typing import get_args

import pandas as pd
import pytest
from test_scores import SCENARIO, runs
from test_verdict import verdict_of

import fedsim
from fedsim.scenario.sections import Evaluate
from fedsim.study.findings import findings_of
from fedsim.study.pairing import against
from fedsim.study.standings import NO_OWN_SCORE
from fedsim.study.summary import larger_is_better, of_clients, of_own_models, own_score, summarise

METRICS = get_args(Evaluate.model_fields["metric"].annotation)


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


def test_clients_without_scores_on_own_samples_are_left_out():
    summary = runs("test_accuracy", has_own=False)
    compared = against(summary, "fedavg", "final")
    assert compared[1]["mean"] is None and compared[1]["p_value"] is None
    (_, alone) = verdict_of(summary, "fedavg", scenario=SCENARIO).standings[""]
    findings = findings_of({"compare": compared, "summary": summary}, "fedavg", "final", SCENARIO)
    assert alone.verdict == NO_OWN_SCORE and findings.tests == 0

    summary = runs("test_accuracy")
    del summary[0]["own"]  # a run of an earlier version
    (_, row) = against(summary, "fedavg", "final")
    assert row["seeds"] == 2 and row["difference"] == pytest.approx(0.1)


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
