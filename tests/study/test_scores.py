"""The score of a method is one number in every table, picture and sentence, whatever the metric."""

import re

import pandas as pd
import pytest
from test_verdict import verdict_of

from fedsim.report import tables
from fedsim.report.context import context_of
from fedsim.report.paper_table import paper_table
from fedsim.report.pictures.differences import forests
from fedsim.report.results import results
from fedsim.study.methods import methods_of, score_against
from fedsim.study.pairing import against
from fedsim.study.standings import NO_OWN_SCORE
from fedsim.study.summary import of_own_models

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
    about = verdict_of(summary, baseline, scenario=SCENARIO, score=score)
    name = "local_only"
    (row,) = [row for row in compared if row["method"] == name]
    (standing,) = [standing for standing in about.standings[""] if standing.method == name]
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
    said = [*about.lines, standing.verdict]
    assert any(re.search(r"\bown\b", line.lower()) for line in said) == on_own
