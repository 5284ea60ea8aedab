"""Where a method falls apart along a numeric axis, such as the share of malicious clients."""

from collections.abc import Sequence

import numpy as np

from fedsim.study.statistics import half_width_of


def breakdown(
    values: Sequence[float],
    means: Sequence[float],
    sds: Sequence[float | None],
    seeds: Sequence[int],
    start: float,
    larger_is_better: bool,
) -> float | None:
    """The break-down point of a method: the first value of an axis from which on less than half of its gain is left.

    The gain at a value is the mean score less that of the untrained model. The axis is walked from that of its two ends
    where the gain is larger, g; the break-down point is the first value at which, and at all values beyond, the gain is
    below g/2, half-way down to the untrained model. It is one of the values that were tried: the true one lies between it
    and the value before. None where no value is like that, or where g itself cannot be told from 0.

    Args:
      values: of the axis `[n]`, rising.
      means: of the scores there `[n]`; NaN where there are none, infinite where runs diverged.
      sds: their standard deviations `[n]`; None where they are not known.
      seeds: over which they are `[n]`.
      start: the score of the untrained model.
      larger_is_better: of the score.

    >>> breakdown([0, 0.1, 0.2, 0.3], [0.9, 0.88, 0.4, 0.1], [0.01] * 4, [5] * 4, start=0.1, larger_is_better=True)
    0.2
    """
    gains = (np.asarray(means, float) - start) * (1 if larger_is_better else -1)
    order = np.flatnonzero(~np.isnan(gains))
    if len(order) < 2:
        return None
    if gains[order[-1]] > gains[order[0]]:
        order = order[::-1]
    first = order[0]
    sd = sds[first]
    if not gains[first] > (0.0 if sd is None else half_width_of(sd, seeds[first])):
        return None
    left = gains[order] >= gains[first] / 2
    beyond = int(np.flatnonzero(left)[-1]) + 1
    return float(values[order[beyond]]) if beyond < len(order) else None
