"""Recurrent networks and the transformer in NumPy: one step, one position, one head at a time."""

import numpy as np


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def plain_lstm(p, x):
    h, c, done = *np.zeros((2, len(x[0]), len(p["b"]) // 4)), []
    for x_t in x:
        i, f, g, o = np.split(np.concatenate([x_t, h], 1) @ p["W"] + p["b"], 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        done.append(h)
    return np.stack(done)


def plain_gru(p, x):
    H = len(p["U"])
    (W_r, W_z, W_n), (U_r, U_z, U_n) = (np.split(p[name], 3, 1) for name in "WU")
    b_r, b_z, b_n, b_h = np.split(p["b"], 4)
    h, done = np.zeros((len(x[0]), H)), []
    for x_t in x:
        r, z = sigmoid(x_t @ W_r + h @ U_r + b_r), sigmoid(x_t @ W_z + h @ U_z + b_z)
        h = (1 - z) * np.tanh(x_t @ W_n + b_n + r * (h @ U_n + b_h)) + z * h
        done.append(h)
    return np.stack(done)


def plain_recurrent(layer, params, x):
    h = params["embedding"]["W"][x.T] if "embedding" in params else x.swapaxes(0, 1)
    for name in ("layer0", "layer1"):
        h = layer(params[name], h)
    return h.swapaxes(0, 1) @ params["last"]["W"] + params["last"]["b"]


def norm(p, x):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * p["scale"] + p["shift"]


def plain_transformer(params, x, causal, heads=2):
    """One sample, one position, one head at a time."""
    E, dense = params["embedding"], lambda p, h: h @ p["W"] + p["b"]
    outputs = []
    for sample in x:
        entered = E["W"][sample] if "b" not in E else dense(E, sample)
        h = [row + place for row, place in zip(entered, params["positions"]["W"], strict=True)]
        for i in range(2):
            p = {
                name: params[f"block{i}_{name}"]
                for name in ("attention", "mixed", "wide", "narrow", "norm0", "norm1")
            }
            Q, K, V = np.split(
                np.stack([dense(p["attention"], norm(p["norm0"], row)) for row in h]), 3, 1
            )
            d, after = len(h[0]) // heads, []
            for t in range(len(h)):
                seen, parts = (t + 1 if causal else len(h)), []
                for part in (slice(k * d, (k + 1) * d) for k in range(heads)):
                    weight = np.exp(K[:seen, part] @ Q[t, part] / np.sqrt(d))
                    parts.append(weight @ V[:seen, part] / weight.sum())
                row = h[t] + dense(p["mixed"], np.concatenate(parts))
                z = dense(p["wide"], norm(p["norm1"], row))
                gelu = z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
                after.append(row + dense(p["narrow"], gelu))
            h = after
        outputs.append([dense(params["last"], norm(params["norm"], row)) for row in h])
    return np.asarray(outputs)
