"""The bench compares equal work: each rival returns what a round returns; its files can be read."""

import json

import jax
import numpy as np
import pandas as pd
import pytest
from test_commands import fedsim as typed

import fedsim
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.scenario import read
from fedsim.tools.bench.baselines import cohort, rivals
from fedsim.tools.bench.workload import matmul_peak, step_flops

pytestmark = [pytest.mark.long, pytest.mark.optimised]

SMALL = (
    *("rounds=2", "data.samples=600", "data.clients=20", "cohort.size=6"),
    "numerics.dtype=float64",
)


@pytest.mark.parametrize("name", ["padded vmap", "scan over clients", "Python loop"])
def test_rivals_do_what_a_round_does(root, name):
    scenario = read(root / "scenarios/bench/w2.yaml", (*SMALL, "rounds=1"))
    with numerics(scenario):
        made = build(scenario)
        plan = made.plans[0]
        T, f = int(plan.round(1)[0].steps.max()), plan.federation
        play = rivals(made.program.task, 0.01)[name]
        clients = cohort(plan, 1, T, plan.batch_rows, np.dtype(float))
        theirs = play(made.shared[0], clients, (f.train.x, f.train.y))["params"]
    ours = fedsim.run(scenario).model()
    for leaf in ("W", "b"):
        np.testing.assert_allclose(ours[leaf], theirs[leaf], rtol=1e-10, atol=1e-13)
    assert np.abs(np.asarray(theirs["W"])).max() > 0


def test_flops_are_those_of_the_formula(root):
    """Batch 10, 60 features, 10 classes: forward and gradient of W take 2 · 10 · 60 · 10 each."""
    scenario = read(root / "scenarios/bench/w2.yaml", SMALL)
    with numerics(scenario):
        assert 24_000 <= step_flops(build(scenario)) < 24_000 + 20 * 600
    assert matmul_peak("float32") > 1e9


def test_the_command(root, tmp_path):
    edits = " ".join(f"--set {edit}" for edit in SMALL)
    done = typed(f"doctor --bench {root}/scenarios/bench/w2.yaml {edits}", tmp_path)
    assert "padded vmap" in done.stdout
    table = pd.read_csv(tmp_path / "reports/bench/bench.csv")
    assert [how.split(" (")[0] for how in table["how"]] == [
        "lanes", "padded vmap", "scan over clients", "Python loop",
    ]  # fmt: skip
    ours, theirs = table.iloc[0], table.iloc[1:]
    assert 0 < ours["least"] <= ours["seconds"] <= ours["most"] and 0 < ours["lane_efficiency"] <= 1
    assert theirs["times_lanes"].tolist() == (theirs["seconds"] / ours["seconds"]).tolist()
    record = json.loads((tmp_path / "reports/bench/bench.json").read_text())
    assert record["environment"]["jax"] == jax.__version__
