"""Running means and variances of several clients, as those of all their values together.

A weighted mean of variances leaves out how far the clients' means are apart. Second moments about
zero can be averaged: that of all values is the mean of the clients', and their variance follows.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from fedsim.tree import Tree

MOMENTS = {"mean", "var"}  # keys of a layer's statistics


def about_zero(stats: Tree) -> Tree:
    """Return statistics with E x² in place of every variance.

    >>> about_zero({"norm": {"mean": 3.0, "var": 1.0}})
    {'norm': {'mean': 3.0, 'var': 10.0}}
    """
    return _of_layers(stats, lambda mean, var: var + mean * mean)


def about_mean(stats: Tree) -> Tree:
    """Return statistics with the variance in place of every E x², at least 0.

    >>> float(about_mean({"norm": {"mean": 3.0, "var": 10.0}})["norm"]["var"])
    1.0
    """
    return _of_layers(stats, lambda mean, square: jnp.maximum(square - mean * mean, 0))


def _of_layers(stats: Any, second: Callable[[Any, Any], Any]) -> Any:
    """Return statistics in which every layer with mean and variance has another second moment."""
    if not isinstance(stats, dict):
        return stats
    if stats.keys() >= MOMENTS:
        return {**stats, "var": second(stats["mean"], stats["var"])}
    return {name: _of_layers(layer, second) for name, layer in stats.items()}
