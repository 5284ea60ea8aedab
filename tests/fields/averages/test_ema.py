"""The moving average of the server's model: its recursion, and that it changes nothing else."""

import jax
import numpy as np
import pandas as pd
import pytest
from conftest import sampled

import fedsim

SCENARIO = {
    "name": "averaged",
    "data": {"kind": "gaussian_blobs", "samples": 240, "classes": 3, "clients": 6},
    "rounds": 6,
    "cohort": {"kind": "uniform", "size": 3},
    "client": {"lr": 0.3},
    "numerics": {"dtype": "float64"},
}


def servers_of(out=None, resume=False, **sections):
    """The server after every evaluated round, and the rows."""
    seen = []
    watch = lambda experiment, seed, row: seen.append(row.server)
    result = fedsim.run({**SCENARIO, **sections}, watch=watch, out=out, resume=resume)
    return seen, result.rounds


@pytest.fixture(scope="module")
def averaged(tmp_path_factory):
    """A run that ends after two rounds and goes on."""
    out = tmp_path_factory.mktemp("averaged") / "run"
    before, _ = servers_of(out, ema=0.8, rounds=2)
    after, rounds = servers_of(out, resume=True, ema=0.8)
    return [*before, *after], rounds


SERVERS = {
    "mean, resumed": {},
    "server optimizer": {"method": "fedadam"},
    "rounds that nobody reports": {"fleet": {"dropout": 0.9}},
    "asynchronous": {"schedule": "fedasync(concurrency=3)"},
}


@pytest.mark.parametrize("name", sampled(SERVERS, 4))
def test_the_average_follows_its_recursion(name, averaged):
    servers, rounds = servers_of(ema=0.8, **SERVERS[name]) if SERVERS[name] else averaged
    assert len(servers) == len(rounds)
    average = servers[0].shared["params"]
    for server in servers[1:]:
        mix = lambda old, new: 0.8 * np.asarray(old) + 0.2 * np.asarray(new)
        average = jax.tree.map(mix, average, server.shared["params"])
        close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)
        jax.tree.map(close, server.state["ema"], average)
    assert rounds["ema/test_loss"][0] == rounds["test_loss"][0]


def test_the_average_changes_no_other_column(averaged):
    rounds = averaged[1]
    columns = [name for name in rounds if name.startswith("ema/")]
    pd.testing.assert_frame_equal(rounds.drop(columns=columns), servers_of()[1])


def test_a_decay_of_one_is_refused():
    with pytest.raises(fedsim.ScenarioError, match="ema: should be a number from 0 to below 1"):
        fedsim.run({**SCENARIO, "ema": 1.0})
