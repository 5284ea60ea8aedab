"""Cox regression in discrete time, whose loss is a mean over samples."""

import functools
from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt, MinLen

from fedsim.compose import loss
from fedsim.compose.shapes import ContractError
from fedsim.fields.survival.targets import TIMES, fault_of
from fedsim.types import Loss, Model

BASELINE = "baseline"  # the leaf that is added to a model
MAX_CACHED = 64
Time = Annotated[float, Gt(0)]


@loss
def discrete_cox(
    bins: Annotated[int, Ge(2)] | Annotated[list[Time], MinLen(1)] = 10,
) -> Loss:
    """Cox regression in discrete time: odds of an event in each of several intervals of time.

    A sample that has had no event before interval k has one in it with the probability
    h_k = σ(α_k + o), where o is the model's output, the logarithm of an odds ratio that is the same
    in all intervals, and α_k the leaf `baseline` `[K]`, which is added to the model and trained
    with it. The loss of a sample is −Σ_j ln(1 − h_j) over the intervals that it survived, and
    −ln h_k more for an event in interval k; a censored sample has survived those that end by its
    time. Targets are as of `cox`.

    The loss of a sample does not depend on others, so that sums over batches and clients are those
    over all samples, as federated learning takes them to be. Predicted is −ln of the survival
    beyond the last interval but one, which is larger the sooner an event is expected.

    Args:
      bins: K, the number of intervals: they end at quantiles of the times of all clients' events,
        or of all times where there is no event, which leaves fewer of them where these are equal.
        Or the times at which all but the last end, which need no look at the samples.

    Raises:
      ScenarioError: for times that are not above 0, and events besides 0 and 1.

    References:
      Cox 1972, Regression Models and Life-Tables, doi:10.1111/j.2517-6161.1972.tb00899.x, section
      7; Andreux, Manoel, Menuet, Saillard, Simpson 2020, Federated Survival Analysis with
      Discrete-Time Cox Models, arXiv:2006.08997.

    >>> y = jnp.array([[1.0, 1.0], [2.0, 0.0]])
    >>> discrete_cox(bins=[1.5])(jnp.zeros((2, 2)), y).round(4).tolist()
    [0.6930999755859375, 0.6930999755859375]
    """
    if isinstance(bins, list):
        return _in_intervals(tuple(np.unique(bins).tolist()))
    unfitted = _in_intervals(tuple(range(1, bins)))
    return unfitted._replace(fitted=partial(_fitted, bins))


def _fitted(bins: int, y: np.ndarray) -> Loss:
    """The loss with intervals in which about as many events are."""
    time, event = np.asarray(y, np.float64).T
    times = time[event == 1] if (event == 1).any() else time
    shares = np.arange(1, bins) / bins
    ends = np.unique(np.quantile(times, shares, method="inverted_cdf"))
    return _in_intervals(tuple(ends.tolist()))


@functools.lru_cache(MAX_CACHED)  # so that equal ones are compiled once
def _in_intervals(ends: tuple[float, ...]) -> Loss:
    """The loss of intervals that end at these times, and of another one without an end."""

    def of(outputs, y):
        time, event = y[:, :1], y[:, 1:]
        end = jnp.asarray(ends, y.dtype)
        interval = jnp.searchsorted(end, time[:, 0], side="left")
        survived = jnp.where(event == 1, end < time, end <= time)  # [B, K - 1]
        survived = jnp.pad(survived, ((0, 0), (0, 1)))
        of_event = jax.nn.one_hot(interval, outputs.shape[1], dtype=outputs.dtype) * event
        losses = survived * jax.nn.softplus(outputs) + of_event * jax.nn.softplus(-outputs)
        return losses.sum(axis=1)

    return Loss(
        of,
        targets=TIMES,
        outputs=1,
        predicts=lambda outputs: jax.nn.softplus(outputs[:, :-1]).sum(axis=1, keepdims=True),
        fault=partial(fault_of, "discrete_cox"),
        model=partial(_with_baseline, intervals=len(ends) + 1),
    )


def _with_baseline(model: Model, intervals: int) -> Model:
    """A model of one output -> the one that returns α + o for every interval."""

    def inner(variables):
        params = {name: leaf for name, leaf in variables["params"].items() if name != BASELINE}
        return {**variables, "params": params}

    def init(key):
        variables = model.init(key)
        if not isinstance(variables["params"], dict) or BASELINE in variables["params"]:
            text = f"a dict without {BASELINE!r}, the leaf that discrete_cox adds"
            raise ContractError(f"model: parameters should be {text}")
        dtype = jnp.result_type(*jax.tree.leaves(variables["params"]))
        start = jnp.zeros(intervals, dtype)
        return {**variables, "params": {**variables["params"], BASELINE: start}}

    def apply(variables, x, **options):
        outputs, stats = model.apply(inner(variables), x, **options)
        return outputs.reshape(len(outputs), 1) + variables["params"][BASELINE], stats

    features, head = model.features, model.head
    return model._replace(
        init=init,
        apply=apply,
        features=None if features is None else lambda v, x: features(inner(v), x),
        head=None if head is None else lambda v, z: head(inner(v), z) + v["params"][BASELINE],
    )
