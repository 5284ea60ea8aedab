"""`lora_mean(how: stack)`: the exact sum of the products in the frozen weights (FLoRA)."""

import jax
import numpy as np
import pytest
from building import foretold
from conftest import if_whole
from test_lora_mean import BROKEN, COHORTS, LR, OWNER, SERVER_LR, STEPS, X, Y, close, m, n, r, run
from unchanged import run_of_same_bytes

import fedsim
from fedsim import tree
from fedsim.disk import checkpoint
from fedsim.fields.adapters.adapted import begun_anew

ALPHA = 3.0
ADAPTER = {"kind": "lora", "rank": r, "alpha": ALPHA}
PAIR_BYTES = 4 * r * (m + n)


def base_of(result) -> np.ndarray:
    return np.asarray(result.model()["W"]["base"])


# ------------------------------------------------------------------------------------- by hand


def trained(client: int, W: np.ndarray, A: np.ndarray) -> np.ndarray:
    """What a client adds to W: alpha/r A B after its steps, from B = 0."""
    x, y = X[OWNER == client], Y[OWNER == client]
    scale = ALPHA / r
    B = np.zeros((r, n))
    for _ in range(STEPS):
        gradient = scale * x.T @ (x @ (W + scale * A @ B) - y) / len(x)
        A, B = A - LR * gradient @ B.T, B - LR * A.T @ gradient
    return scale * A @ B


def drawn(result, client: int, took_part: int) -> np.ndarray:
    """The A that a client begins with, which it draws unless it takes part for the first time."""
    start = result.experiment.shared[0]
    if not took_part:
        return np.asarray(start["params"]["W"]["lora_A"])
    with jax.enable_x64(True):
        row = jax.tree.map(lambda rows: rows[client], result.state()["client"])
        key = jax.random.fold_in(jax.random.wrap_key_data(row["key"]), took_part)
        adapter = result.experiment.model.adapter
        return np.asarray(begun_anew(start, adapter, key)["W"]["lora_A"])


def by_hand(result) -> np.ndarray:
    """The weights of a loop over rounds and clients, with dense products."""
    W = np.asarray(result.experiment.shared[0]["merged"]["W"]["base"])
    took_part = dict.fromkeys(range(4), 0)
    for cohort in COHORTS:
        total = sum((OWNER == client).sum() for client in cohort if client != BROKEN)
        S = np.zeros((m, n))
        for client in cohort:
            if client != BROKEN:
                A = drawn(result, client, took_part[client])
                S += (OWNER == client).sum() / total * trained(client, W, A)
                took_part[client] += 1
        W = W + SERVER_LR * S
    return W


@pytest.mark.long
def test_the_weights_take_the_exact_sum_and_bytes_are_those_of_the_stack():
    """Some of the clients, a round without anyone, new adapters, half a server step."""
    result = run("stack", model={"kind": "linear", "bias": False, "adapter": ADAPTER})
    close(base_of(result), by_hand(result))
    pair = result.model()["W"]
    assert not np.any(pair["lora_B"])
    np.testing.assert_array_equal(result.model(merged=True)["W"], pair["base"])

    # A client sends its pair, and receives all pairs that were added since its last round, or the
    # weights where those are smaller.
    weights = 4 * m * n
    assert 2 * PAIR_BYTES > weights > PAIR_BYTES
    down = [0, weights, 2 * weights, 2 * weights, 3 * weights]
    assert np.diff(result.rounds["bytes_up"]).tolist() == [len(c) * PAIR_BYTES for c in COHORTS]
    assert np.diff(result.rounds["bytes_down"]).tolist() == down
    merged = result.rounds["lora_mean/merged_bytes"].iloc[1:].tolist()
    assert merged == [3 * PAIR_BYTES, 0, 2 * PAIR_BYTES, 2 * PAIR_BYTES, 3 * PAIR_BYTES]


# ------------------------------------------------------------------------------- all promises


def network(**sections) -> dict:
    return {
        "name": "stacked",
        "rounds": 4,
        "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 8, "client_test": 0.2},
        "model": {
            "kind": "mlp",
            "hidden": [6],
            "adapter": {"kind": "lora", "rank": 3, "targets": ["layer0"]},
            "train": ["layer1.b"],
        },
        "cohort": {"kind": "uniform", "size": 5},
        "client": {"lr": 0.1, "batch": 8},
        "server": [{"kind": "lora_mean", "how": "stack"}],
        **sections,
    }


COMPOSED = {
    "momentum": {"server": [*network()["server"], {"kind": "sgd", "lr": 0.5, "momentum": 0.9}]},
    "fedper": {"client": {"kind": "fedper", "personal": ["layer1.b"], "lr": 0.1, "batch": 8}},
    "fine_tune": {"client": {"kind": "fine_tune", "lr": 0.1, "batch": 8}},
}


@if_whole
@pytest.mark.long
@pytest.mark.parametrize("name", ["plain", *COMPOSED])
def test_kills_blocks_and_other_links(name, tmp_path):
    sections = COMPOSED.get(name, {})
    whole = run_of_same_bytes(network(**sections), tmp_path, cut=2)
    assert np.isfinite(whole.rounds["test_loss"]).all()

    # Of the frozen leaves, the target alone moves.
    start = whole.experiment.shared[0]
    before = tree.fill_leaves(tree.fill_leaves(start["params"], start["frozen"]), start["merged"])
    after = whole.model()
    for path in (("layer0", "b"), ("layer1", "W")):
        np.testing.assert_array_equal(before[path[0]][path[1]], after[path[0]][path[1]])
    assert (before["layer0"]["W"]["base"] != after["layer0"]["W"]["base"]).any()


@pytest.mark.long
def test_check_and_commits_have_what_the_server_moves(tmp_path):
    """A commit has the weights that the rule moves, and no others of the frozen ones."""
    counted = foretold(network(rounds=2))
    pair = 3 * (20 + 6)
    assert counted["parameters_trained"] == counted["parameters_sent"] == pair + 10
    assert counted["parameters_merged"] == 20 * 6
    assert counted["parameters_frozen"] == 20 * 6 + 6 + 6 * 10
    assert counted["memory"]["frozen"] == 4 * (6 + 6 * 10)
    assert counted["bytes_up_a_round"] == 5 * 4 * (pair + 10)

    result = fedsim.run(network(rounds=2), out=tmp_path)
    assert counted["bytes_down_a_round"] == result.rounds["bytes_down"].iloc[-1] // 2
    commits = list(tmp_path.rglob("*.ckpt"))
    assert commits
    for commit in commits:
        names = checkpoint.decode(commit.read_bytes()).arrays
        assert any("merged" in name and "layer0" in name for name in names)
        assert not any("layer1.W" in name or "layer0.b" in name for name in names)
