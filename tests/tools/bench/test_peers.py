"""The programs of other libraries, for `fedsim doctor --bench --peers`, compute what ours do.

FEDSIM_TORCH names a Python that has torch, if this one has not.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import some

import fedsim
from fedsim.cli.entry import cli
from fedsim.scenario import read
from fedsim.tools.bench import peer_rounds, peers
from fedsim.tools.bench.peers import FOREIGN, Peer, Tool, importable
from fedsim.tools.bench.rules import LINKS

pytestmark = [pytest.mark.long, pytest.mark.optimised]

RESULTS = """
import sys, numpy as np
sys.path.insert(0, sys.argv[1])
module = __import__(sys.argv[2])
works = module.works(np.load(sys.argv[3]))
np.savez(sys.argv[4], **{name: np.asarray(work()) for name, work in works.items()})
"""


@pytest.fixture(scope="module")
def torch_python():
    python = os.environ.get("FEDSIM_TORCH", sys.executable)
    done = subprocess.run([python, "-c", "import torch"], capture_output=True)
    if done.returncode:
        pytest.skip("no torch; FEDSIM_TORCH may name a Python that has it")
    return python


def results(python, module, x, folder):
    """What every work of a module returns."""
    np.save(folder / "x.npy", x)
    paths = [str(folder / name) for name in ("x.npy", "results.npz")]
    subprocess.run([python, "-c", RESULTS, str(FOREIGN), module, *paths], check=True)
    return dict(np.load(folder / "results.npz"))


def test_rules_in_torch_are_ours(torch_python, tmp_path):
    x = np.random.default_rng(1).normal(size=(50, 60)).astype(np.float32)
    theirs = results(torch_python, "torch_rules", x, tmp_path)
    assert theirs.keys() == LINKS.keys()
    for name, links in some(LINKS.items(), 4):
        ours = np.asarray(fedsim.aggregate(links, x))
        noise = 0.06 if name == "flame" else 1e-5  # six standard deviations of two draws
        np.testing.assert_allclose(theirs[name], ours, rtol=1e-4, atol=noise, err_msg=name)


PEERS = [Peer("torch", "1.5", sys.executable), Peer("fedjax", "1.5", sys.executable)]
PLAYED_ROUNDS = """
import json, sys
import numpy as np

given = dict(np.load(sys.argv[1]))
x, y, lr = given["x"], given["y"].astype(int), float(given["lr"])
W, b = given["params/W"], given["params/b"]
for index, valid, weight in zip(given["index"], given["valid"], given["weight"]):
    models = []
    for batches, counts in zip(index, valid):
        V, c = W.copy(), b.copy()
        for rows, n in zip(batches, counts):
            if n:
                rows = rows[:n]
                p = np.exp(x[rows] @ V + c)
                p /= p.sum(1, keepdims=True)
                p[np.arange(n), y[rows]] -= 1
                V -= lr * x[rows].T @ p / n
                c -= lr * p.mean(0)
        models.append((V, c))
    share = weight / weight.sum()
    W = sum(s * V for s, (V, _) in zip(share, models))
    b = sum(s * c for s, (_, c) in zip(share, models))
hits = (given["x_test"] @ W + b).argmax(1) == given["y_test"]
print(json.dumps({"seconds": [0.5] * len(given["index"]), "accuracy": float(hits.mean())}))
"""


def test_a_peer_gets_what_fedsim_trains_on(root, tmp_path, monkeypatch):
    """Federated averaging in NumPy, on what is written for peers, ends at fedsim's accuracy."""
    (tmp_path / "played_rounds.py").write_text(PLAYED_ROUNDS)
    monkeypatch.setattr(peer_rounds, "FOREIGN", tmp_path)
    monkeypatch.setattr(peer_rounds, "TRIALS", 1)
    tool = Tool((), "", rounds="played_rounds.py", ways=("plainly",))
    monkeypatch.setitem(peers.TOOLS, "played", tool)
    file = str(root / "scenarios/bench/w2.yaml")
    edits = ("rounds=3", "data.samples=3000", "data.clients=20", "cohort.size=6", "seeds=[1, 2]")
    peer = Peer("played", "1.5", sys.executable)
    said = []
    ours, theirs = peer_rounds.bench_rounds(file, edits, [peer], said.append)
    assert theirs["how"] == "played plainly" and theirs["version"] == "1.5"
    assert theirs["seconds"] == 0.5 and theirs["times_lanes"] == 0.5 / ours["seconds"]
    assert 0.2 < ours["final_accuracy"] < 1
    a_sample = 2e-3  # of 500
    assert theirs["final_accuracy"] == pytest.approx(ours["final_accuracy"], abs=a_sample)
    assert said == [f"w2: {way}, in a process of its own" for way in (ours["how"], theirs["how"])]


