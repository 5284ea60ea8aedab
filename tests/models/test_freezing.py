"""Frozen leaves, and models that start from weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import foretold
from safetensors.numpy import save_file

import fedsim
from fedsim import tree
from fedsim.clients import sgd
from fedsim.disk import checkpoint
from fedsim.errors import ScenarioError
from fedsim.models.freezing import frozen_mask
from fedsim.models.starting import misfits, values_by_leaf

PLAIN = {"kind": "mlp", "hidden": [6]}
CLIENT = {"lr": 0.1, "batch": 8}
NAMES = {"layer0": {"W": 0, "b": 0}, "layer1": {"W": 0, "b": 0}}


@fedsim.client
def still_layer0():
    """Plain local training in which layer0 has no gradient, and travels all the same."""
    client = sgd()

    def gradient(task, variables, batch, local, shared, work):
        value, g = client.gradient(task, variables, batch, local, shared, work)
        return value, {**g, "layer0": jax.tree.map(jnp.zeros_like, g["layer0"])}

    return client._replace(gradient=gradient)


def written(**sections) -> dict:
    data = {"kind": "gaussian_blobs", "samples": 200, "clients": 8, "client_test": 0.2}
    return {
        "name": "frozen",
        "rounds": 3,
        "data": data,
        "model": {**PLAIN, "freeze": ["layer0"]},
        "cohort": {"kind": "uniform", "size": 4},
        "client": CLIENT,
        **sections,
    }


WITH_SERVER_SAMPLES = {**written()["data"], "server": {"samples": 20}}
TOP_K = {"kind": "top_k", "density": 0.1}


def start_of(result, seed: int = 0):
    """All leaves of a run's start model."""
    start = result.experiment.shared[seed]
    return tree.fill_leaves(start["params"], start["frozen"])


def equal(one, other) -> bool:
    return jax.tree.all(jax.tree.map(lambda a, b: bool(np.array_equal(a, b)), one, other))


# ----------------------------------------------------------------------------------- the patterns


@pytest.mark.parametrize(
    ("freeze", "train", "trained"),
    [
        (["layer0"], [], ["layer1.W", "layer1.b"]),
        (["*"], ["layer1"], ["layer1.W", "layer1.b"]),
        (["W"], ["layer1.W"], ["layer0.b", "layer1.W", "layer1.b"]),
        (["*"], ["*0.b"], ["layer0.b"]),
        ([], [], ["layer0.W", "layer0.b", "layer1.W", "layer1.b"]),
    ],
)
def test_leaves_are_frozen_by_their_names(freeze, train, trained):
    mask = frozen_mask(NAMES, freeze, train, adapter_leaves=())
    still = dict(zip(tree.leaf_names(NAMES), jax.tree.leaves(mask), strict=True))
    assert [name for name, frozen in still.items() if not frozen] == trained


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"train": ["layr1"]}, "train: no leaf is named 'layr1'; did you mean 'layer1'?"),
        ({"freeze": ["*"]}, "freeze: every leaf is frozen; write in train which leaves are"),
        ({"freeze": ["last"]}, "freeze: no leaf is named 'last'; leaves are layer0.W"),
    ],
)
def test_patterns_without_a_leaf_are_refused(keys, expected):
    with pytest.raises(ScenarioError, match="model") as caught:
        fedsim.run(written(model={**PLAIN, **keys}))
    assert expected in str(caught.value)


# --------------------------------------------------------------------------------------- the runs


@pytest.mark.long
def test_frozen_leaves_stay_and_the_others_train_as_if_they_had_no_gradient():
    """The same bits as a method that trains nothing of these leaves, but for what travels."""
    frozen = fedsim.run(written())
    masked = fedsim.run(written(model=PLAIN, client={"kind": "still_layer0", **CLIENT}))
    assert equal(frozen.model(), masked.model())
    assert equal(frozen.model()["layer0"], start_of(frozen)["layer0"])
    assert not equal(frozen.model()["layer1"], start_of(frozen)["layer1"])

    scores = ["test_loss", "test_accuracy", "train_loss"]
    assert frozen.rounds[scores].equals(masked.rounds[scores])

    # Four bytes for every number of layer1, from and to the clients of every round.
    last = frozen.rounds.iloc[-1]
    numbers = sum(leaf.size for leaf in jax.tree.leaves(frozen.model()["layer1"]))
    assert last["bytes_up"] == last["bytes_down"] == 3 * 4 * 4 * numbers


@pytest.mark.long
@pytest.mark.parametrize(
    "sections",
    [
        {"client": {"kind": "scaffold", **CLIENT}},
        {"client": {"kind": "moon", **CLIENT}},
        {"client": {"kind": "mime", **CLIENT}},
        {"client": {"kind": "fedper", "personal": ["b"], **CLIENT}},
        {"wire": [{"kind": "error_feedback", "codec": TOP_K}]},
        {"server": [{"kind": "zeno", "f": 1}], "data": WITH_SERVER_SAMPLES},
        {"server": ["trust"], "data": WITH_SERVER_SAMPLES},
        {"schedule": {"kind": "fedbuff", "buffer": 2, "concurrency": 4}},
        {"evaluate": {"diagnostics": True}},
        {
            "privacy": {"clip": 1.0, "noise_multiplier": 0.1, "delta": 1e-3},
            "cohort": {"kind": "poisson", "rate": 0.5},
        },
    ],
    ids=lambda sections: next(iter(sections)),
)  # fmt: skip
def test_other_methods_see_trained_leaves_alone(sections):
    result = fedsim.run(written(**sections))
    assert result.status == "done"
    assert equal(result.model()["layer0"], start_of(result)["layer0"])
    assert not equal(result.model()["layer1"], start_of(result)["layer1"])


