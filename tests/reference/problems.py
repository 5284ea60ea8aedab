"""Small federations: least squares, softmax regression and a network, as losses of flat vectors."""

from typing import NamedTuple

import numpy as np

SIZES = (0, 4, 7, 0, 3, 9, 5, 6, 0)
"""Samples per client: the first, a middle and the last client have none."""


class Problem(NamedTuple):
    """The samples of all clients, concatenated, and the losses.

    Attributes:
      kind: `squares` (3 parameters), `softmax` (9), `features` (10).
      x: `[n, 2]`.
      y: targets or labels `[n]`.
      sizes: samples per client.
      start: the first model, flat.
    """

    kind: str
    x: np.ndarray
    y: np.ndarray
    sizes: tuple[int, ...]
    start: np.ndarray

    @property
    def able(self) -> list[int]:
        """Clients that can take part."""
        return [i for i, n in enumerate(self.sizes) if n]

    def samples(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """The samples and targets of client i."""
        ends = np.cumsum((0, *self.sizes))
        rows = slice(ends[i], ends[i + 1])
        return self.x[rows], self.y[rows]

    def labels(self, i: int) -> np.ndarray:
        """The number of samples that client i has of each class `[3]`."""
        return np.bincount(self.samples(i)[1], minlength=3)

    def outputs(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The model's outputs `[B, outputs]`; w may be complex."""
        if self.kind == "features":
            return self.features(w, x) @ w[4:].reshape(2, 3)
        columns = 1 if self.kind == "squares" else 3
        return x @ w[: 2 * columns].reshape(2, columns) + w[2 * columns :]

    def features(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The inputs of the network's last layer `[B, 2]`."""
        return x @ w[:4].reshape(2, 2)

    def cost(self, outputs: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The mean over rows of half the squared error, or of the cross entropy."""
        if self.kind == "squares":
            return 0.5 * np.mean((outputs[:, 0] - y) ** 2)
        return np.mean(np.log(np.exp(outputs).sum(1)) - outputs[np.arange(len(y)), y])

    def loss(self, i: int, w: np.ndarray) -> np.ndarray:
        """f_i(w)."""
        x, y = self.samples(i)
        return self.cost(self.outputs(w, x), y)

    def gradient(self, i: int, w: np.ndarray) -> np.ndarray:
        """∇f_i(w)."""
        return slope(lambda w: self.loss(i, w), w)


def slope(f, w: np.ndarray) -> np.ndarray:
    """∇f(w), exact to rounding, by complex steps: f(w + 1e-30 i e_d) = f(w) + 1e-30 i ∂f/∂w_d."""
    return np.array([f(w + 1e-30j * e).imag for e in np.eye(len(w))]) / 1e-30


def squares(sizes=SIZES, seed: int = 3) -> Problem:
    """Least squares whose curvature and minimum differ from client to client."""
    rng = np.random.default_rng(seed)
    x, y = [], []
    for n in filter(None, sizes):
        rows = rng.normal(size=(n, 2)) * rng.uniform(0.5, 1.5, 2) + rng.normal(size=2) / 2
        x.append(rows)
        y.append(rows @ rng.normal(size=2) + rng.normal() + rng.normal(size=n) / 2)
    return Problem(
        "squares", np.concatenate(x), np.concatenate(y), tuple(sizes), np.array([0.7, -0.4, 0.3])
    )


def softmax(sizes=SIZES, seed: int = 4, kind: str = "softmax", spread: float = 1.0) -> Problem:
    """Three classes: client k has mostly class k mod 3, and few samples of the next or none."""
    rng = np.random.default_rng(seed)
    x, y = [], []
    for k, n in enumerate(filter(None, sizes)):
        labels = (k + rng.choice(3, n, p=[0.6, 0.0 if k % 2 else 0.1, 0.4 if k % 2 else 0.3])) % 3
        x.append(
            spread * rng.normal(size=(n, 2))
            + np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])[labels]
        )
        y.append(labels)
    start = rng.normal(size=10 if kind == "features" else 9) / 2
    return Problem(kind, np.concatenate(x), np.concatenate(y), tuple(sizes), start)


def features(sizes=SIZES) -> Problem:
    """The classes for two linear layers without offsets; features are at least 1 long."""
    problem = softmax(sizes, kind="features", spread=0.3)
    return problem._replace(x=6 * problem.x, start=problem.start / np.repeat([1, 6], [4, 6]))


PROBLEMS = {"squares": squares, "softmax": softmax, "features": features}
