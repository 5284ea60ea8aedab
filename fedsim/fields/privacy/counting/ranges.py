"""Numbers of privacy outside the ranges of `fedsim.limits` are refused."""

from typing import Any, get_args

from fedsim.errors import PrivacyError
from fedsim.limits import LEAST_NOISE, MOST_NOISE, Delta, Epsilon


def require_epsilon(epsilon: float) -> None:
    """Refuse an ε that means nothing.

    Raises:
      PrivacyError: naming `epsilon`.
    """
    _require_within("epsilon", epsilon, Epsilon)


def require_delta(delta: float) -> None:
    """Refuse a δ that means nothing.

    Raises:
      PrivacyError: naming `delta`.
    """
    _require_within("delta", delta, Delta, "; below 1/clients is usual, as 1e-5")


def require_noise(noise_multiplier: float) -> None:
    """Refuse a noise multiplier that means nothing.

    Raises:
      PrivacyError: naming `noise_multiplier`.
    """
    if noise_multiplier == 0 or LEAST_NOISE <= noise_multiplier <= MOST_NOISE:
        return
    text = f"expected 0, or a number from {LEAST_NOISE:g} to {MOST_NOISE:g}"
    raise PrivacyError("noise_multiplier", f"{text}; found {noise_multiplier:g}")


def _require_within(key: str, value: float, bounds: Any, advice: str = "") -> None:
    """Refuse a number outside the bounds of an annotation."""
    _, lower, upper = get_args(bounds)
    if not lower.ge <= value <= upper.le:
        text = f"expected a number from {lower.ge:g} to {upper.le:g}, found {value:g}"
        raise PrivacyError(key, text + advice)