@pytest.mark.long
def test_commits_hold_no_frozen_leaf_and_a_resume_makes_them_again(tmp_path):
    whole = fedsim.run(written(), out=tmp_path / "whole")
    cut = tmp_path / "cut"
    fedsim.run(written(rounds=2), out=cut)
    resumed = fedsim.run(written(), out=cut, resume=True)
    assert equal(whole.model(), resumed.model())

    commits = [checkpoint.decode(path.read_bytes()).arrays for path in cut.rglob("*.ckpt")]
    assert commits
    for names in commits:
        assert any("layer1" in name for name in names)
        assert not any("layer0" in name for name in names)


@pytest.mark.long
def test_check_counts_trained_frozen_and_sent():
    counted = foretold(written(client={"kind": "fedper", "personal": ["b"]}))
    frozen = 20 * 6 + 6
    assert counted["parameters_frozen"] == frozen
    assert counted["parameters_trained"] == 6 * 10 + 10
    assert counted["parameters_sent"] == 6 * 10
    assert counted["parameters"] == frozen + 6 * 10 + 10
    assert counted["memory"]["frozen"] == 4 * frozen
    assert counted["bytes_up_a_round"] == counted["bytes_down_a_round"] == 4 * 4 * (6 * 10)


@pytest.mark.long
def test_more_lanes_hold_no_further_frozen_leaf():
    """From 1 to 8 lanes, the forecast grows by what is trained, and by the batch's activations."""

    def bytes_of(lanes: int) -> dict:
        model = {"kind": "mlp", "hidden": [400, 400], "train": ["layer2"]}
        return foretold(written(model=model, numerics={"lanes": lanes, "threads": 4}))["memory"]

    narrow, wide = bytes_of(1), bytes_of(4)
    trained = 4 * (400 * 10 + 10)
    assert narrow["frozen"] == wide["frozen"] > 100 * trained / 4
    assert wide["lanes"] - narrow["lanes"] < 3 * 3 * trained


# ------------------------------------------------------------------------------------ the weights


@pytest.mark.long
def test_a_run_starts_from_the_weights_of_another(tmp_path):
    """Bit for bit, whatever the seed; frozen leaves that seeds have in common are held once."""
    first = fedsim.run(written(rounds=0, model=PLAIN), out=tmp_path / "first")
    file = next((tmp_path / "first").glob("model.*.safetensors"))

    model = {**PLAIN, "freeze": ["layer0"], "weights": str(file)}
    tuned = fedsim.run(written(model=model), seeds=[3, 4], out=tmp_path / "tuned")
    assert equal(start_of(tuned, 3), first.model())
    assert equal(tuned.model(seed=4)["layer0"], first.model()["layer0"])
    frozen = [jax.tree.leaves(tuned.experiment.shared[seed]["frozen"]) for seed in (3, 4)]
    for leaf, other in zip(*frozen, strict=True):
        assert leaf is other

    section = tuned.scenario["model"]["weights"]
    assert len(section["sha256"]) == 64
    again = fedsim.run(written(rounds=0, model={**model, "weights": section}), seeds=[4])
    assert equal(start_of(again, 4), start_of(tuned, 4))


def test_tensors_that_do_not_fit_are_listed_together(tmp_path):
    file = tmp_path / "w.safetensors"
    shapes = {"layer0.W": (20, 6), "layer0.b": 7, "layr1.W": (6, 10)}
    save_file({name: np.zeros(shape, np.float32) for name, shape in shapes.items()}, file)
    with pytest.raises(ScenarioError) as caught:
        fedsim.run(written(model={**PLAIN, "weights": str(file)}))
    for line in (
        "layer0.b is [7], and that of the model is [6]",
        "there is no tensor for layer1.W [6, 10]",
        "there is no tensor for layer1.b [10]",
        "no leaf of the model is named 'layr1.W' [6, 10]; did you mean 'layer1.W'?",
    ):
        assert line in str(caught.value)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("gone.safetensors", "there is no file"),
        ({"path": "text.safetensors", "sha256": "0" * 64}, "SHA-256"),
        ("text.safetensors", "is not a safetensors file"),
    ],
)
def test_files_that_are_no_weights_are_refused(tmp_path, monkeypatch, weights, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.safetensors").write_text("no tensors")
    with pytest.raises(ScenarioError, match=rf"model\.weights.*{expected}"):
        fedsim.run(written(model={**PLAIN, "weights": weights}))


def test_names_in_files():
    ours = {"params/a/W": np.zeros(2), "state/a/mean": np.ones(3), "aux/c/a/W": np.zeros(2)}
    assert set(values_by_leaf(ours)) == {("params", "a.W"), ("stats", "a.mean")}
    assert set(values_by_leaf({"a.W": np.zeros(2)})) == {("params", "a.W")}
    variables = {"params": {"a": {"W": np.zeros(2)}}, "stats": {}}
    assert list(misfits(variables, values_by_leaf({"a.W": np.zeros(2)}))) == []
