"""Staleness: an update counts less, the older the model that it started from."""

from collections.abc import Callable
from typing import Any, Literal

Staleness = Literal["polynomial", "constant", "hinge"]


def staleness_factor(
    kind: Staleness, exponent: float, slope: float, threshold: int
) -> Callable[[Any], Any]:
    """Return s(τ), for ages τ that are a NumPy or JAX array of server steps.

    `polynomial`: (1 + τ)^−exponent; `constant`: 1; `hinge`: 1 if τ ≤ threshold, else
    1 / (slope (τ − threshold) + 1).

    >>> [round(staleness_factor("hinge", 0.5, 10.0, 4)(age), 4) for age in (0, 4, 5)]
    [1.0, 1.0, 0.0909]
    """
    if kind == "polynomial":
        return lambda age: (1.0 + age) ** -exponent
    if kind == "hinge":
        # Up to the threshold, the comparison makes this 1 / (a · 0 + 1) = 1.
        return lambda age: 1.0 / (slope * (age - threshold) * (age > threshold) + 1.0)
    return lambda age: 1.0 + 0.0 * age
