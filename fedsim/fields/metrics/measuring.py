"""`fedsim.measure`: a metric on arrays."""

import math
from typing import Annotated, Any

import numpy as np

from fedsim.assemble.links import factory_of
from fedsim.assemble.stack_inputs import argument_error, checked
from fedsim.errors import dotted
from fedsim.fields.metrics.checks import of_classes
from fedsim.fields.metrics.keys import KINDS
from fedsim.fields.metrics.measured import are_usable, score
from fedsim.fields.metrics.metric import Metric
from fedsim.fields.metrics.samples import Samples

COMMAND = "measure"
ANNOTATION = Annotated[Any, KINDS]


def measure(metric: Any, targets: Any, outputs: Any, weights: Any = None) -> float:
    """Compute a metric on arrays, as a run with `evaluate.metrics` does.

    Args:
      metric: an entry of `evaluate.metrics`: a kind, `"f1(average=macro)"`, or a mapping.
      targets: the classes `[n]`, integers from 0 on, or numbers `[n]` or `[n, d]`,
        or times and events `[n, 2]`.
      outputs: of classes the logits `[n, C]`, or `[n]` that of class 1 of two; or numbers, as many
        as targets.
      weights: how much each sample counts `[n]`; None: all the same.

    Returns:
      The metric; NaN where these samples have no such score.

    Raises:
      ScenarioError: for a metric that there is not, or arrays that do not fit it.

    >>> measure("auc", [0, 1, 1, 0], [-1.0, 2.0, 0.5, 0.5])
    0.875
    """
    section = checked(COMMAND, "metric", metric, ANNOTATION)
    made: Metric = factory_of(section)()
    samples = Samples(_array("outputs", outputs), _array("targets", targets))
    if weights is not None:
        samples.weights = _weights(weights, len(samples.targets))
    _require_fit(made, samples)
    if not len(samples.targets):
        return math.nan
    if made.targets == "classes":
        for key, text in of_classes(section.kind, made, list(range(samples.classes))):
            raise argument_error(COMMAND, dotted(("metric", *key)), text)
    value = score(made, samples) if are_usable(samples.outputs) else None
    return math.nan if value is None else value


def _array(argument: str, values: Any) -> np.ndarray:
    """An argument as an array of numbers."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64 if argument == "targets" else np.float64)
    if array.dtype.kind not in "biuf" or not array.ndim:
        raise argument_error(COMMAND, argument, "should be an array of numbers")
    return array


def _weights(weights: Any, n: int) -> np.ndarray:
    array = _array("weights", weights).astype(np.float64)
    if array.shape != (n,):
        text = f"{n} samples need {n} weights, found shape {list(array.shape)}"
        raise argument_error(COMMAND, "weights", text)
    if not (np.isfinite(array) & (array >= 0)).all():
        raise argument_error(COMMAND, "weights", "should be finite and not negative")
    return array


def _require_fit(metric: Metric, samples: Samples) -> None:
    """Refuse targets and outputs that do not fit each other, or the metric."""
    targets = samples.targets
    outputs = samples.outputs
    shapes = f"targets {list(targets.shape)} and outputs {list(outputs.shape)}"
    if len(targets) != len(outputs):
        raise argument_error(COMMAND, "outputs", f"{shapes} are of different numbers of samples")
    if metric.targets == "numbers" and targets.size != outputs.size:
        raise argument_error(COMMAND, "outputs", f"{shapes} are of different numbers of targets")
    if metric.targets == "times":
        if targets.shape[1:] != (2,) or outputs.size != len(targets):
            text = f"{shapes}; write times and events [n, 2] and outputs [n]"
            raise argument_error(COMMAND, "targets", text)
    if metric.targets != "classes" or not len(targets):
        return
    if targets.ndim != 1 or outputs.ndim > 2:
        raise argument_error(COMMAND, "targets", f"{shapes}; write classes [n] and logits [n, C]")
    if (targets != targets.astype(np.int64)).any():
        raise argument_error(COMMAND, "targets", "should be classes, integers from 0 on")
    samples.targets = targets.astype(np.int64)
    if targets.min() < 0 or targets.max() >= samples.classes:
        text = f"should be classes from 0 to {samples.classes - 1}, as there are logits"
        raise argument_error(COMMAND, "targets", text)
