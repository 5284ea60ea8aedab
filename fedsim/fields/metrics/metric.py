"""What a metric is, and the decorator of the kinds of `evaluate.metrics`."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fedsim.fields.metrics.samples import Samples
from fedsim.kinds import register

DATA = ["outputs", "targets", "weights"]
Measure = Callable[[np.ndarray, np.ndarray, np.ndarray | None], float]


def average_of(average: str | None, positive: int | str | None, classes: int) -> str:
    """Return the average that is meant where none is given."""
    if average is None:
        return "binary" if classes == 2 or positive is not None else "macro"
    return average


class Metric(NamedTuple):
    """A score of outputs.

    Attributes:
      of: samples -> the score, None where there is none.
      targets: what it is for: `classes`, `numbers`, `times` of events, or `any`.
      positive: the class that it is about, by name or number; None: not given.
      average: over classes; None: not given.
      more_than: how many classes are too few.
      tokens: whether it also scores samples in which every token has a label.
      probabilities: whether it scores how large the probabilities of classes are.
    """

    of: Callable[[Samples], float | None]
    targets: str = "classes"
    positive: int | str | None = None
    average: str | None = None
    more_than: int = 1
    tokens: bool = False
    probabilities: bool = False


def metric(function: Callable[..., Any]) -> Callable[..., Metric]:
    """Decorator: your own score of a model's outputs, as a kind of `evaluate.metrics`.

    A smaller value is better where `loss` or `error` is a word of its name.

    Example::

        @fedsim.metric
        def missed_error(outputs, targets, weights, price: float = 5.0):
            missed = (targets == 1) & (outputs.argmax(axis=1) != 1)
            return price * np.average(missed, weights=weights)

    Args:
      function: `(outputs, targets, weights, hyper-parameters) -> score`, of NumPy arrays: outputs
        as the model returns them `[n, ...]`, labels or numbers `[n, ...]`, and weights `[n]` or
        None, in which case all count the same. NaN: these samples have no such score. It is called
        for every set, and for every client's samples. Or `(hyper-parameters) -> f`, and
        `f(outputs, targets, weights) -> score`.

    Returns:
      A factory, which returns what measures `(outputs, targets, weights)`.
    """
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    takes_data = [each.name for each in parameters[: len(DATA)]] == DATA
    if takes_data:
        signature = signature.replace(parameters=parameters[len(DATA) :])

    @functools.wraps(function)
    def factory(**values: Any) -> Metric:
        made = functools.partial(function, **values) if takes_data else function(**values)
        return made if isinstance(made, Metric) else _of_user(made)

    factory.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
    return register("metric", factory)


def _of_user(measure: Measure) -> Metric:
    """A metric of a user's function."""

    def of(samples: Samples) -> float:
        outputs = samples.outputs.astype(np.float64)
        return float(measure(outputs, samples.targets, samples.weights))

    return Metric(of, targets="any")
