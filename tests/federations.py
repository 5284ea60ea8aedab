"""Oracle problems in the form in which a user would bring them: arrays, a model, start parameters."""

import jax.numpy as jnp
import numpy as np

import fedsim


def softmax(inputs: dict) -> dict:
    """Softmax regression, flat parameters: W row-major, then b."""
    d, C = inputs["d"], inputs["C"]
    sizes = inputs["sizes"]
    x = np.concatenate([np.reshape(inputs[f"X{i}"], (n, d)) for i, n in enumerate(sizes)])
    y = np.concatenate([np.asarray(inputs[f"y{i}"]) for i in range(len(sizes))])

    def apply(params, x):
        return x @ params[: d * C].reshape(d, C) + params[d * C :]

    return bring(x, y, np.repeat(np.arange(len(sizes)), sizes), apply, inputs["x0"])


def quadratic(inputs: dict) -> dict:
    """f_i = ½ (p − a_i)ᵀ H_i (p − a_i): client i holds n_i copies of the sample (H_i, a_i)."""
    H, a = np.asarray(inputs["H"]), np.asarray(inputs["a"])
    sizes, d = inputs["sizes"], len(inputs["x0"])
    rows = np.concatenate([H.reshape(len(sizes), -1), a], axis=1)
    owner = np.repeat(np.arange(len(sizes)), sizes)

    def apply(params, x):
        H, a = x[:, : d * d].reshape(-1, d, d), x[:, d * d :]
        e = params - a
        return 0.5 * jnp.einsum("bi,bij,bj->b", e, H, e)

    problem = bring(rows[owner], np.zeros(len(owner)), owner, apply, inputs["x0"])
    return {**problem, "loss": lambda outputs, y: outputs}


def bring(x, y, owner, apply, x0) -> dict:
    data = fedsim.Arrays(x, y, client=owner)
    return {"data": data, "model": (lambda key: jnp.zeros(len(x0)), apply), "params": np.asarray(x0)}


def problem(case: dict) -> dict:
    return softmax(case["inputs"]) if "softmax" in case["tags"] else quadratic(case["inputs"])


def scenario(case: dict, **sections) -> dict:
    """The scenario of a trajectory case: float64, cohorts as listed."""
    rounds = case["inputs"]["part"]
    client = {"lr": case["params"]["lr"], "batch": "full", "steps": case["params"].get("local_steps", 1)}
    defaults = {
        "name": "oracle",
        "rounds": len(rounds),
        "cohort": {"kind": "listed", "rounds": rounds},
        "client": client,
        "numerics": {"dtype": "float64"},
    }
    return {**defaults, **sections}


def trajectory(scenario: dict, **door) -> tuple[list[np.ndarray], "fedsim.Result"]:
    """Shared parameters after every round, through the public door."""
    seen = []
    result = fedsim.run(scenario, watch=lambda e, s, row: seen.append(np.asarray(row.server.bank["params"][0])), **door)
    return seen[1:], result
