"""Runs whose rounds depend on earlier ones: asynchronous servers, cohorts that look at losses."""

import numpy as np
import pytest
from conftest import WHOLE, if_whole
from directories import files_of
from federations import bring, quadratic, quadratic_model, trajectory
from test_bits import digest, random_packing
from test_loop import noisy, rows
from test_schedules import SIMULATED, TIMES, D, N, problem, scenario

import fedsim
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.engine.loop import group_runs
from fedsim.errors import Interrupted
from fedsim.scenario import read

pytestmark = pytest.mark.long


def trained(inputs, i, x, steps, lr):
    """A client's model after its steps, and its mean loss over them."""
    H, a, losses = inputs["H"][i], inputs["a"][i], []
    for _ in range(steps):
        losses.append(0.5 * (x - a) @ H @ (x - a))
        x = x - lr * H @ (x - a)
    return x, np.mean(losses)


@pytest.mark.parametrize("weights", ["uniform", "samples"])
@pytest.mark.parametrize("name", SIMULATED)
def test_fedbuff_matches_its_simulation(name, weights):
    """The flights are the oracle's; the server's steps are computed by hand.

    A step is the sum of scaled updates, whose weights do not depend on the scale.
    """
    case, inputs, lr = SIMULATED[name], problem(), 0.1
    p, log = case["params"], case["expected"]["log"]
    assert case["inputs"]["times"] == TIMES
    versions, sizes = [inputs["x0"]], np.array(inputs["sizes"])
    for flush in log:
        step, total = np.zeros(D), 0.0
        for u in flush["updates"]:
            start, w = versions[u["version"]], 1.0 if weights == "uniform" else sizes[u["client"]]
            y, _ = trained(inputs, u["client"], start, TIMES[u["client"]], lr)
            step, total = step + w * (y - start) / np.sqrt(1 + u["staleness"]), total + w
        versions.append(versions[-1] + 0.7 * step / total)
    schedule = {"kind": "fedbuff", "buffer": p["buffer"], "concurrency": p["concurrency"]}
    server = [{"kind": "mean", "weights": weights}, {"kind": "sgd", "lr": 0.7}]
    written = scenario(schedule, server=server)
    got, result = trajectory(written, **quadratic(inputs))
    np.testing.assert_allclose(got, versions[1:], rtol=1e-12)
    assert result.rounds["virtual_seconds"].tolist()[1:] == [flush["time"] for flush in log]
    ages = [[u["staleness"] for u in flush["updates"]] for flush in log]
    assert result.rounds["staleness_max"].tolist()[1:] == list(map(max, ages))
    assert result.rounds["staleness_mean"].tolist()[1:] == pytest.approx(list(map(np.mean, ages)))
    joined = np.bincount([u["client"] for flush in log for u in flush["updates"]], minlength=N)
    assert result.clients["rounds_joined"].tolist() == joined.tolist()


def test_a_client_that_diverges_is_chosen_last():
    """Its messages are dropped, its loss counts as infinite, and the others continue."""
    inputs = problem()
    rows = np.concatenate([inputs["H"].reshape(N, -1), inputs["a"]], axis=1)
    rows[2] = 1e200
    owner = np.repeat(np.arange(N), 2)
    data = bring(rows[owner], np.zeros(len(owner)), owner, quadratic_model(D), inputs["x0"])
    cohort = {"kind": "power_of_choice", "size": 2, "candidates": 6}
    written = scenario("sync", rounds=9, cohort=cohort, evaluate={"every": 1})
    result = fedsim.run(written, **data, loss=lambda outputs, y: outputs)
    assert result.rounds["n_nonfinite"].sum() == 1 == result.clients["rounds_joined"][2]
    assert np.isfinite(result.model()).all()


