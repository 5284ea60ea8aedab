"""What a scenario measures: the scores of samples by all of its metrics."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsim.assemble.links import factory_of
from fedsim.engine.scoring.rows import Measures
from fedsim.fields.metrics.metric import Metric
from fedsim.fields.metrics.samples import Samples
from fedsim.sources.arrays import is_per_token


def names_of(sections: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of metrics: their kinds, with parameters where a kind is listed again."""
    kinds = [section.kind for section in sections]
    names = []
    for section in sections:
        name = section.kind
        if kinds.count(name) > 1:
            values = section.model_dump(exclude={"kind"}, exclude_defaults=True).values()
            name = "_".join([name, *map(str, values)])
        names.append(name)
    return tuple(names)


def measures_of(sections: Sequence[Any], labels: Sequence[Any]) -> Measures:
    """Return what is measured of outputs.

    Args:
      labels: names of the classes; none of numbers.
    """
    names = names_of(sections)
    metrics: list[Metric] = [factory_of(section)() for section in sections]

    def of(outputs: np.ndarray, y: np.ndarray) -> dict[str, float | None]:
        if is_per_token(y):
            outputs, y = _tokens(outputs, y)
        samples = Samples(outputs, y, names=labels)
        usable = are_usable(outputs)
        values: dict[str, float | None] = {}
        for name, metric in zip(names, metrics, strict=True):
            if not _fits(metric, samples, len(labels)):
                values[name] = None
            else:
                values[name] = score(metric, samples) if usable else np.nan
        return values

    return Measures(names, of)


def _tokens(outputs: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The outputs `[n, C]` and labels `[n]` of all tokens that have a label."""
    has_label = y >= 0
    return outputs[has_label], y[has_label]


def _fits(metric: Metric, samples: Samples, classes: int) -> bool:
    """Whether a user's loss takes outputs of the size that a metric takes."""
    if metric.targets == "numbers":
        return samples.outputs.size == samples.targets.size
    if metric.targets == "times":
        return samples.targets.shape[1:] == (2,) and samples.outputs.size == len(samples.targets)
    return metric.targets == "any" or samples.classes == classes


def are_usable(outputs: np.ndarray) -> bool:
    """Return whether outputs can be scored: none is NaN or +∞."""
    return bool((outputs < np.inf).all())


def score(metric: Metric, samples: Samples) -> float | None:
    """Return a score of samples; None where there is none."""
    weights = samples.weights
    if not len(samples.targets) or (weights is not None and not weights.sum() > 0):
        return None
    value = metric.of(samples)
    return None if value is None or np.isnan(value) else float(value)
