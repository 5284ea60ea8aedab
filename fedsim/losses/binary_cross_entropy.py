"""Cross-entropy of samples with any number of labels."""

import jax.numpy as jnp
import numpy as np
import optax

from fedsim.compose import loss
from fedsim.types import Loss


@loss
def binary_cross_entropy() -> Loss:
    """Cross-entropy of samples with any number of labels each: a yes or no for every label.

    ℓ(z, y) = −1/L Σ_l [y_l ln σ(z_l) + (1 − y_l) ln(1 − σ(z_l))] over L labels, with the logistic
    function σ. Targets are a 0 or 1 for each label `[n, L]`, or sets of labels. Accuracy is the
    share of labels for which the sign of the output is right.

    Raises:
      ScenarioError: for other targets.

    References:
      Nam et al. 2014, Large-Scale Multi-label Text Classification: Revisiting Neural Networks,
      arXiv:1312.5419.

    >>> binary_cross_entropy()(jnp.zeros((1, 2)), jnp.array([[0.0, 1.0]])).round(4).tolist()
    [0.6930999755859375]
    """

    def of(outputs, y):
        rows = len(y)
        logits = outputs.reshape(rows, -1)
        losses = optax.sigmoid_binary_cross_entropy(logits, y.reshape(rows, -1))
        return jnp.mean(losses, axis=1)

    return Loss(of, targets=frozenset({"sets"}), fault=_not_binary)


def _not_binary(y: np.ndarray) -> str:
    other = y[(y != 0) & (y != 1)]
    if not len(other):
        return ""
    return f"binary_cross_entropy is for a 0 or 1 of each label, and there is a target {other[0]:g}"
