"""What cannot be accounted for, with the reason."""

import math

from fedsim.errors import PrivacyError
from fedsim.privacy.gaussian import require_delta
from fedsim.privacy.records import Sampling, Settings

SAMPLED = "all, poisson, uniform, separated, cyclic and cyclic_poisson"


def require_accountable(section: Settings, sampling: Sampling | None, clients: int) -> None:
    """Refuse numbers that mean nothing, and mechanisms that a sampler gives no guarantee for.

    Raises:
      PrivacyError: naming the key and the remedy.
    """
    require_numbers(section)
    if sampling is None:
        text = f"draws clients in a way that no accountant knows; cohorts that do: {SAMPLED}"
        raise PrivacyError("cohort", text)
    if clients < 1:
        raise PrivacyError("clients", f"expected an integer >= 1, found {clients}")
    if sampling.kind == "uniform" and section.accountant == "pld":
        text = (
            "pld knows no samples of fixed size, as uniform draws them; write accountant: rdp, or "
            "cohort: poisson"
        )
        raise PrivacyError("accountant", text)


def require_numbers(section: Settings) -> None:
    """Refuse numbers of the section that mean nothing.

    Raises:
      PrivacyError: naming the key and the remedy.
    """
    z, epsilon = section.noise_multiplier, section.epsilon
    if z is None and epsilon is None:
        text = "nothing says how much noise; write noise_multiplier (z) or epsilon, which z is solved for"
        raise PrivacyError("noise_multiplier", text)
    if z is not None and epsilon is not None:
        text = "epsilon is given as well, and decides it; remove one of them"
        raise PrivacyError("noise_multiplier", text)
    if z is not None and not 0 <= z < math.inf:
        raise PrivacyError("noise_multiplier", f"expected a finite number >= 0, found {z:g}")
    if epsilon is not None and not 0 < epsilon < math.inf:
        raise PrivacyError("epsilon", f"expected a finite number > 0, found {epsilon:g}")
    require_delta(section.delta)
    for order in section.orders or ():
        if not 1 < order < math.inf:
            text = f"orders of Rényi divergences are above 1, found {order:g}; orders: null has good ones"
            raise PrivacyError("orders", text)
