"""Rounds of `trust` and `zeno`, whose server keeps samples, against NumPy and in any layout."""

import jax
import numpy as np
import pytest
from building import built, foretold
from conftest import if_whole
from unchanged import run_of_same_bytes

import fedsim
from fedsim.fields.server_samples.training import ServerTraining, server_plan
from fedsim.fleet.plan import Plan
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario import read
from fedsim.study.grid import design_of

DATA = {
    "kind": "digits",
    "clients": 20,
    "server": {"samples": 40},
    "partition": {"kind": "dirichlet", "alpha": 0.05, "min_samples": 0},
}
SCENARIO = {
    "name": "own",
    "rounds": 3,
    "seeds": [3],
    "data": DATA,
    "model": "logistic",
    "client": {"lr": 0.5, "batch": 16, "epochs": 2},
    "numerics": {"dtype": "float64"},
    "evaluate": {"every": 1},
}
RULES = {"trust": {"kind": "trust"}, "zeno": {"kind": "zeno", "f": 2, "rho": 0.01}}


def probabilities(model, x):
    z = x @ model[0] + model[1]
    z = np.exp(z - z.max(1, keepdims=True))
    return z / z.sum(1, keepdims=True)


def loss(model, x, y):
    return -np.log(probabilities(model, x)[np.arange(len(y)), y]).mean()


def trained(model, x, y, batches, lr):
    """The update of local SGD over batches of rows."""
    W, b = model
    for rows in batches:
        p = probabilities((W, b), x[rows])
        p[np.arange(len(rows)), y[rows]] -= 1
        W, b = W - lr * x[rows].T @ p / len(rows), b - lr * p.mean(0)
    return np.concatenate([(W - model[0]).ravel(), b - model[1]])


def parts(flat):
    return flat[:640].reshape(64, 10), flat[640:]


def trust(updates, own, model, f):
    del model, f
    lengths, g0 = np.linalg.norm(updates, axis=1), np.linalg.norm(own)
    s = np.maximum(0, updates @ own / (lengths * g0))
    return g0 * (s / lengths) @ updates / s.sum(), s > 0


def zeno(updates, own, model, f):
    del own
    at = lambda moved: loss(parts(moved), f.server.x, f.server.y)
    score = np.array([at(model) - at(model + u) - 0.01 * u @ u for u in updates])
    kept = np.isin(np.arange(len(updates)), np.argsort(-score, kind="stable")[: len(updates) - 2])
    return updates[kept].mean(0), kept


@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
def test_whole_rounds_of_some_clients_others_without_samples_and_half_a_server_step(name):
    plan: Plan = built({**SCENARIO, "server": [RULES[name]]}).plans[3]
    f, able = plan.federation, np.flatnonzero(plan.sizes)
    flat = lambda samples: samples._replace(x=samples.x.reshape(-1, 64))
    f = f._replace(train=flat(f.train), server=flat(f.server))
    empty, bad = int(np.flatnonzero(plan.sizes == 0)[0]), able[[1, 4]]
    cohorts = [sorted([*able[:6].tolist(), empty]), able[1:8].tolist(), able[3:9].tolist()]
    sections = {
        "cohort": {"kind": "listed", "rounds": cohorts},
        "fleet": {"malicious": bad.tolist()},
        "wire": [{"kind": "sign_flip", "scale": 2.0}],
        "server": [RULES[name], {"kind": "sgd", "lr": 0.5}],
    }
    result = fedsim.run({**SCENARIO, **sections})
    model, met = np.zeros(650), []
    for r, cohort in enumerate(cohorts, 1):
        updates, ids = [], [i for i in cohort if plan.sizes[i]]
        for i in ids:
            index, valid = plan.work.batches(r, i)
            batches = [rows[:count] for rows, count in zip(index, valid, strict=True)]
            update = trained(parts(model), f.train.x, f.train.y, batches, 0.5)
            updates.append(-2 * update if i in bad else update)
        order = generator(3, Stream.REFERENCE, r).permuted(np.tile(np.arange(40), (2, 1)), axis=1)
        batches = [epoch[k : k + 16] for epoch in order for k in (0, 16, 32)]
        own = trained(parts(model), f.server.x, f.server.y, batches, 0.5)
        aggregate, kept = {"trust": trust, "zeno": zeno}[name](np.array(updates), own, model, f)
        malicious = np.isin(ids, bad)
        met.append([(kept & malicious).sum(), (~kept & malicious).sum() / max(malicious.sum(), 1)])
        model = model + 0.5 * aggregate
    got = np.concatenate([result.model()["W"].ravel(), result.model()["b"]])
    np.testing.assert_allclose(got, model, rtol=0, atol=1e-12)
    columns = ["malicious_kept", f"{name}/recall"]
    np.testing.assert_allclose(result.rounds[columns][1:], met, rtol=1e-12)


@pytest.mark.optimised
@if_whole
@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
def test_layout_and_kills_change_no_byte(name, tmp_path):
    run_of_same_bytes({**SCENARIO, "server": [RULES[name]]}, tmp_path, cut=2)


def test_the_server_draws_for_itself():
    experiment = built({**SCENARIO, "server": ["trust"]})
    plan, program, root = experiment.plans[3], experiment.program, jax.random.key(3)
    own = server_plan(plan)
    first, again, second = [own.work.batches(r, 0)[0] for r in (1, 1, 2)]
    assert (first == again).all() and not (first == second).all()
    assert sorted(first[:3].ravel()[:40].tolist()) == list(range(40))
    assert own.steps.tolist() == [6]

    # Its batches and its noise are not those of a client 0 with these samples.
    of_client = Plan(own.federation, own.cohort, plan.unclipped_local, 3, 1)
    assert not (of_client.work.batches(1, 0)[0] == first).all()
    training = ServerTraining(program.own_work.mesh, plan, program.dtype, root)
    assert (jax.random.key_data(training.root) != jax.random.key_data(root)).any()


@pytest.mark.long
def test_the_forecast_counts_the_server_s_steps():
    told = foretold({**SCENARIO, "server": ["trust"]})
    assert told["server_steps"] == 6 and told["samples"] + 40 == 1438


def test_a_comparison_with_one_that_reads_them_keeps_them_from_all():
    design = design_of(read(SCENARIO | {"server": ["mean"]}), "mean,trust,median")
    edits = [cell.edits for cell in design.cells]
    assert edits == [("compare.methods=[trust]",), (), ("compare.methods=[trust]",)]
    assert all(cell.scenario.spec.data.server.samples == 40 for cell in design.cells)
    built(design.cells[0].scenario)
    nobody = design_of(read(SCENARIO | {"server": ["mean"]}), "mean,median").cells[0].scenario
    with pytest.raises(fedsim.ScenarioError, match="no rule of server reads"):
        built(nobody)
