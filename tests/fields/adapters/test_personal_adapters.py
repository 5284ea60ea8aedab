"""Pairs that are shared by part: A alone (FedSA-LoRA), or one of two pairs (FedDPA)."""

import numpy as np
import pytest

import fedsim

LOCAL = ["local_A", "local_B"]
RNG = np.random.default_rng(0)
CLIENTS = 4
X = RNG.normal(size=(40, 5))
Y = X @ RNG.normal(size=(5, 3)) + RNG.normal(size=(40, 3))
OWNER = np.repeat(np.arange(CLIENTS), [16, 4, 12, 8])
COHORTS = [[0, 2, 3], [1, 3], [0, 1, 2]]
LR = 0.05


def written(adapter, client, **sections) -> dict:
    return {
        "name": "shared_by_part",
        "rounds": len(COHORTS),
        "data": {"partition": "natural", "test": 0},
        "model": {"kind": "linear", "bias": False, "adapter": adapter},
        "cohort": {"kind": "listed", "rounds": COHORTS},
        "client": {"lr": LR, "batch": "full", "steps": 2, **client},
        "numerics": {"dtype": "float64"},
        **sections,
    }


def run(*arguments, **sections):
    return fedsim.run(written(*arguments, **sections), data=fedsim.Arrays(X, Y, client=OWNER))


def gradients(p, W, client: int, parts: dict) -> dict:
    """Of the mean of ½‖x (W + Σ w A B) − y‖² over a client's samples, by the names of leaves."""
    x = X[client == OWNER]
    y = Y[client == OWNER]
    moved = sum(w * p[A] @ p[B] for (A, B), w in parts.items())
    to_W = x.T @ (x @ (W + moved) - y) / len(x)
    by_name = {}
    for (A, B), w in parts.items():
        by_name[A] = w * to_W @ p[B].T
        by_name[B] = w * p[A].T @ to_W
    return by_name


def reference(start, parts, personal, phases):
    """Rounds of clients that keep leaves, in plain NumPy -> shared leaves, and those of clients.

    Args:
      start: leaves by name.
      parts: names of A and B of each pair -> its factor.
      personal: leaves that clients keep.
      phases: (leaves that are trained, steps), one after another.
    """
    W = start["base"]
    shared = {name: leaf for name, leaf in start.items() if name not in ("base", *personal)}
    own = [{name: start[name] for name in personal} for _ in range(CLIENTS)]
    for cohort in COHORTS:
        sent = []
        for client in cohort:
            p = {**shared, **own[client]}
            for trained, steps in phases:
                for _ in range(steps):
                    g = gradients(p, W, client, parts)
                    p |= {name: p[name] - LR * g[name] for name in trained}
            own[client] = {name: p[name] for name in personal}
            sent.append(p)
        weights = np.array([(client == OWNER).sum() for client in cohort])
        weights = weights / weights.sum()
        for name in shared:
            shared[name] = sum(w * p[name] for w, p in zip(weights, sent, strict=True))
    return shared, own


def leaves_of(params) -> dict:
    return {name: np.asarray(leaf) for name, leaf in params["W"].items()}


def start_of(result) -> dict:
    """A run's start, whose bases are frozen."""
    start = result.experiment.shared[0]
    trained = {k: v for k, v in leaves_of(start["params"]).items() if v.dtype != object}
    return {**trained, "base": np.asarray(start["frozen"]["W"]["base"])}


@pytest.mark.long
def test_a_is_shared_and_b_stays():
    """FedSA-LoRA: rounds in NumPy; 4·r·m bytes each way."""
    result = run({"kind": "lora", "rank": 2}, {"kind": "fedper", "personal": ["lora_B"]})
    pair = ("lora_A", "lora_B")
    shared, own = reference(start_of(result), {pair: 1.0}, ["lora_B"], [(pair, 2)])
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    close(leaves_of(result.model())["lora_A"], shared["lora_A"])
    for client in range(CLIENTS):
        close(leaves_of(result.model(client=client))["lora_B"], own[client]["lora_B"])

    last = result.rounds.iloc[-1]
    messages = sum(map(len, COHORTS))
    assert last["bytes_up"] == last["bytes_down"] == messages * 4 * 2 * 5


DUAL = {"kind": "dual_lora", "rank": 2, "alpha": 4, "weight": 0.25}
PARTS = {("lora_A", "lora_B"): 2 * 0.75, ("local_A", "local_B"): 2 * 0.25}


@pytest.mark.long
@pytest.mark.parametrize(
    ("client", "phases"),
    [
        ({"kind": "fedrep", "head_steps": 3}, [(LOCAL, 3), (["lora_A", "lora_B"], 2)]),
        ({"kind": "fedper"}, [([*LOCAL, "lora_A", "lora_B"], 2)]),
    ],
    ids=["fedrep", "fedper"],
)
def test_a_global_and_a_local_pair(client, phases):
    """FedDPA: rounds in NumPy, the pairs in turn or together; the global pair alone travels."""
    result = run(DUAL, {**client, "personal": LOCAL})
    shared, own = reference(start_of(result), PARTS, LOCAL, phases)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    for name in ("lora_A", "lora_B"):
        close(leaves_of(result.model())[name], shared[name])
    for number in range(CLIENTS):
        of_client = leaves_of(result.model(client=number))
        for name in LOCAL:
            close(of_client[name], own[number][name])
    messages = sum(map(len, COHORTS))
    assert result.rounds.iloc[-1]["bytes_up"] == messages * 4 * 2 * (5 + 3)
