"""What the factory of an attack on data returns."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np


class Poison(NamedTuple):
    """How the attacker changes the training samples of each client that it controls.

    Features are floats as a model sees them. Where samples are stored as bytes, they are rounded to
    bytes again; samples that do not change keep their bits.

    Attributes:
      samples: `(x [n, ...], y [n], classes, place, rng) -> (x, y)` of the same shapes, for the
        samples of ONE client; `place` is the client's number among the malicious clients with
        samples, from 0.
      features: what happens to features. If the attack `ignores` them, x is None; if it `reads`
        them, the returned x is not used.
      target: the class for which the model is to take triggered samples.
      trigger: `x [n, ...] -> x`: test samples with the trigger; with a target.
      among: `(x [n, ...], y [n]) -> mask [n]`: the test samples that success is scored on; left
        out: all whose label is not the target.
      refusal: `(shape of a sample, classes) -> text`: why the attack is impossible, and what to do;
        empty if it is possible.
    """

    samples: Callable[
        [np.ndarray, np.ndarray, int, int, np.random.Generator], tuple[np.ndarray, np.ndarray]
    ]
    features: Literal["ignores", "reads", "changes"] = "changes"
    target: int | None = None
    trigger: Callable[[np.ndarray], np.ndarray] | None = None
    among: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    refusal: Callable[[tuple[int, ...], int], str] = lambda shape, classes: ""
