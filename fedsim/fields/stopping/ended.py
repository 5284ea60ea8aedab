"""What a run's row of `summary.csv` says of an early end, and which model it results in."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedsim.disk.tables import Record
from fedsim.fields.stopping.keys import Stop
from fedsim.fields.stopping.meter import Stopping, deciding_metric


def columns(tables: Mapping[str, Sequence[Record]], scenario: Mapping[str, Any]) -> Record:
    """Return the columns of `summary.csv`."""
    if scenario.get("stop") is None:
        return {}
    stop = Stop.model_validate(scenario["stop"])
    score = scenario["evaluate"]["metric"]
    accurate = any(name.endswith("_accuracy") for name in tables["rounds"][0])
    stopping = Stopping(stop, deciding_metric(stop, score, accurate))
    chosen: Record = {}
    is_last = False
    every = scenario["evaluate"]["every"]
    considered = [row for row in tables["rounds"] if row["round"] % every == 0]
    for row in considered:
        is_last = stopping.ends_with(row)
        if stopping.chooses(row):
            chosen = row
    last = tables["rounds"][-1]["round"]
    line: Record = {"stopped": last if is_last and last < scenario["rounds"] else None}
    if chosen:
        line["restored"] = chosen["round"]
        if chosen.get(score) is not None:
            line["final"] = chosen[score]
    return line
