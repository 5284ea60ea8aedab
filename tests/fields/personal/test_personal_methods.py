"""Personal methods: trajectories of an independent reference, costs and statistics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import built
from conftest import oracle
from federations import quadratic, softmax, trajectory
from federations import scenario as of_case
from test_lanes import X64

import fedsim
from fedsim.errors import ScenarioError
from fedsim.types import Model

UNIFORM = {"kind": "mean", "weights": "uniform"}
FUNCTIONS = ("ditto", "pfedme", "perfedavg", "apfl")
CASES = [case for case in oracle("personalisation") if case["fn"] in FUNCTIONS]


def problem(case: dict) -> dict:
    inputs = case["inputs"]
    return softmax(inputs) if "X0" in inputs else quadratic(inputs)


def written(case: dict) -> dict:
    """A case of the reference as a scenario."""
    p = case["params"]
    match case["fn"]:
        case "ditto":
            own = {name: p[name] for name in ("lam", "personal_lr", "personal_steps")}
            client, server = {"kind": "ditto", **own}, ["mean"]
        case "pfedme":
            own = {"lam": p["lam"], "personal_lr": p["personal_lr"], "personal_steps": p["K"]}
            client = {"kind": "pfedme", "steps": p["R"], **own}
            server = [UNIFORM, {"kind": "sgd", "lr": p["beta"]}]
        case "apfl":
            client = {"kind": "apfl", "alpha": p["alpha0"], "adaptive": p["adaptive"]}
            server = [UNIFORM]
        case _:
            order = {"fo": "first", "hf": "hf", "exact": "hessian"}[p["variant"]]
            client = {"kind": "per_fedavg", "alpha": p["alpha"], "order": order, "lr": p["beta"]}
            server = [UNIFORM]
    sections = of_case({**case, "params": {"lr": p.get("lr", p.get("beta")), **p}}, server=server)
    sections["client"] |= client
    return sections


@pytest.mark.quick(len(CASES))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_trajectory(case):
    near = {"rtol": case["rtol"], "atol": case["atol"]}
    got, result = trajectory(written(case), **problem(case))
    np.testing.assert_allclose(got, case["expected"]["x"], **near)
    rows = result.state()["client"]
    for name in ("v", "theta", "alpha"):
        if name in case["expected"]:
            np.testing.assert_allclose(rows[name], case["expected"][name], err_msg=name, **near)
    if "vbar_with_new_global" in case["expected"]:
        own = [result.model(client=k) for k in range(len(rows["v"]))]
        np.testing.assert_allclose(own, case["expected"]["vbar_with_new_global"], **near)


@pytest.mark.long
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if "adapted_loss" in case["expected"]][::3],
    ids=lambda case: case["name"],
)
def test_a_client_s_own_model_is_the_adapted_one(case):
    """Its loss over the client's samples, after one full step of length α."""
    door = problem(case)
    _, apply = door["model"]
    result = fedsim.run(written(case), **door)
    data = door["data"]
    for k, want in enumerate(case["expected"]["adapted_loss"]):
        rows = np.asarray(data.client) == k
        outputs = np.asarray(apply(result.model(client=k), np.asarray(data.x)[rows]))
        losses = outputs
        if "X0" in case["inputs"]:
            y = np.asarray(data.y)[rows]
            losses = np.log(np.exp(outputs).sum(1)) - outputs[np.arange(len(y)), y]
        np.testing.assert_allclose(losses.mean(), want, rtol=case["rtol"])


FIXED = {"ditto_fixed_point": ("ditto", "v"), "moreau": ("pfedme", "theta")}
FIXED_CASES = [case for case in oracle("personalisation") if case["fn"] in FIXED]


