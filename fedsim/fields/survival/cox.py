"""The partial likelihood of Cox regression."""

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedsim.compose import loss
from fedsim.fields.survival.targets import TIMES, fault_of
from fedsim.types import Loss

Ties = Literal["efron", "breslow"]


@loss
def cox(ties: Ties = "efron") -> Loss:
    """Cox regression: the model predicts the logarithm of a hazard ratio, its output o.

    −1/B Σ_{i: event} [o_i − ln Σ_{j: t_j ≥ t_i} exp(o_j)], the negative logarithm of the partial
    likelihood over the B samples of a batch. Targets are times and events `[n, 2]`: the time of the
    event (1), or until which there was none (0).

    A sample is compared with those of its batch that are still at risk, and with no other: small
    batches approximate the likelihood, and with `client.batch: full` it is that of each client. So
    FedAvg minimises the likelihood that is stratified by client, in which every client has a
    baseline hazard of its own, and not that of all samples together; `discrete_cox` separates by
    sample. No sample has a gradient of its own, as `dp_sgd` needs it. A reported loss is that of a
    whole set, or of a client's whole samples.

    Args:
      ties: events at the same time. `breslow`: each sees all others; `efron`: those of equal time
        leave the risk set by equal shares, which is closer to the exact likelihood.

    Raises:
      ScenarioError: for times that are not above 0, and events besides 0 and 1.

    References:
      Cox 1972, Regression Models and Life-Tables, doi:10.1111/j.2517-6161.1972.tb00899.x; Breslow
      1974, Covariance Analysis of Censored Survival Data, doi:10.2307/2529620; Efron 1977, The
      Efficiency of Cox's Likelihood Function for Censored Data, doi:10.1080/01621459.1977.10480613.

    >>> y = jnp.array([[1.0, 1.0], [2.0, 0.0]])
    >>> cox()(jnp.zeros((2, 1)), y).round(4).tolist()
    [0.6930999755859375, 0.0]
    """

    def of_set(outputs: np.ndarray, y: np.ndarray) -> float:
        losses = _losses(np, np.logaddexp.accumulate, _sums, outputs, y, ties)
        return float(losses.mean())

    return Loss(
        partial(_losses, jnp, lax.cumlogsumexp, jax.ops.segment_sum, ties=ties),
        targets=TIMES,
        outputs=1,
        fault=partial(fault_of, "cox"),
        of_set=of_set,
    )


def _sums(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """Sums over groups, as `jax.ops.segment_sum`."""
    return np.bincount(group, values, groups)


def _losses(xp: Any, cumulative: Any, sums: Any, outputs: Any, y: Any, ties: Ties) -> Any:
    """The part of every sample in −ln of the partial likelihood `[B]`.

    Of events at the same time, Efron's parts depend on the order of rows; their sum does not.

    Args:
      xp: NumPy, or JAX's.
      cumulative: x `[B]` -> ln Σ_{j ≤ i} exp(x_j).
      sums: (values `[B]`, group of each, number of groups) -> their sums.
      outputs: of the model `[B, 1]`.
      y: times and events `[B, 2]`; a row whose time is 0 is none.
      ties: how events at the same time count.
    """
    rows = len(y)
    order = xp.argsort(-y[:, 0], stable=True)  # the longest time first, rows that are none last
    time, event = y[order].T
    absent = xp.finfo(outputs.dtype).min
    output = xp.where(time > 0, outputs.reshape(rows)[order], absent)

    # Rows of equal times are a group, all of which are at risk at its time.
    last = xp.searchsorted(-time, -time, side="right") - 1
    log_risk = cumulative(output)[last]  # ln Σ exp(o_j) over those at risk
    losses = event * (log_risk - output)

    if ties == "efron":
        first = xp.searchsorted(-time, -time, side="left")
        share_of_risk = sums(event * xp.exp(output - log_risk), last, rows)[last]
        events = xp.maximum(sums(event, last, rows)[last], 1)
        before = xp.cumsum(event) - event
        left = (before - before[first]) / events  # share of the group's events that are counted
        losses = losses + event * xp.log1p(-left * share_of_risk)
    return losses[xp.argsort(order)]
