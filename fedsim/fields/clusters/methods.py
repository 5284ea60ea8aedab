"""Methods with several models at the server."""

from typing import Annotated, Any, Literal

from annotated_types import Ge

from fedsim.kinds import register
from fedsim.scenario.methods import SAMPLES, UNIFORM, composed


def ifca(
    clusters: Annotated[int, Ge(1)] = 2, averaging: Literal["models", "gradients"] = "models"
) -> dict[str, Any]:
    """Clients that train the one of several models that suits them best, and a mean for each model.

    Args:
      clusters: k, the number of models.
      averaging: what is averaged: models after local steps, or gradients.
    """
    client = {"kind": "ifca", "clusters": clusters, "averaging": averaging}
    return {"client": client, "server": [SAMPLES if averaging == "models" else UNIFORM]}


register("method", ifca)


@composed(SAMPLES, client="hypcluster")
def hypcluster() -> None:
    """Clients that train the one of several hypotheses that suits them best; a mean for each."""


@composed(SAMPLES, client="cfl")
def cfl() -> None:
    """Clients that the server splits by the angles of their updates; a mean for each cluster."""


@composed(SAMPLES, client="fedgroup")
def fedgroup() -> None:
    """Groups of clients by the directions of their first updates; a mean for each group."""


@composed(SAMPLES, client="flexcfl")
def flexcfl() -> None:
    """Groups of clients, which move when their data change; a mean for each group."""
