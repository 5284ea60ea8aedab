"""`fedsim check`: everything is built, nothing is trained, and its predictions come true."""

import json
from unittest import TestCase

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from building import built
from click.testing import CliRunner

from fedsim import run
from fedsim.assemble.forecast import forecast
from fedsim.assemble.temporary import traced_bytes
from fedsim.cli import cli

SMALL = {
    "name": "small",
    "rounds": 2,
    "data": {"kind": "digits", "clients": 30},
    "model": {"kind": "mlp", "hidden": [20]},
    "cohort": {"kind": "uniform", "size": 6},
    "client": {"lr": 0.05, "batch": 10, "epochs": 2},
}


def written(folder, **sections):
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **sections}))
    return str(path)


@pytest.mark.long
@pytest.mark.parametrize("method", ["scaffold", "mime", "qfedavg"])
def test_predictions_match_the_run(method, tmp_path, monkeypatch):
    path = written(tmp_path, method=method)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["check", path, "--json"], catch_exceptions=False)
    predicted = json.loads(done.stdout)
    assert not (tmp_path / "reports").exists()
    last = run(path).rounds.iloc[-1]
    assert predicted["bytes_up_a_round"] * 2 == last["bytes_up"]
    assert predicted["bytes_down_a_round"] * 2 == last["bytes_down"]
    assert predicted["parameters"] == 64 * 20 + 20 + 20 * 10 + 10
    assert predicted["clients"] == 30 and predicted["clients_a_round"] == 6
    assert predicted["longest_client_steps"] * 6 >= predicted["steps_a_round"] > 0


@pytest.mark.long
def test_the_forecast_prints_sizes_and_the_first_loss(tmp_path):
    words = ["check", written(tmp_path), "--set", "server=[median]"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    for word in ("30 with", "6 a round", "1,510", "of local training", "loss 2."):
        assert word in done.output
    verbose = CliRunner().invoke(cli, [*words, "--verbose"]).output
    for word in ("held together", "shard", "blocks of", "process"):
        assert word in verbose and word not in done.output


@pytest.mark.long
def test_the_programs_of_a_small_run_are_counted_and_not_compiled():
    experiment = built(SMALL)
    with jax.log_compiles(), TestCase().assertLogs("jax") as logged:
        predicted = forecast(experiment)
    printed = "".join(logged.output)
    assert "Finished tracing" in printed and "Finished XLA compilation" not in printed
    assert predicted["memory"]["temporary"] > 0


def test_values_count_from_creation_to_last_use():
    x, n = jax.ShapeDtypeStruct((16, 16), np.float32), 16 * 16 * 4
    product = lambda a: a @ a
    twice = lambda a: jnp.exp(product(a)) @ product(product(a))  # exp is fused; its operand stays
    assert traced_bytes(jax.jit(product), x) == n and traced_bytes(jax.jit(twice), x) == 3 * n
    assert traced_bytes(jax.jit(twice), x, donated=x) == 2 * n
    loop = lambda a: jax.lax.fori_loop(0, 3, lambda _, carried: product(product(carried)), a)
    for carried in (loop, lambda a: loop(a) + 1):  # what is carried, two products, and a counter
        assert traced_bytes(jax.jit(carried), x) == pytest.approx(3 * n, rel=0.01)
