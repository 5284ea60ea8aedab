"""A lower bound on ε from canaries, beside the upper one of an accountant."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from fedsim.fields.privacy.counting.extra import imported


def auditor() -> Any:
    """Return jax-privacy's `CanaryScoreAuditor`; a `PrivacyError` where it is not installed."""
    module = imported("jax_privacy.auditing", package="jax-privacy", key="audit")
    return module.CanaryScoreAuditor


def audited_epsilon(
    scores: Float[np.ndarray, " canaries"],
    takes_part: Bool[np.ndarray, " canaries"],
    delta: float,
    confidence: float,
) -> float | None:
    """Return an ε that a mechanism has at least, by what it tells of its canaries.

    Whoever takes the canaries of the highest scores for those that were in is right no more often
    than ε and δ allow. The bound holds for the canaries of one run, each of which a fair coin put
    in or left out; it is corrected for the choice of how many are guessed.

    Args:
      scores: of every canary; higher where it was more likely in.
      confidence: probability, over coins and noise, that the true ε is no smaller.

    Returns:
      ε, at least 0; None where a score is no number. Nothing is learned where no canary was in, or
      all were: 0.

    References:
      Steinke, Nasr, Jagielski 2023, Privacy Auditing with One (1) Training Run, arXiv:2305.08846,
      theorem 5.2.

    >>> takes_part = np.arange(100) < 50
    >>> scores = np.where(takes_part, 1.0, 0.0)
    >>> round(audited_epsilon(scores, takes_part, delta=1e-5, confidence=0.95), 2)
    2.46
    """
    make = auditor()
    if not np.isfinite(scores).all():
        return None
    if takes_part.all() or not takes_part.any():
        return 0.0
    canaries = make(scores[takes_part], scores[~takes_part])
    return float(canaries.epsilon_one_run(significance=1 - confidence, delta=delta))
