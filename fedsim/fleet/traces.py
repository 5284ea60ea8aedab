"""Availability as it was measured: the kind `trace`."""

from typing import Annotated, Any

import numpy as np
from annotated_types import Gt
from jaxtyping import Bool

from fedsim.compose import availability
from fedsim.errors import DataError
from fedsim.fleet.availability import Availability, Moment
from fedsim.sources.files import Name
from fedsim.sources.traces import trace_of


@availability
def trace(
    path: Name, period: Annotated[float, Gt(0)] | None = None, sha256: str | None = None
) -> Availability:
    """Clients can be reached when a trace of devices says so: a CSV with the columns `client, start, end`.

    Each row is a time, in seconds of the virtual clock, from `start` on and before `end`, in which a device can be reached;
    a device may have many. The trace begins again when its period is over. Client k is the device with the k-th smallest
    id (numbers as numbers); clients beyond the last device begin again with the first. Nothing is drawn.

    Cost: one pass over the rows in a round.

    Args:
      path: of the file, plain or gzipped, from the scenario's folder, the working directory or a `--data-root`; elsewhere
        none is read.
      period: seconds after which the trace begins again; left out: its last end.
      sha256: of the file; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: for a file that is not such a trace, naming file and lines.

    References:
      Lai et al. 2022, FedScale: Benchmarking Model and System Performance of Federated Learning at Scale,
      arXiv:2105.11367, has such traces of phones.
    """
    rows = trace_of(path, sha256, {"start": 0.0, "end": 0.0})
    start, end = rows.values.T
    if (wrong := np.flatnonzero(end < start)).size:
        i = int(wrong[0])
        raise DataError(
            f"line {rows.lines[i]}: ends at {end[i]:g}, before it starts at {start[i]:g}"
        ).within(path)
    last = float(end.max())
    length = last if period is None else period
    if not (end > start).any():
        raise DataError("no device can be reached at any time; write an end behind a start").within(
            path
        )
    if length < last:
        raise ValueError(
            f"period {length:g} is below the last end of the trace, {last:g}; write at least that"
        )

    def reached(known: Any, moment: Moment) -> Bool[np.ndarray, " N"]:
        time = moment.seconds % length
        on = np.zeros(rows.devices, bool)
        on[rows.device[(start <= time) & (time < end)]] = True
        return np.resize(on, known)

    return Availability(lambda clients, rng: clients.N, reached, clocked=True)
