"""Every rule when clients misbehave or stay away: never a NaN, always a declared outcome."""

import itertools

import numpy as np
import pytest
from conftest import OF_ADAPTERS, READERS, some
from test_lanes import X64, ragged
from test_rules import TABLE

import fedsim
from fedsim.compose import FAMILIES

CLIENT = {"lr": 0.3, "batch": "full", "steps": 2}
KINDS = sorted(TABLE.keys() - READERS - OF_ADAPTERS)
PAIRS = list(itertools.product(KINDS, ["nan", "inf", "-inf"]))


def link(kind):
    return {"kind": kind, **TABLE[kind].link}


def client(kind):
    """Plain training, or the only method that a rule may stand behind."""
    method, both = FAMILIES["rule"][kind](**TABLE[kind].link).client or ("sgd", {})
    return {**CLIENT, "kind": method, **both}


def run(kind, rounds=3, out=None, **sections):
    written = {
        "name": "faults",
        "rounds": rounds,
        "client": client(kind),
        "server": [link(kind)],
        "numerics": X64,
        **sections,
    }
    return fedsim.run(written, data=ragged(clients=14), out=out)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "value"), some(PAIRS, 7))
def test_one_non_finite_client_is_dropped_and_counted(kind, value):
    result = run(kind, wire=[{"kind": "nonfinite", "value": value}], fleet={"malicious": [2]})
    assert np.isfinite(result.model()["W"]).all() and result.status == "done"
    assert result.rounds["n_nonfinite"].tolist() == [0, 1, 1, 1]
    without = run(kind, cohort={"kind": "listed", "rounds": [[k for k in range(14) if k != 2]]})
    np.testing.assert_allclose(result.model()["W"], without.model()["W"], rtol=1e-9, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("kind", some(KINDS, 3, 0))
def test_nobody_usable_leaves_everything_as_it_was(kind):
    result = run(
        kind,
        rounds=2,
        wire=["nonfinite"],
        fleet={"malicious": 1.0},
        server=[link(kind), {"kind": "adam", "lr": 0.1}],
    )
    # MIFA needs nobody: it repeats the step of the last updates, and there are none.
    skipped = [0, 0, 0] if kind == "mifa" else [0, 1, 1]
    assert (result.model()["W"] == 0).all() and result.rounds["skipped"].tolist() == skipped
    assert (result.state()["server"]["mu"]["W"] == 0).all()  # the optimiser was not stepped either


@pytest.mark.long
def test_an_impossible_round_ends_the_run_where_asked(tmp_path):
    """Two attackers of five drop out, and what is left is too little for Krum."""
    few = {
        "server": [{"kind": "krum", "f": 1}],
        "wire": ["nonfinite"],
        "fleet": {"malicious": [0, 1, 2, 3]},
        "cohort": {"kind": "uniform", "size": 5},
    }
    skipping = run("krum", rounds=6, **few)
    assert skipping.status == "done" and 0 < skipping.rounds["skipped"].sum() < 6
    stopped = run("krum", rounds=6, on_impossible="stop", out=tmp_path / "run", **few)
    first = int(skipping.rounds["round"][skipping.rounds["skipped"] == 1].min())
    assert stopped.status == "stopped" and stopped.rounds["round"].max() == first
    (reason,) = stopped.reasons.values()
    assert reason.startswith(f"round {first}: ") and "the rule needs" in reason
    assert fedsim.verify(tmp_path / "run", data=ragged(clients=14)).equal
