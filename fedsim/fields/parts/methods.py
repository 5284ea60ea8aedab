"""Methods whose clients train parts of the model."""

from typing import Annotated, Any

from annotated_types import Gt, Le, MinLen

from fedsim.kinds import register
from fedsim.scenario.methods import SAMPLES

# Shares of the units of a layer, from the largest client to the smallest.
Share = Annotated[float, Gt(0), Le(1)]
WIDTHS = [1.0, 0.5, 0.25]


def heterofl(widths: Annotated[list[Share], MinLen(1)] = WIDTHS) -> dict[str, Any]:
    """Clients that train the first units of every layer, by their width; a mean of each number.

    It has HeteroFL's scaler and masked loss.

    Args:
      widths: shares of the units of every hidden layer; each client draws one of them for good.
    """
    width = {"window": "first", "scaler": True, "masked_loss": True}
    return _of_parts(widths, width)


def fedrolex(widths: Annotated[list[Share], MinLen(1)] = WIDTHS) -> dict[str, Any]:
    """Clients that train units of every layer which move on each round; a mean of each number.

    Args:
      widths: shares of the units of every hidden layer; each client draws one of them for good.
    """
    # All keys are written, as a run's record has them: it names the method beside them.
    return _of_parts(widths, {"window": "rolling", "scaler": False, "masked_loss": False})


def _of_parts(widths: list[float], how: dict[str, Any]) -> dict[str, Any]:
    """Return plain local training of parts of the model, of which `how` says more."""
    width = {"kind": "uniform", "widths": list(widths), **how}
    return {"client": {"kind": "sgd", "width": width}, "server": [SAMPLES]}


register("method", heterofl)
register("method", fedrolex)
