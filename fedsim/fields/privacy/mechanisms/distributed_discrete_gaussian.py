"""Discrete Gaussian noise in shares, behind secure aggregation."""

from typing import Annotated

from annotated_types import Ge, Le

from fedsim.fields.privacy.counting.records import Mechanism as Accounted
from fedsim.fields.privacy.mechanism import Mechanism, mechanism
from fedsim.fields.privacy.mechanisms.distributed import distributed
from fedsim.fields.privacy.mechanisms.integers import discrete_gaussian


@mechanism
def distributed_discrete_gaussian(
    bits: Annotated[int, Ge(2), Le(24)] = 16,
    granularity: Annotated[float, Ge(1e-8), Le(1e6)] | None = None,
    shares: Annotated[int, Ge(1)] | None = None,
    dimension: Annotated[int, Ge(1)] | None = None,
) -> Mechanism:
    """Discrete Gaussian noise that clients add in shares to integers; the server sees the sum.

    As `distributed_skellam`, with shares Y of probabilities proportional to exp(−k²/2σ²). A sum of
    them is not quite a discrete Gaussian, which ε covers by τ = 10 Σ_{0<k<n} exp(−2π²σ² k/(k + 1));
    σ is at least ½.

    Bits: b times the parameters, padded to a power of two.
    Cost: O(d log d) per client.
    State: none.
    Needs: as `distributed_skellam`.

    Args:
      bits: b, of the integers.
      granularity: γ / C, the step between two values over the clip; by default as in
        `distributed_skellam`.
      shares: n, the messages that a round needs; by default the clients of a round.
      dimension: d, the parameters with their padding, which the resolved scenario fills in.

    References:
      Kairouz, Liu, Steinke 2021, The Distributed Discrete Gaussian Mechanism for Federated Learning
      with Secure Aggregation, arXiv:2102.06387, Algorithms 1 and 2.
    """
    accounted = Accounted(
        kind="distributed_discrete_gaussian",
        bits=bits,
        granularity=granularity,
        shares=shares,
        dimension=dimension,
    )
    return distributed(accounted, discrete_gaussian)
