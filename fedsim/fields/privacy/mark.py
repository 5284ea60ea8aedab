"""The mark of private runs."""

from collections.abc import Iterable, Mapping
from typing import Any

PRIVATE = (
    "Privacy is simulated, not for release: the noise is pseudo-random and in {dtype}, and epsilon "
    "supposes exact numbers. Scores are not part of what epsilon covers. Neighbouring data differ "
    "in {unit}."
)
CLIENT = "one client"
SAMPLE = "one sample of one client"
MESSAGE = "what one client sends in a round"

# Links that noise a client's message before it leaves.
LOCAL = ("local_gaussian", "local_laplace")


def mark(columns: Iterable[str], scenario: Mapping[str, Any]) -> str:
    """The mark of private runs; empty where no run is private."""
    units = []
    if "epsilon" in columns:
        units.append(CLIENT)
    if _has_dp_sgd(scenario):
        units.append(SAMPLE)
    if any(link["kind"] in LOCAL for link in scenario.get("wire") or []):
        units.append(MESSAGE)
    if not units:
        return ""
    return PRIVATE.format(dtype=scenario["numerics"]["dtype"], unit=", or in ".join(units))


def _has_dp_sgd(scenario: Mapping[str, Any]) -> bool:
    """Whether a scenario, or a method that it compares, has `client.dp_sgd`."""
    if scenario["client"].get("dp_sgd") is not None:
        return True
    compare = scenario.get("compare") or {}
    paths = [*(compare.get("vary") or {}), *(compare.get("tune") or {})]
    for method in compare.get("methods") or []:
        if isinstance(method, Mapping):
            paths += [*(method.get("set") or {}), *(method.get("tune") or {})]
    return any(path.startswith("client.dp_sgd") for path in paths)