@pytest.mark.long
@pytest.mark.parametrize("case", FIXED_CASES[::2], ids=lambda case: case["name"])
def test_many_personal_steps_end_at_the_closed_form(case):
    """(H + λ)⁻¹ (H a + λ w), where the shared model stays at w."""
    kind, row = FIXED[case["fn"]]
    lam = max(case["params"]["lam"], 1e-12)
    inputs = {**case["inputs"], "x0": case["inputs"]["w"]}
    own = {"lam": lam, "personal_lr": 1 / (1.5 + lam), "personal_steps": 600}
    sections = of_case({**case, "inputs": inputs, "params": {"lr": 0.0}}, server=[UNIFORM])
    sections["client"] |= {"kind": kind, **own}
    _, result = trajectory(sections, **quadratic(inputs))
    want = np.asarray(case["expected"][row])
    np.testing.assert_allclose(result.state()["client"][row], want, rtol=1e-8, atol=1e-8)


def same(one, other) -> None:
    jax.tree.map(np.testing.assert_array_equal, one, other)


# ------------------------------------------------------------------------------------------- costs


COSTS = {
    "ditto": ({"kind": "ditto", "personal_steps": 2}, 3 + 2),
    "pfedme": ({"kind": "pfedme", "personal_steps": 4}, 3 * 4),
    "per_fedavg": ({"kind": "per_fedavg"}, 3 * 2),
    "fedala": ({"kind": "fedala", "weight_steps": 2, "personal": ["b"]}, 2 + 3),
    "fine_tune": ({"kind": "fine_tune", "tune_steps": 9}, 3),
    # 8 of 32 samples are held out: two batches, each for the client's model and two more.
    "fedfomo": ({"kind": "fedfomo", "models": 2, "held_out": 0.25}, 2 * 3 + 3),
}


@pytest.mark.parametrize("name", COSTS)
def test_steps_and_seconds_count_every_gradient(name):
    client, gradients = COSTS[name]
    scenario = {
        "name": "costs",
        "rounds": 4,
        "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 5},
        "model": "logistic",
        "client": {"steps": 3, "batch": 4, **client},
        "fleet": {"speed": {"kind": "constant", "seconds": 0.5}},
    }
    plan = built(scenario).plans[0]
    work, _ = plan.round(1)
    assert work.steps.tolist() == [gradients] * 5 and work.seconds == 0.5 * gradients
    assert plan.work.asked_steps(work.ids, work.steps).tolist() == [3] * 5
    index, valid = plan.work.batches(1, 0)
    assert len(index) == len(valid) == gradients


