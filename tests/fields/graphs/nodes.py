"""Quadratics on a graph, and what the papers do there: plain loops over nodes, in NumPy."""

import numpy as np
from federations import quadratic

import fedsim
from fedsim.assemble.stack_inputs import checked
from fedsim.fields.graphs.network import Network
from fedsim.fields.graphs.section import ANNOTATION, network_settings

D = 3


def problem(nodes: int, seed: int = 0, sizes=None) -> dict:
    """f_i = ½ (x − a_i)ᵀ H_i (x − a_i), every node with its own H_i and a_i."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(nodes, D, D))
    H = np.einsum("nij,nkj->nik", root, root) / D + 0.3 * np.eye(D)
    a = 2 * rng.normal(size=(nodes, D))
    sizes = [1] * nodes if sizes is None else sizes
    return {"H": H, "a": a, "sizes": sizes, "x0": rng.normal(size=D)}


def scenario(client, topology, rounds: int, lr: float = 0.1, steps: int = 1, **sections) -> dict:
    kind = client if isinstance(client, dict) else {"kind": client}
    return {
        "name": "nodes",
        "rounds": rounds,
        "client": {"lr": lr, "batch": "full", "steps": steps, **kind},
        "topology": topology,
        "evaluate": {"every": rounds},
        "numerics": {"dtype": "float64"},
        **sections,
    }


def run(inputs: dict, written: dict, **options) -> fedsim.Result:
    """A run on the quadratics, whose samples are the test set too."""
    door = quadratic(inputs)
    data = door["data"]
    owner = None if "partition" in options else data.client
    data = fedsim.Arrays(data.x, data.y, client=owner, x_test=data.x, y_test=data.y)
    return fedsim.run(written, **{**door, "data": data}, **options)


def network_of(topology, n: int, rounds: int) -> Network:
    """The graphs of a section `topology`."""
    settings = network_settings(checked("", "t", topology, ANNOTATION))
    return Network(settings, n, seed=0, rounds=rounds)


def models(result: fedsim.Result) -> np.ndarray:
    """The nodes' models at the end `[n, D]`."""
    return result.state()["client"]["x"]


def gradient(inputs: dict, i: int, x: np.ndarray) -> np.ndarray:
    return inputs["H"][i] @ (x - inputs["a"][i])


def start(inputs: dict) -> np.ndarray:
    return np.tile(inputs["x0"], (len(inputs["a"]), 1))


def trained(inputs, i: int, x: np.ndarray, lr: float, steps: int, momentum=0.0, rho=0.0):
    """What node i makes of x in some local steps, heavy ball written as differences of iterates.

    The gradient is that at a distance of rho uphill.
    """
    last = x
    for _ in range(steps):
        g = gradient(inputs, i, x)
        if rho:
            g = gradient(inputs, i, x + rho * g / np.linalg.norm(g))
        x, last = x - lr * g + momentum * (x - last), x
    return x


def dfedavg(inputs, W, rounds, lr, steps, mix="after", **training):
    """Lian et al. 2017 (`before`); Sun et al. 2023 (`after`, with momentum); Shi et al. 2023 (rho).

    W: round -> matrix. steps: of all nodes, or of each.
    """
    x = start(inputs)
    n = len(x)
    taken = np.broadcast_to(steps, n)
    for r in range(1, rounds + 1):
        y = np.array([trained(inputs, i, x[i], lr, taken[i], **training) for i in range(n)])
        if mix == "after":
            x = np.array([sum(W(r)[i, j] * y[j] for j in range(n)) for i in range(n)])
        else:
            x = np.array([sum(W(r)[i, j] * x[j] for j in range(n)) for i in range(n)]) + y - x
    return x


def tracking(inputs, W, rounds, lr):
    """Nedić, Olshevsky, Shi 2017, in the form that mixes the step too."""
    x = start(inputs)
    n = len(x)
    g = np.array([gradient(inputs, i, x[i]) for i in range(n)])
    y = g
    for r in range(1, rounds + 1):
        x = W(r) @ (x - lr * y)
        new = np.array([gradient(inputs, i, x[i]) for i in range(n)])
        y = W(r) @ y + new - g
        g = new
    return x


def push(inputs, W, rounds, lr, steps):
    """Assran et al. 2019, Algorithm 1: biased x, weights w, gradients at x/w."""
    x = start(inputs)
    n = len(x)
    w = np.ones(n)
    for r in range(1, rounds + 1):
        z = x / w[:, None]
        step = np.array([trained(inputs, i, z[i], lr, steps) for i in range(n)]) - z
        x = W(r) @ (x + step)
        w = W(r) @ w
    return x / w[:, None]


def diffusion(inputs, W, rounds, lr):
    """Yuan et al. 2019: adapt, correct, combine with (I + W)/2."""
    x = start(inputs)
    n = len(x)
    psi = x
    for r in range(1, rounds + 1):
        adapted = np.array([x[i] - lr * gradient(inputs, i, x[i]) for i in range(n)])
        corrected = adapted + x - psi
        x = (np.eye(n) + W(r)) / 2 @ corrected
        psi = adapted
    return x


def choco(inputs, W, rounds, lr, gamma, compress, every=1):
    """Koloskova et al. 2019, Algorithm 2, whose exchange is made in every so many rounds."""
    x = start(inputs)
    n = len(x)
    x_hat = np.zeros_like(x)
    for r in range(1, rounds + 1):
        y = np.array([x[i] - lr * gradient(inputs, i, x[i]) for i in range(n)])
        if r % every:
            x = y
            continue
        x_hat = x_hat + np.array([compress(y[i] - x_hat[i]) for i in range(n)])
        for i in range(n):
            x[i] = y[i] + gamma * sum(W(r)[i, j] * (x_hat[j] - x_hat[i]) for j in range(n))
    return x


def largest(difference: np.ndarray) -> np.ndarray:
    """Top-1."""
    kept = np.zeros_like(difference)
    k = np.argmax(np.abs(difference))
    kept[k] = difference[k]
    return kept
