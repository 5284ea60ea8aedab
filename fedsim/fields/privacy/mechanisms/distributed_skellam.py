"""Skellam noise in shares, behind secure aggregation."""

from typing import Annotated

from annotated_types import Ge, Le

from fedsim.fields.privacy.counting.records import Mechanism as Accounted
from fedsim.fields.privacy.mechanism import Mechanism, mechanism
from fedsim.fields.privacy.mechanisms.distributed import distributed
from fedsim.fields.privacy.mechanisms.integers import skellam


@mechanism
def distributed_skellam(
    bits: Annotated[int, Ge(2), Le(24)] = 16,
    granularity: Annotated[float, Ge(1e-8), Le(1e6)] | None = None,
    shares: Annotated[int, Ge(1)] | None = None,
    dimension: Annotated[int, Ge(1)] | None = None,
) -> Mechanism:
    """Skellam noise that clients add in shares to integers, of which the server sees the sum.

    Each client sends round(R x / γ) + Y mod 2^b, with its clipped update x, a randomised Hadamard
    rotation R that all share, rounding at random that lengthens x by a bounded amount, and Y the
    difference of two Poisson numbers with mean σ²/2, σ = zC / (γ √n) for n shares. A sum of shares
    is Skellam noise as well. Coordinates whose sum left the 2^b integers are counted as
    `distributed_skellam/wrapped`.

    ε is by Rényi divergences (`accountant: rdp`) and covers the rounding, which makes it larger
    than that of `gaussian` with the same z; behind the cohort `uniform` it is by a bound for any
    release, which may be twice that for Gaussian noise. Neighbours differ in whether a client sends
    its update or 0, with noise in either case. All clients are taken to add their noise, and the
    server to see the sum alone. A client that leaves takes its share along, so that a round with
    fewer messages than shares is skipped, as secure aggregation gives up below a threshold.

    Bits: b times the parameters, padded to a power of two.
    Cost: O(d log d) per client.
    State: none.
    Needs: the cohort all, uniform, cyclic or separated; a clip that does not adapt; no other codec,
    and no stage between the wire and the mean.

    Args:
      bits: b, of the integers.
      granularity: γ / C, the step between two values over the clip; by default 2k √(n²/d + z²) /
        √(4^b − k²n) with k = 4, so that k standard deviations of a sum do not wrap, and a client's
        noise has a std of at most 8192 steps.
      shares: n, the messages that a round needs; by default the clients of a round, and fewer where
        clients may drop out.
      dimension: d, the parameters with their padding, which the resolved scenario fills in.

    References:
      Agarwal, Kairouz, Liu 2021, The Skellam Mechanism for Differentially Private Federated
      Learning, arXiv:2110.04995.
    """
    accounted = Accounted(
        kind="distributed_skellam",
        bits=bits,
        granularity=granularity,
        shares=shares,
        dimension=dimension,
    )
    return distributed(accounted, skellam)
