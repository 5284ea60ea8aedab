"""Runs side by side: whoever trains in company ends with the bytes that it ends with alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsim.engine.run import Rest
from fedsim.engine.together import events
from fedsim.scenario import build, read
from fedsim.scenario.build import numerics

CLIENTS = ["fedavg", "fedprox(mu=0.1)", "scaffold"]
SERVERS = {
    "adam": ["mean", {"kind": "adam", "lr": 0.1}],
    "median": ["median"],
    "krum": [{"kind": "krum", "f": 1}],
    "clip": [{"kind": "clip", "norm": 0.5}, "mean"],
}
KINDS = {
    **{method: {"method": method} for method in CLIENTS},
    **{name: {"server": server} for name, server in SERVERS.items()},
    "momentum": {"client": {"lr": 0.1, "optimizer": {"kind": "sgd", "momentum": 0.9}, "optimizer_state": "carry"}},
    "mlp": {"model": {"kind": "mlp", "hidden": [8]}},
    "steps": {
        "client": {"lr": {"kind": "cosine_decay_schedule", "init_value": 0.1, "decay_steps": 10}, "lr_per": "step"}
    },
    "attack": {"fleet": {"malicious": 0.3}, "wire": ["sign_flip"], "server": ["median"]},
    "noise": {"wire": [{"kind": "gaussian", "std": 0.1}], "fleet": {"malicious": 0.3}},
    "poisson": {"cohort": {"kind": "poisson", "rate": 0.2}},
    "float64": {"numerics": {"dtype": "float64"}},
}


def scenario(**sections):
    data = {"kind": "gaussian_blobs", "samples": 400, "clients": 20, "partition": {"kind": "dirichlet", "alpha": 0.3}}
    plain = {"cohort": {"kind": "uniform", "size": 5}, "client": {"lr": 0.1, "batch": 8, "epochs": 2}}
    return {"name": "together", "rounds": 4, "seeds": 5, "data": data, **plain, **sections}


def rows(runs, seeds, program):
    """(seed, row) of all of them, and what they hold at the end."""
    found = {seed: [] for seed in seeds}
    names = {id(run): seed for run, seed in zip(runs, seeds, strict=True)}
    for event in events(runs, program):
        assert not isinstance(event, Rest)
        found[names[id(event[0])]].append(event[1].values)
    return found, {seed: run.snapshot(portable=True).arrays for run, seed in zip(runs, seeds, strict=True)}


def noisy(params, x, *, key, train, **_):
    """A logistic regression that drops features while it trains: every client's noise is its own."""
    kept = jax.random.bernoulli(key, 0.5, x.shape) if train else jnp.ones(x.shape)
    return (x * kept) @ params["W"]


@pytest.mark.parametrize("kind", [*KINDS, "dropout"])
def test_company_changes_no_bit(kind):
    checked = read(scenario(**KINDS.get(kind, {})))
    own = (lambda key, x: {"W": jnp.zeros((x.shape[-1], 10))}, noisy)
    with numerics(checked):
        experiment = build(checked, model=own if kind == "dropout" else None)
        seeds = list(experiment.plans)
        programs, plans = [experiment.program] * len(seeds), list(experiment.plans.values())
        groups, program = banked(programs, plans, 1000)
        assert groups == [(0, len(seeds))] and program.room.runs == len(seeds)
        together_, ends = rows([experiment.run(seed) for seed in seeds], seeds, program)
        for seed in seeds:
            alone, end = rows([experiment.run(seed)], [seed], experiment.program)
            assert alone[seed] == together_[seed]
            assert end[seed].keys() == ends[seed].keys()
            assert all(np.array_equal(end[seed][name], ends[seed][name], equal_nan=True) for name in end[seed])
            assert len(alone[seed]) == 5
