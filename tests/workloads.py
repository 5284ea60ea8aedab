"""Runs whose bytes must not depend on the layout: a module for tests, and a script for processes.

`python workloads.py CORES NAME... EDIT...` prints, for each name, the hash of the final parameters
and of the result tables.
"""

import hashlib
import json
import os
import sys

import jax
import numpy as np

import fedsim
from fedsim.disk.tables import to_csv
from fedsim.runs.result import TABLE_COLUMNS

BITS = ("rounds", "clients", "partition", "summary")


def images():
    """Random images with learnable labels, unevenly distributed to 12 clients."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 300)
    x = rng.normal(size=(300, 28, 28, 1)).astype(np.float32) + y[:, None, None, None] / 10
    return fedsim.Arrays(x, y, np.sort(rng.integers(0, 12, 300)), x[:60], y[:60])


def letters():
    """Texts that repeat the alphabet from a random letter on, with next letters as labels."""
    rng = np.random.default_rng(0)
    text = (rng.integers(0, 9, (200, 1)) + np.arange(13)) % 9
    x, y = text[:, :-1], text[:, 1:]
    return fedsim.Arrays(x, y, np.sort(rng.integers(0, 12, 200)), x[:40], y[:40], vocabulary=9)


DATA = {"cnn": images, **dict.fromkeys(("char_lstm", "char_gru", "transformer", "lora"), letters)}
DIGITS = {"kind": "digits", "clients": 40, "partition": {"kind": "dirichlet", "alpha": 0.3}}
MLP = {"kind": "mlp", "hidden": [16]}
SOME = {"kind": "uniform", "size": 10}
GIVEN = {"data": {"kind": "supplied"}, "cohort": {"kind": "uniform", "size": 6}}
TEXT = {**GIVEN, "rounds": 3, "client": {"lr": 0.5, "batch": 4}}
SPEED = {"kind": "lognormal", "sigma": 0.5}
OWN_TESTS = {**DIGITS, "client_test": 0.2}
OWN_SCORES = {"personal": True}


def on_digits(**sections):
    """Four rounds of a small network on ten of forty clients, unless the sections say otherwise."""
    return {"data": DIGITS, "model": MLP, "rounds": 4, "cohort": SOME, **sections}


def with_server_samples(**sections):
    """Two seeds in which a fifth of the clients attack a server that has samples."""
    data = {**DIGITS, "server": {"samples": 50}}
    return on_digits(data=data, seeds=2, fleet={"malicious": 0.2}, wire=["sign_flip"], **sections)


SKEWED = {
    **OWN_TESTS,
    "skew": [{"kind": "rotation", "max": 20}, {"kind": "concept_shift", "every": 2}],
    "augment": ["flip", {"kind": "crop", "padding": 1}],
}
GROUPS = [{"kind": "concept_shift", "groups": 2}]
FEDBUFF = "fedbuff(buffer=10, concurrency=25)"
LORA = {"kind": "lora", "rank": 2, "dropout": 0.1}
SKELLAM = {
    "mechanism": "distributed_skellam",
    "clip": 0.5,
    "noise_multiplier": 1.0,
    "delta": 1e-5,
    "accountant": "rdp",
}
DP_SGD = {"clip": 0.5, "noise_multiplier": 1.0, "microbatch": 3}
BANDED = {
    "clip": {"kind": "adaptive", "count_std": 1.0},
    "noise_multiplier": 1.0,
    "delta": 1e-5,
    "mechanism": {"kind": "banded", "bands": 3},
}
OUTER = ["mean", "fedadam(lr=0.01)"]
EDGES = {"kind": "hierarchical", "groups": 4, "edge_rounds": 2, "outer": OUTER}
WORKLOADS = {
    "cnn": {
        **GIVEN,
        "model": "cnn",
        "rounds": 2,
        "client": {"lr": 0.05, "batch": 20, "epochs": 1},
    },
    "full_batch": {"data": DIGITS, "rounds": 6, "client": {"lr": 0.5, "batch": "full", "steps": 2}},
    "scaffold": on_digits(rounds=6, method="scaffold"),
    "mime": on_digits(method="mime"),
    "median": on_digits(rounds=6, server=["median"]),
    "skewed": on_digits(data=SKEWED),
    "char_lstm": {**TEXT, "model": {"kind": "char_lstm", "width": 24}},
    "transformer": {**TEXT, "model": {"kind": "transformer", "width": 32}},
    "char_gru": {**TEXT, "model": {"kind": "char_gru", "width": 24}},
    "fedbuff": on_digits(rounds=8, seeds=2, schedule=FEDBUFF, server=["mean(weights=uniform)"]),
    "power_of_choice": on_digits(rounds=6, cohort="power_of_choice(size=10, candidates=20)"),
    "semi_sync": on_digits(
        rounds=8,
        fleet={"speed": SPEED, "availability": "bernoulli(rate=0.8)"},
        schedule="semi_sync(seconds=10, concurrency=20)",
        server=["mean(weights=uniform)"],
    ),
    "oort": on_digits(rounds=6, fleet={"speed": SPEED, "dropout": 0.1}, cohort="oort(size=10)"),
    "divfl": on_digits(rounds=6, cohort="divfl(size=10, candidates=20)"),
    "diana": on_digits(
        rounds=6,
        broadcast=["qsgd(levels=16)"],
        wire=[{"kind": "diana", "alpha": 0.1, "codec": "rand_k(density=0.1)"}],
        server=["mean(weights=uniform)"],
    ),
    "resnet": on_digits(model="resnet(depth=8)", rounds=2, cohort="uniform(size=5)"),
    "together": on_digits(seeds=3, method="scaffold"),
    "codec": on_digits(
        broadcast=["cast"],
        wire=[{"kind": "error_feedback", "codec": "top_k(density=0.05)"}],
        server=["mean(denominator=expected)", "aggregate_noise(std=0.001)"],
    ),
    "trust": with_server_samples(server=["trust"]),
    "zeno": with_server_samples(server=[{"kind": "zeno", "f": 2, "batch": 16}]),
    "private": on_digits(rounds=6, cohort={"kind": "cyclic", "size": 10}, privacy=BANDED),
    "dp_sgd": on_digits(client={"lr": 0.2, "batch": 4, "dp_sgd": DP_SGD}),
    "distributed": on_digits(privacy=SKELLAM),
    "fedper": on_digits(data=OWN_TESTS, method="fedper"),
    "parts": on_digits(client={"width": {"widths": [1.0, 0.5, 0.25], "window": "rolling"}}),
    "ifca": on_digits(data={**OWN_TESTS, "skew": GROUPS}, method="ifca"),
    "fedamp": on_digits(data=OWN_TESTS, method="fedamp"),
    "ditto": on_digits(data=OWN_TESTS, method="ditto(personal_steps=2)", evaluate=OWN_SCORES),
    "fedbabu": on_digits(data=OWN_TESTS, method="fedbabu(tune_steps=3)", evaluate=OWN_SCORES),
    "graph": {
        "data": DIGITS,
        "model": MLP,
        "rounds": 4,
        "fleet": {"speed": SPEED, "dropout": 0.1},
        "client": {"kind": "gradient_tracking", "steps": 1},
        "topology": {"kind": "watts_strogatz", "redraw": 2, "fail": 0.1},
    },
    "edges": on_digits(rounds=5, fleet={"dropout": 0.1}, topology=EDGES),
    "fedfomo": on_digits(data=OWN_TESTS, method="fedfomo(models=3)"),
    "fedgroup": on_digits(data=OWN_TESTS, method="fedgroup(clusters=2)"),
    "pfedhn": on_digits(data=OWN_TESTS, method="pfedhn(hidden=[8])"),
    "lora": {
        **TEXT,
        "model": {"kind": "transformer", "width": 32, "adapter": LORA},
        "server": [{"kind": "lora_mean", "how": "product"}],
    },
    "ranks": on_digits(
        model={**MLP, "adapter": {"kind": "lora", "rank": 4, "alpha": 8}},
        client={"rank": {"ranks": [1, 2, 4]}},
        server=[{"kind": "lora_mean", "how": "stack"}],
    ),
}

PERSONAL = {
    name: {
        "data": {"kind": "digits", "clients": 8, "client_test": 0.2},
        "model": {"kind": "mlp", "hidden": [4]},
        "rounds": 3,
        "cohort": {"kind": "uniform", "size": 6},
        "client": {"lr": 0.1, "batch": 16},
        "evaluate": {"every": 1},
        **sections,
    }
    for name, sections in {
        "own_fedgroup": {"method": "fedgroup(clusters=2)"},
        "own_flexcfl": {"method": "flexcfl(clusters=2)"},
        "own_knn_per": {"method": "knn_per"},
        "own_pfedhn": {"method": "pfedhn(hidden=[4])"},
        "own_superfed": {"method": "superfed"},
        "own_gifair": {"server": ["gifair"]},
        "own_heterofl": {"method": "heterofl"},
        "own_fedrolex": {"method": "fedrolex"},
        "own_fedpac": {"method": "fedpac"},
        "own_fedas": {"method": "fedas"},
        "own_dbe": {"method": "dbe"},
    }.items()
}
"""Methods with models of the clients' own, small."""
WORKLOADS |= PERSONAL


def run(name: str, edits=(), **options):
    scenario = {"name": name, "numerics": {"threads": 4}, **WORKLOADS[name]}
    return fedsim.run(scenario, data=DATA[name]() if name in DATA else None, edits=edits, **options)


def digest(result) -> str:
    h = hashlib.sha256()
    for name in BITS:
        h.update(to_csv(result.records[name], TABLE_COLUMNS[name]).encode())
    for seed in result.scenario["seeds"]:
        for leaf in jax.tree.leaves(result.model(seed=seed)):
            h.update(leaf.tobytes())
    return h.hexdigest()


if __name__ == "__main__":
    os.sched_setaffinity(0, range(int(sys.argv[1])))
    edits = [word for word in sys.argv[2:] if "=" in word]
    names = [word for word in sys.argv[2:] if word not in edits]
    print(json.dumps({name: digest(run(name, edits)) for name in names}))
