"""Harrell's C-index: how well outputs order samples by the time of their events."""

import numpy as np

from fedsim.fields.metrics.metric import Metric, metric
from fedsim.fields.metrics.samples import Samples

MAX_PAIRS = 10_000_000  # that are compared at a time


@metric
def c_index() -> Metric:
    """Harrell's C: the share of comparable pairs in which the earlier event has the larger output.

    Two samples are comparable if the earlier time is that of an event, or if of two equal times one
    is. Equal outputs count half; with weights, a pair counts by their product. None where no two
    samples are comparable. The cost is that of all pairs.

    References:
      Harrell, Califf, Pryor, Lee, Rosati 1982, Evaluating the Yield of Medical Tests,
      doi:10.1001/jama.1982.03320430047030.
    """
    return Metric(_concordance, targets="times")


def _concordance(samples: Samples) -> float | None:
    time, event = np.asarray(samples.targets, np.float64).T
    output = np.asarray(samples.outputs, np.float64).reshape(len(time))
    weights = np.ones(len(time)) if samples.weights is None else samples.weights

    concordant = comparable = 0.0
    events = np.flatnonzero(event == 1)
    size = max(1, MAX_PAIRS // len(time))
    for start in range(0, len(events), size):
        rows = events[start : start + size, None]
        later = (time > time[rows]) | ((time == time[rows]) & (event == 0))
        agree = (output < output[rows]) + 0.5 * (output == output[rows])
        pairs = later * weights * weights[rows]
        comparable += pairs.sum()
        concordant += (pairs * agree).sum()
    return concordant / comparable if comparable else None
