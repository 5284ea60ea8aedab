"""Runs under attacks on data measure the success of the attack, and the page shows it."""

import numpy as np
import pandas as pd
import pytest
from test_poisoned_samples import link
from test_scenarios import FOLDER, late, run, table
from unchanged import run_of_same_bytes

import fedsim
from fedsim.assemble.forecast import notes
from fedsim.report.context import context_of
from fedsim.report.page import charts, setting
from fedsim.scenario import read


def test_the_page_has_a_panel_and_says_what_is_attacked():
    sent = {"bytes_up": 0.0, "bytes_down": 0.0, "virtual_seconds": 0.0}
    row = {"method": "mean", "seed": 0, "test_loss": 1.0, **sent}
    rows = pd.DataFrame([{**row, "round": r, "attack_success": 0.1 * r} for r in range(3)])
    groups = charts.charts(rows, ["mean"], context_of({}, [{"metric": "test_loss"}]))
    assert [group["words"] for group in groups] == ["test loss", "attack success"]
    attacked = read({"name": "page", "data": {"kind": "digits", "attack": ["label_random"]}})
    steps = setting.setting({"scenario": attacked.resolved()})["steps"]
    assert ("attack on data", "label_random") in steps


DATA = {
    "kind": "digits",
    "clients": 6,
    "client_test": 0.2,
    "attack": [link("backdoor", target=3, share=0.5)],
}


def scenario(**sections):
    return {
        "name": "backdoor",
        "rounds": 4,
        "data": DATA,
        "model": "logistic",
        "fleet": {"malicious": [1, 2]},
        "cohort": {"kind": "uniform", "size": 4},
        "client": {"lr": 0.2, "batch": 16},
        "numerics": {"lanes": 2},
        **sections,
    }


@pytest.mark.long
def test_attack_success_is_what_numpy_counts():
    result = fedsim.run(scenario())
    model, f = result.model(), result.experiment.plans[0].federation
    x, y = np.array(f.test.x), f.test.y
    guesses = lambda x: (x.reshape(len(x), -1) @ model["W"] + model["b"]).argmax(1)
    last = result.rounds.iloc[-1]
    assert last["test_accuracy"] == (guesses(x) == y).mean()
    x[:, -3:, -3:] = 1
    assert last["attack_success"] == (guesses(x)[y != 3] == 3).mean() > 0.5
    attacked = result.partition.groupby("client")["attack/backdoor"].first()
    halves = [round(0.5 * n) for n in f.sizes]
    assert attacked.tolist() == [0, halves[1], halves[2], 0, 0, 0]

    nobody = fedsim.run(scenario(rounds=0, fleet={}))
    said = "data.attack has backdoor, and no client is malicious; set fleet.malicious"
    assert said in notes(nobody.experiment) and said not in notes(result.experiment)
    assert nobody.rounds["attack_success"].notna().all()


@pytest.mark.optimised
@pytest.mark.long
def test_kills_and_blocks_change_no_byte(tmp_path):
    run_of_same_bytes(scenario(rounds=2), tmp_path, cut=1)


@pytest.mark.long
@pytest.mark.parametrize(
    "line", table(FOLDER / "robust" / "backdoor.yaml"), ids=lambda line: line.command
)
def test_what_comes_out_of_the_scenario_is_what_its_comment_says(line):
    result, sd = run(line.path, line.seeds, line.edits), float(line.stated["sd"])
    success = late(result).groupby("seed")["attack_success"].mean()
    accuracy = result.summary["mean_last_k"].mean()
    assert accuracy == pytest.approx(float(line.stated["mean_last_k"]), abs=0.03)
    assert success.mean() == pytest.approx(float(line.stated["attack_success"]), abs=0.01 + 2 * sd)
    assert success.std() == pytest.approx(sd, abs=0.01 + sd)
