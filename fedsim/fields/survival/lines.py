"""Kaplan-Meier curves as steps, from the rows of `survival.csv`."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.report.series import by_variant

TITLE = "Survival of each client's training samples"
AXIS = "time"
MOST = 60  # clients that are drawn


class Steps(NamedTuple):
    """The curve of a client, from time 0 and survival 1 on.

    Attributes:
      time: `[2 T + 1]`.
      survival: `[2 T + 1]`.
      median: the first time by which half have had an event; None: fewer have.
    """

    client: str
    time: np.ndarray
    survival: np.ndarray
    samples: int
    events: int
    median: float | None


def steps_of(table: pd.DataFrame) -> list[Steps]:
    """Return the curves of the first method, variation and seed, those of most samples first."""
    first = next(iter(by_variant(table).values()))
    for name in ("method", "seed"):
        first = pd.DataFrame(first[first[name] == first[name].iloc[0]])
    curves = [_steps(str(client), rows) for client, rows in first.groupby("client", sort=False)]
    return sorted(curves, key=lambda curve: -curve.samples)[:MOST]


def _steps(client: str, rows: pd.DataFrame) -> Steps:
    time = np.asarray(rows["time"], float)
    survival = np.asarray(rows["survival"], float)
    before = np.array([1.0, *survival[:-1]])
    past_half = np.flatnonzero(survival <= 0.5)
    return Steps(
        client=client,
        time=np.array([0.0, *np.repeat(time, 2)]),
        survival=np.array([1.0, *np.stack([before, survival], axis=1).ravel()]),
        samples=int(np.asarray(rows["at_risk"])[0]),
        events=int(np.asarray(rows["events"]).sum()),
        median=float(time[past_half[0]]) if len(past_half) else None,
    )
