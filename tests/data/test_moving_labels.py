"""Labels move with the rounds by definition, and no bit of skewed runs depends on the layout."""

import jax
import numpy as np
import pytest
from test_bits import digest, random_packing
from test_skews import CLASSES, federation, link

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.fleet import Cohort, Local, Plan
from fedsim.fleet.plan import Conditions
from fedsim.scenario import read


def plan_of(*skews, labelled=True):
    f = federation(*skews)
    everybody = Cohort(lambda population, r, rng: population.ids, nominal=lambda clients: clients)
    local = Local(batch=8, epochs=1, steps=None, shuffle=True, drop_last=False, lr=lambda r: 0.1)
    return Plan(f, everybody, local, 0, 9, Conditions(labelled=labelled))


def test_a_plan_moves_labels_as_a_pure_function_of_the_round():
    plan = plan_of(
        link("concept_shift", groups=2, every=2), link("concept_shift", groups=1, every=3)
    )
    shifts = [plan.round(r)[0].shift for r in (9, 1, 2, 3, 4, 5, 6, 7, 8, 9)]
    want = [((r - 1) // 2 + (r - 1) // 3) % CLASSES for r in (9, 1, 2, 3, 4, 5, 6, 7, 8, 9)]
    assert shifts == want
    assert np.array_equal(plan.federation.labels_in(4), (plan.federation.train.y + 2) % CLASSES)
    assert plan.federation.labels_in(0) is plan.federation.labels_in(1) is plan.federation.train.y


@pytest.mark.long
def test_concept_shift_is_its_definition():
    """Scores of FedAvg of logistic regression in NumPy, with labels (y + g + ⌊(r − 1)/2⌋) mod C."""
    rng = np.random.default_rng(3)
    arrays = fedsim.Arrays(rng.normal(size=(120, 6)), rng.integers(0, 3, 120))
    section = {"kind": "supplied", "clients": 4, "test": 0.2, "client_test": 0.25}
    scenario = {
        "name": "drift",
        "rounds": 3,
        "model": "logistic",
        "client": {"lr": 0.4, "batch": "full", "steps": 2},
        "numerics": {"dtype": "float64"},
    }
    shifted = {**section, "skew": [link("concept_shift", groups=2, every=2)]}
    result = fedsim.run({**scenario, "data": shifted}, data=arrays)
    f = federations_of(read({**scenario, "data": section}), arrays, np.dtype("float64"))[0]
    groups = result.partition.groupby("client")["skew/concept_shift"].first().to_numpy()
    assert sorted(groups) == [0, 0, 1, 1]
    W, b = np.zeros((6, 3)), np.zeros(3)
    seen = lambda client, rows, r: (f.train.y[rows] + groups[client] + (r - 1) // 2) % 3
    for r in (1, 2, 3):
        total, sums = 0, [0.0, 0.0]
        for client in range(4):
            rows = f.holders.of(client)
            x, y, w, c = f.train.x[rows], np.eye(3)[seen(client, rows, r)], W.copy(), b.copy()
            for _ in range(2):
                p = np.exp(x @ w + c)
                error = (p / p.sum(1, keepdims=True) - y) / len(rows)
                w, c = w - 0.4 * x.T @ error, c - 0.4 * error.sum(0)
            sums, total = [sums[0] + len(rows) * w, sums[1] + len(rows) * c], total + len(rows)
        W, b = sums[0] / total, sums[1] / total
    np.testing.assert_allclose(result.model()["W"], W, rtol=1e-10)
    for client, accuracy in enumerate(result.clients["global_accuracy"]):
        rows = f.test_holders.of(client)
        assert accuracy == ((f.train.x[rows] @ W + b).argmax(1) == seen(client, rows, 3)).mean()
    clean = ((f.test.x @ W + b).argmax(1) == f.test.y).mean()
    assert result.rounds["test_accuracy"].iloc[-1] == pytest.approx(clean)


ALL = {
    "kind": "digits", "clients": 12, "client_test": 0.2,
    "skew": [
        "rotation", {"kind": "feature_noise"}, {"kind": "label_noise"},
        {"kind": "concept_shift", "every": 2},
    ],
    "augment": ["flip", {"kind": "crop", "padding": 2}],
}  # fmt: skip


def everything(**sections):
    return {
        "name": "all", "rounds": 4, "data": ALL, "model": {"kind": "mlp", "hidden": [16]},
        "cohort": {"kind": "uniform", "size": 7}, "client": {"lr": 0.1, "batch": 8, "epochs": 2},
        "numerics": {"lanes": 3}, **sections,
    }  # fmt: skip


@pytest.fixture(scope="module")
def reference():
    return digest(fedsim.run(everything()))


@pytest.mark.optimised
@pytest.mark.long
@pytest.mark.parametrize(
    ("sections", "options"),
    [
        ({}, {"pack": random_packing(1), "calls": 3}),
        ({"numerics": {"lanes": 3, "block": 2}, "data": {**ALL, "resident_mb": 0}}, {}),
    ],
)
def test_no_bit_depends_on_how_it_is_computed(reference, sections, options):
    assert digest(fedsim.run(everything(**sections), **options)) == reference


@pytest.mark.long
def test_a_run_goes_on_with_the_labels_of_its_round(reference, tmp_path):
    fedsim.run(everything(rounds=3), out=tmp_path / "run")
    assert digest(fedsim.run(everything(), out=tmp_path / "run", resume=True)) == reference


@pytest.mark.long
@pytest.mark.parametrize("skew", [{"kind": "concept_shift", "groups": 3, "every": 1}, "rotation"])
def test_seeds_side_by_side_have_their_own_samples(skew):
    data = {"kind": "digits", "clients": 6, "skew": [skew]}
    scenario = {"name": "seeds", "rounds": 2, "data": data, "model": "logistic"}
    both = fedsim.run({**scenario, "seeds": [0, 1]})
    for seed in (0, 1):
        alone = fedsim.run({**scenario, "seeds": [seed]})
        jax.tree.map(np.testing.assert_array_equal, alone.model(), both.model(seed=seed))


@pytest.mark.long
def test_a_method_that_knows_label_counts_knows_those_of_the_round():
    rng = np.random.default_rng(1)
    arrays = fedsim.Arrays(
        rng.normal(size=(90, 5)), np.sort(rng.integers(0, 3, 90)), client=np.arange(90) // 30
    )
    data, client = {"kind": "supplied", "test": 0}, {"kind": "fedlc", "lr": 0.3, "batch": "full"}
    scenario = {"name": "lc", "rounds": 1, "data": data, "model": "logistic", "client": client}
    shift = {**data, "skew": [link("concept_shift", groups=1, every=1)]}
    moving = fedsim.run({**scenario, "rounds": 2, "data": shift}, data=arrays)
    first = fedsim.run(scenario, data=arrays).model()
    second = fedsim.run(scenario, data=arrays._replace(y=(arrays.y + 1) % 3), params=first)
    jax.tree.map(np.testing.assert_array_equal, moving.model(), second.model())