UNIFORM = [{"kind": "mean", "weights": "uniform"}]
KINDS = {
    "fedbuff": {"schedule": {"kind": "fedbuff", "buffer": 5, "concurrency": 12}, "server": UNIFORM},
    "fedasync": {
        "schedule": {"kind": "fedasync", "concurrency": 12, "staleness": "hinge", "threshold": 2},
    },
    "semi_sync": {
        "schedule": {"kind": "semi_sync", "seconds": 0.75, "concurrency": 8}, "server": ["median"],
    },
    "median": {
        "schedule": {"kind": "fedbuff", "buffer": 12, "concurrency": 40}, "server": ["median"],
    },
    "leaving": {
        "schedule": {"kind": "fedbuff", "buffer": 5, "concurrency": 12},
        "fleet": {"availability": {"kind": "diurnal", "period": 60.0}, "dropout": 0.3},
    },
    "alone": {
        "schedule": {"kind": "fedbuff", "buffer": 3, "concurrency": 1, "staleness": "constant"},
    },
    "power_of_choice": {"cohort": {"kind": "power_of_choice", "size": 5, "candidates": 12}},
}  # fmt: skip


def digits(kind, **sections):
    data = {"kind": "digits", "clients": 40, "partition": {"kind": "dirichlet", "alpha": 0.3}}
    plain = {"name": "bits", "rounds": 7, "data": data, "model": {"kind": "mlp", "hidden": [8]}}
    client = {
        "lr": {
            "kind": "exponential_decay",
            "init_value": 0.1,
            "transition_steps": 3,
            "decay_rate": 0.5,
        },
        "batch": 8,
    }
    return {**plain, "client": client, "numerics": {"lanes": 4}, **KINDS[kind], **sections}


@if_whole
@pytest.mark.parametrize("kind", KINDS if WHOLE else ["fedbuff", "power_of_choice"])
def test_packing_blocks_and_calls_change_no_bit(kind):
    expected = digest(fedsim.run(digits(kind)))
    assert digest(fedsim.run(digits(kind), pack=random_packing(1))) == expected
    assert digest(fedsim.run(digits(kind), calls=3)) == expected
    for block in (2, 5, 16):
        assert digest(fedsim.run(digits(kind, numerics={"lanes": 4, "block": block}))) == expected
    more = digits(kind, data={**digits(kind)["data"], "resident_mb": 0.0})
    assert digest(fedsim.run(more)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_interrupted_with_clients_in_flight_ends_with_the_same_bytes(kind, tmp_path):
    written = digits(kind, seeds=[0, 3], checkpoint={"rounds": 1})
    fedsim.run(written, out=tmp_path / "whole", pictures=False)
    for stop in (1, 3, 5):
        out, asked = tmp_path / f"{stop}", iter([False] * stop)
        with pytest.raises(Interrupted):
            fedsim.run(written, out=out, ask=lambda asked=asked: next(asked, True), pictures=False)
        fedsim.run(written, out=out, resume=True, pictures=False)
        assert files_of(out) == files_of(tmp_path / "whole")
    longer = {**written, "rounds": 9}
    fedsim.run(longer, out=tmp_path / "longer", pictures=False)
    fedsim.run(longer, out=tmp_path / "whole", resume=True, pictures=False)
    assert files_of(tmp_path / "whole") == files_of(tmp_path / "longer")


@pytest.mark.parametrize(
    "kind", sorted({*KINDS, "dropout"} - (set() if WHOLE else {"semi_sync", "leaving"}))
)
def test_training_together_changes_no_bit(kind):
    name = "fedbuff" if kind == "dropout" else kind
    checked = read(
        digits(
            name,
            seeds=4,
            data={"kind": "gaussian_blobs", "samples": 400, "clients": 40},
            model="logistic",
        )
    )
    with numerics(checked):
        init = lambda key, x: {"W": np.zeros((x.shape[-1], 10), np.float32)}
        experiment = build(checked, model=(init, noisy) if kind == "dropout" else None)
        seeds, plans = list(experiment.plans), list(experiment.plans.values())
        groups, program = group_runs([experiment.program] * len(seeds), plans, 1000)
        assert groups == [(0, len(seeds))]
        together, ends = rows([experiment.run(seed) for seed in seeds], seeds, program)
        for seed in seeds:
            alone, end = rows([experiment.run(seed)], [seed], experiment.program)
            assert alone[seed] == together[seed] and end[seed].keys() == ends[seed].keys()
            assert all(
                np.array_equal(end[seed][name], ends[seed][name], equal_nan=True)
                for name in end[seed]
            )
    if name != "power_of_choice":
        assert any(name.startswith("version") for name in end[seed]) == (kind != "alone")
