"""Harrell's C-index: how well outputs order samples by the time of their events."""

import numpy as np

from fedsim.fields.metrics.metric import Metric, metric
from fedsim.fields.metrics.samples import Samples


@metric
def c_index() -> Metric:
    """Harrell's C: the share of comparable pairs in which the earlier event has the larger output.

    Two samples are comparable if the earlier time is that of an event, or if of two equal times one
    is. Equal outputs count half; with weights, a pair counts by their product. None where no two
    samples are comparable.

    References:
      Harrell, Califf, Pryor, Lee, Rosati 1982, Evaluating the Yield of Medical Tests,
      doi:10.1001/jama.1982.03320430047030.
    """
    return Metric(_concordance, targets="times")


def _concordance(samples: Samples) -> float | None:
    time, event = np.asarray(samples.targets, np.float64).T
    output = np.asarray(samples.outputs, np.float64).reshape(len(time))
    weights = np.ones(len(time)) if samples.weights is None else samples.weights

    # A sample is compared with an event of a smaller place; of equal times events come first.
    place = 2 * np.unique(time, return_inverse=True)[1] + (event == 0)
    of_place = np.bincount(place, weights)
    later = of_place.sum() - np.cumsum(of_place)
    events = weights * (event == 1)
    comparable = events @ later[place]
    return float(_concordant(output, place, weights, events) / comparable) if comparable else None


def _concordant(
    output: np.ndarray, place: np.ndarray, weights: np.ndarray, events: np.ndarray
) -> float:
    """Return the weight of pairs of an event and a sample of a larger place and smaller output.

    Equal outputs count half. Two places differ first, from the left, in some binary digit. So for
    each digit the samples whose places agree in all digits before it are sorted by output, and
    every event with a 0 is compared with the samples with a 1, in O(n log n).

    Args:
      output: of every sample `[n]`.
      place: whole numbers from 0 on `[n]`.
      events: the same, 0 where there is no event `[n]`.
    """
    rank = np.unique(output, return_inverse=True)[1]
    by_output = np.argsort(rank, kind="stable")
    rank, place, weights, events = (each[by_output] for each in (rank, place, weights, events))
    n = len(output)
    total = 0.0
    for digit in range(int(place.max()).bit_length()):
        before = place >> digit + 1
        group, order = np.divmod(np.sort(before * n + np.arange(n)), n)
        key = group * n + rank[order]  # rising
        is_larger = place[order] >> digit & 1 == 1
        larger = np.concatenate([[0.0], np.cumsum(weights[order] * is_larger)])
        first, behind = _ends(key)
        first_of_group, _ = _ends(group)
        agree = (larger[first] + larger[behind]) / 2 - larger[first_of_group]
        total += (events[order] * ~is_larger) @ agree
    return total


def _ends(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the run of equal values that each is in begins, and where the next one does."""
    begins = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    sizes = np.diff(begins, append=len(values))
    return np.repeat(begins, sizes), np.repeat(begins + sizes, sizes)