def test_peers_that_lack_a_model_are_left_out_and_one_that_all_lack_is_refused(root):
    players = lambda model: peer_rounds.players(
        read(root / "scenarios/bench/w3.yaml", (f"model={model}",)), "w3.yaml", PEERS
    )
    assert players("lenet") == PEERS[:1]
    for model, text in (
        ("char_gru", "torch, fedjax play .*transformer; bench char_gru without --peers"),
        ("{kind: resnet, norm: batch}", "group or none"),
    ):
        with pytest.raises(fedsim.ScenarioError, match=text):
            players(model)


TRAINED = """
import sys, json, numpy as np
sys.path.insert(0, sys.argv[1])
import torch_networks, torch_rounds

trainer = torch_rounds.Trainer(sys.argv[2])
torch_rounds.play(trainer, sys.argv[2], "loop")
model = json.loads(str(np.load(sys.argv[2])["model"]))
ours = torch_networks.network(model, dict(np.load(sys.argv[3]))).state_dict()
for name, theirs in trainer.net.state_dict().items():
    largest = float(ours[name].abs().max())
    error = float((theirs - ours[name]).abs().max())
    print(json.dumps([name, error, largest]))
"""
IMAGES = ("data.shape=[16, 16, 3]", "data.samples=120", "data.clients=3", "client.batch=8")
SPEAKERS = ("data.clients=4", "data.mean=20", "data.vocabulary=12", "data.length=10")
NETWORKS = {
    "lenet": IMAGES,
    "cifar_cnn": (*IMAGES, "model.channels=[8, 12]", "model.hidden=[16, 12]"),
    "resnet20": (*IMAGES, "model.depth=8"),  # option A
    "resnet18": (*IMAGES, "data.shape=[8, 8, 3]"),  # projections
    "char_lstm": (*SPEAKERS, "model={kind: char_lstm, width: 16}"),
    "transformer": (*SPEAKERS, "model={kind: transformer, width: 16}"),
}


@pytest.mark.parametrize("name, edits", NETWORKS.items(), ids=NETWORKS)
def test_networks_in_torch_end_at_our_parameters(root, torch_python, tmp_path, name, edits):
    """Two rounds from the same start, with the same batches, in float64."""
    file = root / f"scenarios/bench/networks/{name}.yaml"
    edits = (*edits, "rounds=2", "cohort.size=2", "client.lr=0.01", "numerics.dtype=float64")
    rounds = tmp_path / "rounds.npz"
    seed = peer_rounds.write_rounds(read(file, edits), 2, rounds)
    params = fedsim.run(file, edits=[*edits, f"seeds=[{seed}]"]).model()
    np.savez(tmp_path / "ours.npz", **peer_rounds.by_path(params))

    start = np.load(rounds)
    ours = np.load(tmp_path / "ours.npz")
    moved = [np.abs(leaf - start[f"params/{path}"]).max() for path, leaf in ours.items()]
    assert min(moved) > 0
    paths = [str(path) for path in (FOREIGN, rounds, tmp_path / "ours.npz")]
    done = subprocess.run([torch_python, "-c", TRAINED, *paths], check=True, capture_output=True)
    leaves = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(leaves) >= len(moved)
    for leaf, error, largest in leaves:
        assert error <= 1e-9 * largest, leaf


def test_what_cannot_be_imported_is_named(monkeypatch):
    for package in ("no_such_module", "numpy"):
        tool = Tool((package,), package, rules="rules.py")
        monkeypatch.setitem(peers.TOOLS, package, tool)
    found, missing = importable(("rules",), {})
    assert Peer("numpy", np.__version__, sys.executable) in found
    text = "No module named 'no_such_module'; pip install no_such_module"
    assert text in missing["no_such_module"]


def test_bad_peers_are_one_line():
    for words, text in (
        ("rules --peers keras=python", "TOOL is one of"),
        ("rules --peers torch=/no/such/python", "is not a program"),
        ("--peers rules", "not TOOL=PYTHON"),
    ):
        done = CliRunner().invoke(cli, ["doctor", "--bench", *words.split()])
        assert done.exit_code == 2 and text in done.output
