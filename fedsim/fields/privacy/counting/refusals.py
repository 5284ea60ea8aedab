"""What cannot be accounted for, with the reason and the remedy."""

from typing import TYPE_CHECKING

from fedsim.errors import PrivacyError
from fedsim.fields.privacy.counting.distributed import require_distributed
from fedsim.fields.privacy.counting.records import DISTRIBUTED, Mechanism
from fedsim.fields.privacy.counting.strategies import bands_of
from fedsim.fleet.sampling import Sampling
from fedsim.limits import LEAST_NOISE, MOST_NOISE

if TYPE_CHECKING:  # keys need the scenario, which needs the mechanisms
    from fedsim.fields.privacy.keys import Privacy

SAMPLERS = "all, poisson, uniform, separated, cyclic or cyclic_poisson"
RESTED = "the cohort all, cyclic or separated"  # behind which a client's rounds are known


def require_accountable(section: "Privacy", sampling: Sampling | None) -> None:
    """Refuse what the keys of a section do not: what its numbers and its cohort do not allow.

    Raises:
      PrivacyError: naming the key and the remedy.
    """
    if section.noise_multiplier is not None:
        require_noise(section.noise_multiplier)
    if section.mechanism.kind == "blt":
        _require_pairs(section.mechanism)
    if sampling is None:
        text = "no accountant knows how it draws clients"
        raise PrivacyError("cohort", f"{text}; use {SAMPLERS}")
    require_distributed(section, sampling)
    if sampling.kind == "uniform" and section.accountant == "pld":
        text = "pld knows no samples of a fixed size, as uniform draws them"
        raise PrivacyError("accountant", f"{text}; write rdp, or the cohort poisson")
    _require_independent_noise(section.mechanism, sampling)


def require_noise(noise_multiplier: float) -> None:
    """Refuse a noise multiplier that means nothing."""
    if noise_multiplier == 0 or LEAST_NOISE <= noise_multiplier <= MOST_NOISE:
        return
    text = f"expected 0, or a number from {LEAST_NOISE:g} to {MOST_NOISE:g}"
    raise PrivacyError("noise_multiplier", f"{text}; found {noise_multiplier:g}")


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
