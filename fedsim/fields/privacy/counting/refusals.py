"""What cannot be accounted for, with the reason and the remedy."""

import math

from fedsim.errors import PrivacyError
from fedsim.fields.privacy.counting.distributed import require_distributed
from fedsim.fields.privacy.counting.ranges import require_delta, require_epsilon, require_noise
from fedsim.fields.privacy.counting.records import DISTRIBUTED, Mechanism, Settings
from fedsim.fields.privacy.counting.strategies import MAX_BUFFERS, bands_of
from fedsim.fleet.sampling import Sampling

SAMPLERS = "all, poisson, uniform, separated, cyclic or cyclic_poisson"
RESTED = "the cohort all, cyclic or separated"  # behind which a client's rounds are known


def require_accountable(section: Settings, sampling: Sampling | None, clients: int) -> None:
    """Refuse numbers that mean nothing, and mechanisms that a cohort gives no guarantee for.

    Raises:
      PrivacyError: naming the key and the remedy.
    """
    require_numbers(section)
    _require_parameters(section.mechanism)
    if sampling is None:
        text = "no accountant knows how it draws clients"
        raise PrivacyError("cohort", f"{text}; use {SAMPLERS}")
    if clients < 1:
        raise PrivacyError("clients", f"expected an integer of at least 1, found {clients}")
    require_distributed(section, sampling)
    if sampling.kind == "uniform" and section.accountant == "pld":
        text = "pld knows no samples of a fixed size, as uniform draws them"
        raise PrivacyError("accountant", f"{text}; write rdp, or the cohort poisson")
    _require_independent_noise(section.mechanism, sampling)


def require_numbers(section: Settings) -> None:
    """Refuse numbers of the section that mean nothing.

    Raises:
      PrivacyError: naming the key and the remedy.
    """
    z = section.noise_multiplier
    epsilon = section.epsilon
    if z is None and epsilon is None:
        text = "is needed, or an epsilon that it is solved for; write one of them"
        raise PrivacyError("noise_multiplier", text)
    if z is not None and epsilon is not None:
        text = "is given, and epsilon, which decides it, is given as well; remove one of them"
        raise PrivacyError("noise_multiplier", text)
    if z is not None:
        require_noise(z)
    if epsilon is not None:
        require_epsilon(epsilon)
    require_delta(section.delta)
    for order in section.orders or ():
        if not 1 < order < math.inf:
            text = f"orders of Rényi divergences are above 1, found {order:g}"
            raise PrivacyError("orders", f"{text}; null stands for those that are usual")


def _require_parameters(mechanism: Mechanism) -> None:
    if mechanism.kind == "tree" and mechanism.restart is not None and mechanism.restart < 1:
        text = f"expected an integer of at least 1, found {mechanism.restart}"
        raise PrivacyError("mechanism.restart", f"{text}; null is one tree for all rounds")
    if mechanism.kind == "banded" and mechanism.bands < 1:
        text = f"expected an integer of at least 1, found {mechanism.bands}"
        raise PrivacyError("mechanism.bands", text)
    if mechanism.kind == "blt" and not 1 <= mechanism.buffers <= MAX_BUFFERS:
        text = f"expected an integer from 1 to {MAX_BUFFERS}, found {mechanism.buffers}"
        raise PrivacyError("mechanism.buffers", text)
    if mechanism.kind == "blt":
        _require_pairs(mechanism)


def _require_pairs(mechanism: Mechanism) -> None:
    """Refuse a decay without a scale, or another number of them than of buffers."""
    for name, other in (("decay", "scale"), ("scale", "decay")):
        values = getattr(mechanism, name)
        if values is None and getattr(mechanism, other) is not None:
            raise PrivacyError(f"mechanism.{other}", f"needs {name} as well; or remove it")
        if values is not None and len(values) != mechanism.buffers:
            text = f"has {len(values)} numbers for {mechanism.buffers} buffers; write as many"
            raise PrivacyError(f"mechanism.{name}", f"{text}, or remove decay and scale")


def _require_independent_noise(mechanism: Mechanism, sampling: Sampling) -> None:
    """Refuse noise that is correlated over rounds that a client may be drawn in by chance."""
    kind = mechanism.kind
    if kind in ("gaussian", *DISTRIBUTED) or sampling.kind in ("all", "separated", "cyclic"):
        return
    if sampling.kind == "cyclic_poisson" and kind == "banded":
        if mechanism.bands <= sampling.groups:
            return
        text = (
            f"a client may come again after {sampling.groups} rounds, while its noise is still in "
            f"use for {mechanism.bands}"
        )
        remedy = f"write at most {sampling.groups}, or cohort.groups of at least {mechanism.bands}"
        raise PrivacyError("mechanism.bands", f"{text}; {remedy}")
    if kind == "banded" and bands_of(mechanism) == 1:
        return
    reason = f"{kind} correlates the noise of rounds that {sampling.kind} may draw a client in"
    others = RESTED if kind != "banded" else f"{RESTED}, or cyclic_poisson"
    text = f"{reason}, and no accountant knows how much that spends"
    raise PrivacyError("mechanism", f"{text}; use {others}, or the mechanism gaussian")
