"""Kaplan-Meier curves of the clients: the table `survival.csv`."""

from typing import Any

import numpy as np

from fedsim.disk.tables import MAX_LISTED_CLIENTS, Record
from fedsim.engine.run import Run
from fedsim.fields.survival.targets import TIMES


def tables(run: Run, spec: Any) -> dict[str, Record]:
    """Return the survival of every client's training samples, where targets are times."""
    del spec
    federation = run.plan.federation.unpooled
    if run.program.task.loss.targets != TIMES or federation.N > MAX_LISTED_CLIENTS:
        return {}
    columns: Record = {name: [] for name in ("client", "time", "at_risk", "events", "survival")}
    holders = federation.holders
    names = federation.client_names.tolist()
    for client in np.unique(holders.owner).tolist():
        rows = holders.indices[holders.offsets[client] : holders.offsets[client + 1]]
        y = federation.train.y[rows]
        curve = kaplan_meier(np.asarray(y, np.float64))
        columns["client"] += [names[client]] * len(curve["time"])
        for name, values in curve.items():
            columns[name] += values.tolist()
    return {"survival": columns}


def kaplan_meier(y: np.ndarray) -> dict[str, np.ndarray]:
    """Return the Kaplan-Meier estimate at each time that occurs: `time`, `at_risk` ... `[T]`.

    Args:
      y: times and events `[n, 2]`.

    References:
      Kaplan, Meier 1958, Nonparametric Estimation from Incomplete Observations,
      doi:10.1080/01621459.1958.10501452.

    >>> curve = kaplan_meier(np.array([[1.0, 1.0], [2.0, 0.0], [3.0, 1.0], [3.0, 1.0]]))
    >>> curve["survival"].tolist()
    [0.75, 0.75, 0.0]
    """
    times, position = np.unique(y[:, 0], return_inverse=True)
    events = np.bincount(position, y[:, 1], len(times)).astype(np.int64)
    leaving = np.bincount(position, minlength=len(times))
    at_risk = len(y) - (np.cumsum(leaving) - leaving)
    survival = np.cumprod(1 - events / at_risk)
    return {"time": times, "at_risk": at_risk, "events": events, "survival": survival}
