"""Cross-entropy, with weights of classes and smoothed labels."""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Lt, MinLen

from fedsim.compose import loss
from fedsim.losses.weights import as_class_weights
from fedsim.types import Loss

Weight = Annotated[float, Ge(0)]
Smoothing = Annotated[float, Ge(0), Lt(1)]


@loss
def cross_entropy(
    class_weights: Literal["balanced", "balanced_by_client"]
    | Annotated[list[Weight], MinLen(1)]
    | None = None,
    smoothing: Smoothing = 0.0,
) -> Loss:
    """Cross-entropy of classes: −ln p_y, where p is the softmax of the outputs.

    ℓ(z, y) = w_y [(1 − s) (−ln p_y) + s/C Σ_c (−ln p_c)], p = softmax(z). The loss of a batch is
    Σ_j ℓ_j / b over its b samples: weights count in the numerator alone. So the gradient of a
    sample does not depend on the others of its batch, and sums over batches and clients are those
    over samples. (PyTorch's `CrossEntropyLoss(weight=)` divides by Σ_j w_{y_j} instead.)

    Weights count in every loss that is reported, too, but those of `balanced_by_client` only in
    what clients minimise. A class without samples has the weight 1.

    Args:
      class_weights: w: a number for each class; `balanced`, n / (C n_c) with the samples n_c of
        every class among all that clients hold, test clients of a partition by ids left out,
        before skews and attacks; `balanced_by_client`, the same of each client's own samples and
        of the C classes that it has, so that a client with a single class has the weight 1. By
        default 1.
      smoothing: s, the share of a label that is spread evenly over all classes. A class whose
        output is −∞, as a method may rule it out, has none.

    References:
      Good 1952, Rational Decisions, doi:10.1111/j.2517-6161.1952.tb00104.x; Szegedy et al. 2016,
      Rethinking the Inception Architecture, arXiv:1512.00567, section 7 (smoothing); King and Zeng
      2001, Logistic Regression in Rare Events Data, doi:10.1093/oxfordjournals.pan.a004868
      (balanced weights).

    >>> cross_entropy()(jnp.array([[0.0, 0.0]]), jnp.array([1])).round(4).tolist()
    [0.6930999755859375]
    """

    def smoothed(outputs, y):
        of_labels = plain(outputs, y)
        is_possible = outputs > -jnp.inf
        mean_output = jnp.mean(outputs, axis=-1, where=is_possible)
        of_all = jax.nn.logsumexp(outputs, axis=-1) - mean_output  # mean of −ln p_c
        return (1 - smoothing) * of_labels + smoothing * of_all

    return Loss(
        smoothed if smoothing else plain,
        targets=frozenset({"classes", "tokens"}),
        probabilities=True,
        class_weights=as_class_weights(class_weights),
    )


def plain(outputs, y):
    """Return −ln softmax(outputs)[y] `[B]`, or `[B, T]` where every token has a label."""
    return optax.softmax_cross_entropy_with_integer_labels(outputs, y)