@pytest.mark.parametrize("batch", [4, "full"])
def test_samples_that_are_held_out_are_not_trained_on(batch):
    scenario = {
        "name": "held_out",
        "rounds": 3,
        "data": {"kind": "gaussian_blobs", "samples": 95, "clients": 5, "test": 0.0},
        "model": "logistic",
        "client": {"kind": "fedfomo", "models": 2, "held_out": 0.25, "batch": batch},
    }
    plan = built(scenario).plans[0]
    rows = set(plan.federation.holders.of(0).tolist())
    first = None
    for r in (1, 2):
        index, valid = plan.work.batches(r, 0)
        batches = [tuple(row[:n]) for row, n in zip(index, valid, strict=True)]
        end = plan.phase_ends[0][0]
        compared = batches[:end:3]
        assert [compared[k // 3] for k in range(end)] == batches[:end]
        held_out = {row for batch in compared for row in batch}
        trained = [row for batch in batches[end:] for row in batch]
        assert len(held_out) == sum(map(len, compared)) == 4
        assert len(trained) == 15 and {*trained} | held_out == rows
        first = first or held_out
        assert held_out == first


# -------------------------------------------------------------------------------------- statistics


def shifted():
    """Samples of four clients whose means differ."""
    rng = np.random.default_rng(5)
    owner = np.repeat(np.arange(4), 6)
    x = rng.normal(size=(len(owner), 3)) + owner[:, None]
    return fedsim.Arrays(x, np.arange(len(owner)) % 2, client=owner)


def normalised() -> Model:
    """A linear layer behind a batch normalisation of its inputs."""

    def init(key):
        layer = {"W": jnp.zeros((3, 2)), "b": jnp.zeros(2)}
        norm = {"scale": jnp.ones(3), "shift": jnp.zeros(3)}
        stats = {"norm": {"mean": jnp.zeros(3), "var": jnp.ones(3)}}
        return {"params": {"last": layer, "norm": norm}, "stats": stats}

    def apply(variables, x, *, mask=None, key=None, train=False):
        p, stats = variables["params"], variables["stats"]["norm"]
        if train:  # all rows of a batch count: the clients have equally many samples
            new = {"mean": x.mean(0), "var": x.var(0)}
            stats = {name: 0.5 * old + 0.5 * new[name] for name, old in stats.items()}
        z = (x - stats["mean"]) / jnp.sqrt(stats["var"]) * p["norm"]["scale"] + p["norm"]["shift"]
        return z @ p["last"]["W"] + p["last"]["b"], {"norm": stats}

    return Model(init=init, apply=apply, mixes_rows=True)


def statistics_of(client: int) -> tuple[np.ndarray, np.ndarray]:
    """Running means and variances after two steps on a client's samples."""
    data = shifted()
    x = data.x[data.client == client]
    return 0.75 * x.mean(0), 0.25 + 0.75 * x.var(0)


def run_normalised(client: dict) -> tuple[fedsim.Result, dict]:
    """One round of a model on clients 0 and 2, and its running statistics."""
    sections = {
        "name": "statistics",
        "rounds": 1,
        "client": {"lr": 0.1, "batch": "full", "steps": 2, **client},
        "cohort": {"kind": "listed", "rounds": [[0, 2]]},
        "numerics": X64,
    }
    seen = []
    watch = lambda experiment, seed, row: seen.append(row.server.shared["stats"]["norm"])
    result = fedsim.run(sections, data=shifted(), model=normalised(), watch=watch)
    return result, jax.tree.map(np.asarray, seen[-1])


@pytest.mark.long
def test_statistics_are_averaged_pooled_or_kept():
    means, variances = zip(*map(statistics_of, (0, 2)), strict=True)
    mean, var = np.mean(means, axis=0), np.mean(variances, axis=0)
    apart = np.var(means, axis=0)
    assert (apart > 0.1).all()

    averaged = run_normalised({})[1]
    np.testing.assert_allclose(averaged["mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(averaged["var"], var, rtol=1e-9)

    pooled = run_normalised({"statistics": "pooled"})[1]
    np.testing.assert_allclose(pooled["mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(pooled["var"], var + apart, rtol=1e-9)


@pytest.mark.long
def test_fedbn_keeps_normalisation_and_statistics():
    result, sent = run_normalised({"kind": "fedbn"})
    for shared in (sent, run_normalised({"kind": "local_only"})[1]):
        same(shared, {"mean": np.zeros(3), "var": np.ones(3)})  # none are sent
    rows = result.state()["client"]
    assert rows["norm"]["last"] == {"W": None, "b": None}
    assert (rows["norm"]["norm"]["scale"][[0, 2]] != 1).any()
    same(result.model()["norm"], {"scale": np.ones(3), "shift": np.zeros(3)})
    for k in (1, 3):  # absent
        same(rows["stats"]["norm"]["mean"][k], np.zeros(3))
    for k in (0, 2):
        mean, var = statistics_of(k)
        np.testing.assert_allclose(rows["stats"]["norm"]["mean"][k], mean, rtol=1e-9)
        np.testing.assert_allclose(rows["stats"]["norm"]["var"][k], var, rtol=1e-9)


def test_a_model_without_normalisation_has_nothing_that_fedbn_keeps():
    with pytest.raises(ScenarioError, match="the model has no normalisation"):
        built({"name": "plain", "rounds": 1, "data": "digits", "client": "fedbn"})
