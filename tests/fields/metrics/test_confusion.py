"""The confusion matrix of a run counts its test samples, and is on the page and in a figure."""

import pandas as pd
import pytest
from test_runs import run

from fedsim.fields.metrics.figures import figures
from fedsim.fields.metrics.page import section
from fedsim.report.context import context_of
from fedsim.report.page.sources import Source


def shown(table):
    made = section([Source({}, {"confusion": table})], context_of({"name": "m"}))
    assert made is not None
    return made.html


def share_of_hits(rows):
    hits = rows.loc[rows["label"] == rows["decision"], "samples"].sum()
    return hits / rows["samples"].sum()


def test_the_confusion_matrix_counts_the_test_samples():
    result = run(evaluate={"confusion": True})
    table = result.frames()["confusion"]
    assert share_of_hits(table) == pytest.approx(result.rounds["test_accuracy"].iloc[-1])
    assert "sums over 2 seeds" in shown(pd.concat([table, table.assign(seed=1)]))
    several = pd.concat([table, table.assign(method="ifca", model=1)])
    assert "ifca, model 1</figcaption>" in shown(several)
    ((name, pages),) = figures({"confusion": table}, context_of({"name": "m"}))
    assert name == "confusion" and len(pages) == 1


@pytest.mark.long
def test_several_models_have_a_matrix_each_and_a_mean_of_their_scores():
    evaluate = {"metrics": ["auc"], "confusion": True}
    model = {"kind": "mlp", "hidden": [4]}
    several = run(method="ifca(clusters=2)", model=model, evaluate=evaluate)
    table = several.frames()["confusion"]
    last = several.rounds.iloc[-1]
    for model, rows in table.groupby("model"):
        assert share_of_hits(rows) == pytest.approx(last[f"model{model:g}/test_accuracy"])
    assert set(table["model"]) == set(several.clients["cluster"])
    of_models = last[["model0/test_auc", "model1/test_auc"]]
    assert last["test_auc"] == pytest.approx(of_models.mean())
