"""Staleness: how much less an update counts the older the model is that it started from."""

from collections.abc import Callable
from typing import Any, Literal

Staleness = Literal["polynomial", "constant", "hinge"]


def staleness_factor(
    kind: Staleness, exponent: float, slope: float, threshold: int
) -> Callable[[Any], Any]:
    """s(τ) of an age τ, a NumPy or JAX array of server steps.

    >>> [round(staleness_factor("hinge", 0.5, 10.0, 4)(age), 4) for age in (0, 4, 5)]
    [1.0, 1.0, 0.0909]
    """
    if kind == "polynomial":
        return lambda age: (1.0 + age) ** -exponent
    if kind == "hinge":  # the age beyond the threshold, 0 below it: 1 / (a · 0 + 1) = 1
        return lambda age: 1.0 / (slope * (age - threshold) * (age > threshold) + 1.0)
    return lambda age: 1.0 + 0.0 * age
