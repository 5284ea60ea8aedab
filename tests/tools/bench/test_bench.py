"""The bench compares equal work: each rival returns what a round returns; its files can be read."""

import json

import jax
import numpy as np
import pandas as pd
import pytest
from conftest import if_whole

import fedsim
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.engine.clock import REMEMBERED, Spans
from fedsim.scenario import read
from fedsim.tools.bench.baselines import cohort, rivals
from fedsim.tools.bench.plain_rules import NUMPY
from fedsim.tools.bench.rules import LINKS, bench_rules
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


NOISE = {"flame": 0.06}  # six standard deviations of the difference of two draws


@if_whole
def test_rules_beside_numpy():
    """NumPy's side computes the same thing, or it would be no comparison."""
    x = np.random.default_rng(1).normal(size=(50, 60)).astype(np.float32)
    assert LINKS.keys() == NUMPY.keys()
    for name, links in LINKS.items():
        ours = np.asarray(fedsim.aggregate(links, x))
        noise = NOISE.get(name, 1e-5)
        np.testing.assert_allclose(NUMPY[name](x), ours, rtol=1e-4, atol=noise, err_msg=name)
    records = list(bench_rules(lambda text: None, [(30, 50)]))
    assert len(records) == 2 * (len(LINKS) - 1) and all(record["seconds"] > 0 for record in records)


def test_the_command(root, tmp_path, monkeypatch, capsys):
    from fedsim.cli import main

    monkeypatch.chdir(tmp_path)
    edits = [word for edit in SMALL for word in ("--set", edit)]
    main(["doctor", "--bench", str(root / "scenarios/bench/w2.yaml"), *edits])
    assert "padded vmap" in capsys.readouterr().out
    table = pd.read_csv("reports/bench/bench.csv")
    assert [how.split(" (")[0] for how in table["how"]] == [
        "lanes", "padded vmap", "scan over clients", "Python loop",
    ]  # fmt: skip
    ours, theirs = table.iloc[0], table.iloc[1:]
    assert 0 < ours["least"] <= ours["seconds"] <= ours["most"] and 0 < ours["lane_efficiency"] <= 1
    assert theirs["times_lanes"].tolist() == (theirs["seconds"] / ours["seconds"]).tolist()
    record = json.loads((tmp_path / "reports/bench/bench.json").read_text())
    assert record["environment"]["jax"] == jax.__version__


def test_what_threads_compile_at_the_same_time_counts_once_and_is_remembered_within_a_bound():
    spans = Spans()
    for begin, end, total in (
        *((1, 2, 1), (0, 3, 3), (2.5, 4, 4)),
        *((6, 7, 5), (6.2, 6.8, 5), (5, 9, 8)),
    ):
        spans.add(begin, end)
        assert spans.total == total

    spans = Spans()
    for second in range(5 * REMEMBERED):
        spans.add(second, second + 0.5)
    assert len(spans.recent) == REMEMBERED
    assert spans.total == 5 * REMEMBERED * 0.5
