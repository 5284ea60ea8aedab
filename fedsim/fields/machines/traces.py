"""Measured availability: the kind `trace`."""

from typing import Annotated, Any

import numpy as np
from annotated_types import Gt
from jaxtyping import Bool

from fedsim.compose import availability
from fedsim.errors import DataError
from fedsim.fields.machines.availability import Availability, Moment
from fedsim.sources.files import Name
from fedsim.sources.traces import trace_of


@availability
def trace(
    path: Name, period: Annotated[float, Gt(0)] | None = None, sha256: str | None = None
) -> Availability:
    """Clients are reachable when a trace of devices says so: a CSV, `client, start, end`.

    Each row is an interval in which a device can be reached, from `start` up to but not including
    `end`, in seconds of the virtual clock; a device may have many. The trace repeats after its
    period. Client k is the device with the k-th smallest id (numbers as numbers); after the last
    device, clients start over with the first. Nothing is drawn.

    Cost: one pass over the rows per round.

    Args:
      path: the file, plain or gzipped, in the scenario's folder, the working directory or a
        `--data-root`; files elsewhere are not read.
      period: seconds after which the trace repeats; left out: its last end.
      sha256: hash of the file; any other file is refused (filled in by the resolved scenario).

    Raises:
      DataError: if the file is not such a trace; names the file and the lines.

    References:
      Lai et al. 2022, FedScale: Benchmarking Model and System Performance of Federated Learning at
      Scale, arXiv:2105.11367, has such traces of phones.
    """
    rows = trace_of(path, sha256, {"start": 0.0, "end": 0.0})
    start, end = rows.values.T

    reversed_rows = np.flatnonzero(end < start)
    if len(reversed_rows):
        i = int(reversed_rows[0])
        raise DataError(
            f"row {rows.rows[i]}: ends at {end[i]:g}, before it starts at {start[i]:g}"
        ).with_prefix(path)
    if not (end > start).any():
        raise DataError(
            "no device can be reached at any time; write an end after its start"
        ).with_prefix(path)

    last_end = float(end.max())
    length = last_end if period is None else period
    if length < last_end:
        raise ValueError(
            f"period {length:g} is below the last end of the trace, {last_end:g}; "
            "write at least that"
        )

    def reached(N: Any, moment: Moment) -> Bool[np.ndarray, " N"]:
        time = moment.seconds % length
        on = (start <= time) & (time < end)
        reachable = np.zeros(rows.devices, bool)
        reachable[rows.device[on]] = True
        return np.resize(reachable, N)

    return Availability(lambda clients, rng: clients.N, reached, clocked=True)
