"""Weights of classes."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from fedsim.types import Loss

BALANCED = "balanced"
BY_CLIENT = "balanced_by_client"


def as_class_weights(written: Sequence[float] | str | None) -> tuple[float, ...] | str | None:
    """Return weights as a scenario has them, as `Loss` has them."""
    return written if written is None or isinstance(written, str) else tuple(written)


def balanced_weights(counts: np.ndarray) -> tuple[float, ...]:
    """Return n / (C n_c) for the C classes that have samples, and 1 for the others.

    Args:
      counts: samples of each class `[C]`, n in all.

    >>> balanced_weights(np.array([6, 2, 0]))
    (0.6666666666666666, 2.0, 1.0)
    """
    counts = np.asarray(counts, np.float64)
    occurs = counts > 0
    share = counts.sum() / max(occurs.sum(), 1)
    return tuple(np.where(occurs, share / np.where(occurs, counts, 1), 1.0).tolist())


def weighted(loss: Loss, weights: Sequence[float]) -> Loss:
    """Return a loss in which a sample, or token, counts by its class.

    Args:
      weights: of the classes `[C]`.
    """
    of_class = tuple(weights)

    def of(outputs, y):
        losses = loss.of(outputs, y)
        return jnp.asarray(of_class, losses.dtype)[y] * losses

    return loss._replace(of=of, class_weights=None)
