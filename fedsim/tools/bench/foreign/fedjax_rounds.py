"""Rounds of federated averaging by FedJAX: one client after another, each step under `jit`.

`fedsim doctor --bench SCENARIO --peers` writes what to train on, and runs this file. It needs
only fedjax.
(FedJAX's other backend, `pmap`, calls a function that JAX 0.10 no longer has.)

    python fedjax_rounds.py ROUNDS.npz jit
"""

import json
import sys
import time

import fedjax
import jax
import jax.numpy as jnp
import numpy as np


def logits(params: dict, x: jax.Array) -> jax.Array:
    """The network whose parameters these are, by their names: x [B, ...] -> [B, classes]."""
    if "W" in params:
        return x @ params["W"] + params["b"]
    if "conv0/W" in params:
        x = convolution(params, "conv1", convolution(params, "conv0", x))
        hidden = jax.nn.relu(dense(params, "hidden", x.reshape(len(x), -1)))
        return dense(params, "last", hidden)

    names = sorted({name.split("/")[0] for name in params})
    for name in names[:-1]:
        x = jax.nn.relu(dense(params, name, x))
    return dense(params, names[-1], x)


def dense(params: dict, name: str, x: jax.Array) -> jax.Array:
    return x @ params[f"{name}/W"] + params[f"{name}/b"]


def convolution(params: dict, name: str, x: jax.Array) -> jax.Array:
    x = jax.lax.conv_general_dilated(
        x, params[f"{name}/W"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    x = x + params[f"{name}/b"]
    pooled = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jax.nn.relu(pooled)


def loss(params: dict, batch: dict) -> jax.Array:
    """Mean cross-entropy of a batch; rows beyond a client's last sample have weight 0."""
    chosen = jax.nn.log_softmax(logits(params, batch["x"]))
    each = -jnp.take_along_axis(chosen, batch["y"][:, None], axis=1)[:, 0]
    return (each * batch["weight"]).sum() / batch["weight"].sum()


def batches_of(client: int, index: np.ndarray, valid: np.ndarray, x, y) -> list[dict]:
    """The batches of one client: `index` [K, T, B] rows of the samples, `valid` [K, T] of B."""
    batches = []
    for rows, count in zip(index[client], valid[client], strict=True):
        if count:
            weight = (np.arange(len(rows)) < count).astype(np.float32)
            batches.append({"x": x[rows], "y": y[rows], "weight": weight})
    return batches


def play(path: str) -> tuple[list[float], float]:
    """-> (seconds of every round, the last accuracy)."""
    arrays = dict(np.load(path))
    x, y = arrays["x"], arrays["y"].astype(np.int32)
    x_test, y_test = arrays["x_test"], arrays["y_test"].astype(np.int32)
    if "params/conv0/W" not in arrays:
        x = x.reshape(len(x), -1)
        x_test = x_test.reshape(len(x_test), -1)
    x_test, y_test = jnp.asarray(x_test), jnp.asarray(y_test)
    params = {
        name.removeprefix("params/"): jnp.asarray(value)
        for name, value in arrays.items()
        if name.startswith("params/")
    }
    lr = float(arrays["lr"])

    def client_init(shared, _):
        return shared

    def client_step(state, batch):
        gradient = jax.grad(loss)(state, batch)
        return jax.tree.map(lambda p, g: p - lr * g, state, gradient)

    train = fedjax.for_each_client(client_init, client_step)
    add = jax.jit(lambda total, model, w: jax.tree.map(lambda t, m: t + w * m, total, model))

    @jax.jit
    def accuracy(params):
        parts = [
            logits(params, part) for part in jnp.array_split(x_test, max(1, len(x_test) // 500))
        ]
        return (jnp.concatenate(parts).argmax(1) == y_test).mean()

    seconds = []
    score = 0.0
    for index, valid, weight in zip(
        arrays["index"], arrays["valid"], arrays["weight"], strict=True
    ):
        begin = time.perf_counter()
        clients = [
            (str(k).encode(), batches_of(k, index, valid, x, y), k) for k in range(len(index))
        ]
        total = jax.tree.map(jnp.zeros_like, params)
        for client, model in train(params, clients):
            share = weight[int(client)] / weight.sum()
            total = add(total, model, share)
        params = total
        score = float(accuracy(params))
        seconds.append(time.perf_counter() - begin)
    return seconds, score


if __name__ == "__main__":
    fedjax.set_for_each_client_backend(sys.argv[2])
    seconds, score = play(sys.argv[1])
    print(json.dumps({"seconds": seconds, "accuracy": score}))
