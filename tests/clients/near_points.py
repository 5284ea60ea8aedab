"""A few clients around two centres, whose local steps are known in closed form; and digits."""

import jax
import jax.numpy as jnp
import numpy as np
from reference.scenarios import consecutive

import fedsim

NEAR = {"rtol": 1e-9, "atol": 1e-12}
D = 3
SIZES = (2, 3, 1, 4, 2, 3, 0)  # the last client has no samples
MODEL = (lambda key: jnp.zeros(D)), (lambda p, x: 0.5 * jnp.sum((p - x) ** 2, axis=-1))
CENTRES = np.array([[3, 0, 1], [2.5, 0.5, 1], [2, -0.2, 0.8], [-3, 1, 0], [-2.5, 1.2, 0.3]])
CENTRES = np.concatenate([CENTRES, [[-2, -0.5, -0.6]]])
ALL = list(range(len(SIZES) - 1))
COHORTS = [[0, 3, 4], [1, 2, 5], [0, 1, 3, 5], ALL]


def points() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    owner = np.repeat(range(len(SIZES)), SIZES)
    return CENTRES[owner] + 0.1 * rng.normal(size=(len(owner), D)), owner


def means() -> np.ndarray:
    x, owner = points()
    return np.array([x[owner == i].mean(0) for i in ALL])


def played(cohorts, params=None, lr=0.2, steps=2, x=None, model=MODEL, **sections):
    """Run on the points, or others -> the server's models after every round, and the result."""
    x = points()[0] if x is None else x
    written = {
        "name": "points",
        "rounds": len(cohorts),
        "data": {"clients": len(SIZES), "test": 0.0},
        "cohort": {"kind": "listed", "rounds": cohorts},
        "numerics": {"dtype": "float64"},
        **sections,
    }
    client = {"lr": lr, "batch": "full", "steps": steps}
    written["client"] = {**client, **sections.get("client", {})}
    seen = []
    result = fedsim.run(
        written,
        data=fedsim.Arrays(x, np.zeros(len(x))),
        model=model,
        params=params,
        partition=consecutive(SIZES),
        loss=lambda outputs, y: outputs,
        watch=lambda e, s, row: seen.append(jax.tree.map(np.asarray, row.server.shared["params"])),
    )
    return seen[1:], result


def local(start, centre, lr=0.2, steps=2):
    y = start
    for _ in range(steps):
        y = y - lr * (y - centre)
    return y - start


def losses(model) -> np.ndarray:
    x, owner = points()
    by_row = 0.5 * ((x - model) ** 2).sum(1)
    return np.array([by_row[owner == i].mean() for i in ALL])


def digits(**sections) -> dict:
    return {
        "name": "clusters",
        "rounds": 3,
        "data": {"kind": "digits", "clients": 8, "client_test": 0.3},
        "model": {"kind": "mlp", "hidden": [8]},
        "cohort": {"kind": "uniform", "size": 4},
        "client": {"lr": 0.1, "batch": 16},
        "evaluate": {"every": 1},
        **sections,
    }


def log_softmax(z):
    z = z - z.max(1, keepdims=True)
    return z - np.log(np.exp(z).sum(1, keepdims=True))
