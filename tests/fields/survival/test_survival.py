"""Runs of survival models read tables, are verified, forget clients, or are refused in a line."""

import itertools

import numpy as np
import pytest
from rossi import OWNERS, ROSSI, X, Y, scenario
from test_kaplan_meier import BRESLOW
from test_readme import block

import fedsim


@pytest.mark.long
def test_a_run_of_cox_regression_is_verified_and_forgets_a_client(tmp_path):
    data = fedsim.Arrays(x=X, y=Y, client=OWNERS)
    of_run = scenario("cox", data={"test": 0.3}, evaluate={"metrics": ["c_index"]})
    result = fedsim.run(of_run, data=data, out=tmp_path / "run")
    assert fedsim.verify(tmp_path / "run", data=data).equal
    forgotten = fedsim.unlearn(tmp_path / "run", clients=1, out=tmp_path / "without", data=data)
    original = forgotten.table.set_index("how").loc["original"]
    assert original["test_loss"] == result.rounds["test_loss"].iloc[-1]
    assert "attack_auc" not in forgotten.table  # no sample has a loss of its own


def test_a_table_names_the_columns_of_times_and_events(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = ROSSI.assign(client=OWNERS, arrest=ROSSI["arrest"].astype(bool))
    frame.to_csv("rossi.csv", index=False)
    (tmp_path / "folder").mkdir()
    for client, rows in frame.groupby("client"):
        rows.drop(columns="client").to_csv(f"folder/{client}.csv", index=False)
    target = {"time": "week", "event": "arrest"}
    data = {"target": target, "standardize": True, "test": 0}
    of_file = scenario(BRESLOW, data=data | {"kind": "csv", "path": "rossi.csv"})
    of_folder = scenario(BRESLOW, data=data | {"kind": "csv", "path": "folder"})
    found = [fedsim.run(each).model()["W"] for each in (of_file, of_folder)]
    found.append(fedsim.run(scenario(BRESLOW, data=data), data=frame).model()["W"])
    for one, other in itertools.pairwise(found):
        np.testing.assert_allclose(one, other, atol=1e-12)


def of_table(**target) -> dict:
    return {"data": {"test": 0, "target": target}}


def of_arrays(y) -> fedsim.Arrays:
    return fedsim.Arrays(x=X, y=y, client=OWNERS)


TIMES = {"time": "week", "event": "arrest"}
SQUARED = {"kind": "linear", "loss": "squared"}
OF_SAMPLES = {"client": {"dp_sgd": {"clip": 1.0, "noise_multiplier": 1.0}}}
SCORED = {"model": "linear"}  # by the C-index
CLASSES = {"data": {"test": 0, "target": "arrest"}}
# why, sections, data, the line
REFUSED = [
    ("no event", of_table(time="week"), ROSSI, "data.target.event: is missing"),
    ("no time", of_table(event="arrest"), ROSSI, "data.target.time: is missing"),
    ("no such column", of_table(time="weak", event="arrest"), ROSSI, "did you mean 'week'"),
    ("one column", of_table(time="week", event="week"), ROSSI, "both time and event"),
    ("other events", of_table(time="week", event="age"), ROSSI, "events of 0 or 1"),
    ("times of 0", of_table(time="prio", event="arrest"), ROSSI, "times above 0"),
    ("classes", CLASSES, ROSSI, "cox is for times and events"),
    ("another loss", {**of_table(**TIMES), "model": SQUARED}, ROSSI, "are times and events; write"),
    ("a time of 0", {}, of_arrays(Y * [[0, 1]]), "times above 0, and there is a time 0"),
    ("an event of 3", {}, of_arrays(Y + [[0, 2]]), "events of 0 or 1, and there is an event 3"),
    ("times alone", {}, of_arrays(Y[:, 0] + 0.5), r"give y \[n, 2\], or data.target"),
    ("another metric", {"evaluate": {"metrics": ["r2"]}}, of_arrays(Y), "not for times and events"),
    pytest.param(
        *("gradients of samples", OF_SAMPLES, of_arrays(Y), "cox compares the samples of a batch"),
        marks=pytest.mark.long,
    ),
    ("a graph", {"topology": "ring"}, of_arrays(Y), "nodes of a topology are scored by the losses"),
    ("losses of samples", {"method": "ifca"}, of_arrays(Y), "ifca chooses models by the losses"),
    ("a C-index of classes", SCORED, of_arrays(Y[:, 1]), "c_index is for times and events"),
    ("a C-index of numbers", SCORED, of_arrays(Y * 1.0), "c_index is for times and events"),
]


@pytest.mark.parametrize(("why", "sections", "data", "line"), REFUSED)
def test_what_has_no_times_and_events_or_needs_losses_of_samples_is_one_line(
    why, sections, data, line
):
    with pytest.raises((fedsim.ScenarioError, fedsim.DataError), match=line) as refused:
        fedsim.run(scenario("cox") | sections, data=data)
    assert len(str(refused.value).splitlines()) == 1, why


@pytest.mark.long
def test_the_page_says_what_happens(root, capsys):
    page = (root / "docs/scenarios/metrics.md").read_text(encoding="utf-8")
    exec(compile(block(page, "survival"), "metrics.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.endswith(block(page, "printed by survival"))
