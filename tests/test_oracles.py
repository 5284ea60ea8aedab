"""Trajectories of an independent reference, in float64, through `fedsim.run`."""

import numpy as np
import pytest
from conftest import oracle
from federations import problem, scenario, trajectory

CASES = [c for c in oracle("server_optimisers") if c["fn"] in ("fedavg", "fedavg_minibatch")]


def fedavg(case: dict) -> dict:
    p = case["params"]
    server = [{"kind": "mean", "weights": p["weighting"]}]
    if "server_lr" in p:
        server.append({"kind": "sgd", "lr": p["server_lr"]})
    written = scenario(case, server=server)
    if case["fn"] == "fedavg_minibatch":
        written["client"] = {
            "lr": p["lr"],
            "batch": p["batch_size"],
            "epochs": p["epochs"],
            "shuffle": False,
            "drop_last": p["drop_last"],
            "optimizer": {"kind": "sgd", "momentum": p["momentum"] or None},
        }
    return written


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_trajectory(case):
    got, _ = trajectory(fedavg(case), **problem(case))
    np.testing.assert_allclose(got, case["expected"]["x"], rtol=case["rtol"], atol=case["atol"])


def test_all_cases_are_there():
    assert len(CASES) == 33
