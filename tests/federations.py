"""Oracle problems as a user would supply them: arrays, a model, start parameters."""

import functools

import jax.numpy as jnp
import numpy as np

import fedsim


def softmax(inputs: dict) -> dict:
    """Softmax regression, flat parameters: W row-major, then b."""
    d, C = inputs["d"], inputs["C"]
    model = softmax_model(d, C)
    sizes = inputs["sizes"]
    x = np.concatenate([np.reshape(inputs[f"X{i}"], (n, d)) for i, n in enumerate(sizes)])
    y = np.concatenate([np.asarray(inputs[f"y{i}"]) for i in range(len(sizes))])

    return bring(x, y, np.repeat(np.arange(len(sizes)), sizes), model, inputs["x0"])


@functools.cache
def softmax_model(d: int, C: int):
    """One pair of functions per shape: cases that share it share compiled programs."""

    def apply(params, x):
        return x @ params[: d * C].reshape(d, C) + params[d * C :]

    return (lambda key: jnp.zeros(d * C + C)), apply


@functools.cache
def quadratic_model(d: int):
    def apply(params, x):
        H, a = x[:, : d * d].reshape(-1, d, d), x[:, d * d :]
        e = params - a
        return 0.5 * jnp.einsum("bi,bij,bj->b", e, H, e)

    return (lambda key: jnp.zeros(d)), apply


def as_it_is(outputs, y):
    """The model's output is the loss."""
    return outputs


def quadratic(inputs: dict) -> dict:
    """f_i = ½ (p − a_i)ᵀ H_i (p − a_i): client i holds n_i copies of the sample (H_i, a_i)."""
    H, a = np.asarray(inputs["H"]), np.asarray(inputs["a"])
    sizes, d = inputs["sizes"], len(inputs["x0"])
    rows = np.concatenate([H.reshape(len(sizes), -1), a], axis=1)
    owner = np.repeat(np.arange(len(sizes)), sizes)

    problem = bring(rows[owner], np.zeros(len(owner)), owner, quadratic_model(d), inputs["x0"])
    return {**problem, "loss": as_it_is}


def bring(x, y, owner, model, x0) -> dict:
    return {"data": fedsim.Arrays(x, y, client=owner), "model": model, "params": np.asarray(x0)}


def problem(case: dict) -> dict:
    return softmax(case["inputs"]) if "softmax" in case["tags"] else quadratic(case["inputs"])


def scenario(case: dict, **sections) -> dict:
    """The scenario of a trajectory case: float64, cohorts as listed, or all in every round."""
    everybody = list(range(len(case["inputs"]["sizes"])))
    p = case["params"]
    rounds = case["inputs"].get("part") or [everybody] * p.get("rounds", 1)
    names_of_papers = ("lr", "eta_bar", "gamma_w", "eta0")
    lr = next(p[name] for name in names_of_papers if name in p)
    return {
        "name": "oracle",
        "rounds": len(rounds),
        "cohort": {"kind": "listed", "rounds": rounds},
        "client": {"lr": lr, "batch": "full", "steps": p.get("local_steps", 1)},
        "numerics": {"dtype": "float64"},
        **sections,
    }


def trajectory(scenario: dict, **door) -> tuple[list[np.ndarray], "fedsim.Result"]:
    """Return the shared parameters after every round of `fedsim.run`, and its result."""
    seen = []
    result = fedsim.run(
        scenario,
        watch=lambda e, s, row: seen.append(np.asarray(row.server.shared["params"])),
        **door,
    )
    return seen[1:], result
