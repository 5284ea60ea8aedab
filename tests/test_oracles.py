"""Trajectories of an independent reference, in float64, through `fedsim.run`."""

import numpy as np
import pytest
from conftest import oracle
from federations import problem, scenario, trajectory

METHODS = ("fedavg", "fedavg_minibatch", "fedprox", "fedavgm", "fedopt", "scaffold", "fednova", "fedexp", "feddyn")
CASES = [c for c in oracle("server_optimisers") if c["fn"] in METHODS and c["params"].get("solver") != "exact"]
# Bias-corrected Yogi exists neither in the paper nor in optax: no rule of ours.
NOT_OURS = [c["name"] for c in CASES if c["name"].startswith("fedyogi_bc1")]


def tail(p: dict) -> list[dict]:
    """What stands after the rule."""
    if "beta" in p:
        momentum = {"momentum": p["beta"], "dampening": p["dampening"], "nesterov": p["nesterov"]}
        return [{"kind": "fedavgm", "lr": p["server_lr"], **momentum}]
    if "tau" in p:
        moments = {"b1": p["beta1"], "b2": p["beta2"]}
        if p["bias_correction"]:  # then it is optax's rule
            return [{"kind": p["kind"], "lr": p["eta"], "eps": p["tau"], **moments}]
        if p["kind"] == "adagrad":
            del moments["b2"]
        start = None if p["v0"] == "tau2" else p["v0"]
        return [{"kind": "fed" + p["kind"], "lr": p["eta"], "tau": p["tau"], "v0": start, **moments}]
    return [{"kind": "sgd", "lr": p["server_lr"]}] if "server_lr" in p else []


def written(case: dict) -> dict:
    p = case["params"]
    rule = {"fednova": "normalized_mean", "fedexp": "extrapolated_mean", "feddyn": "dynamic_mean"}.get(case["fn"])
    own = {name: p[name] for name in ("eps", "alpha") if name in p}
    first = {"kind": rule, **own} if rule else {"kind": "mean", "weights": p["weighting"]}
    sections = scenario(case, server=[first, *([] if rule else tail(p))])
    if case["fn"] == "fedavg_minibatch":
        sections["client"] = {
            "lr": p["lr"],
            "batch": p["batch_size"],
            "epochs": p["epochs"],
            "shuffle": False,
            "drop_last": p["drop_last"],
            "optimizer": {"kind": "sgd", "momentum": p["momentum"] or None},
        }
    if case["fn"] == "fedprox":
        sections["client"] |= {"kind": "fedprox", "mu": p["mu"]}
    if case["fn"] == "fednova":
        sections["client"] |= {
            "kind": "fednova",
            "mu": p["mu"],
            "optimizer": {"kind": "sgd", "momentum": p["momentum"] or None},
        }
    if case["fn"] == "feddyn":
        sections["client"] |= {"kind": "feddyn", "alpha": p["alpha"]}
    if case["fn"] == "scaffold":
        sections["client"] |= {"kind": "scaffold", "option": p["option"]}
    return sections


@pytest.mark.parametrize("case", [c for c in CASES if c["name"] not in NOT_OURS], ids=lambda case: case["name"])
def test_trajectory(case):
    got, result = trajectory(written(case), **problem(case))
    near = {"rtol": case["rtol"], "atol": case["atol"]}
    np.testing.assert_allclose(got, case["expected"]["x"], **near)
    server, client = result.state()["server"], result.state()["client"]
    for name, mine in {
        "m": server.get("m"),
        "v": server.get("v"),
        "c": server.get("c"),
        "ci": client.get("c_i"),
        "h": server.get("h"),
        "g": client.get("g_i"),
    }.items():
        if name in case["expected"] and mine is not None:
            want = np.asarray(case["expected"][name])
            want = want[-1] if want.ndim > mine.ndim else want  # some are given for every round
            np.testing.assert_allclose(mine, want, err_msg=name, **near)


def test_all_cases_are_there():
    assert len(CASES) == 163 and len(NOT_OURS) == 5
