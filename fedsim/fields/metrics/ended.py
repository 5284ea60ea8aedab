"""What metrics add to a run that has ended: its row of `summary.csv`, and `confusion.csv`."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedsim.disk.tables import Record
from fedsim.engine.run import Run
from fedsim.fields.metrics.confusion import table
from fedsim.fields.metrics.keys import KINDS
from fedsim.fields.metrics.measured import names_of


def tables(run: Run, spec: Any) -> dict[str, Record]:
    """Return the confusion matrix of a run that has ended, where it is asked for."""
    if not spec.evaluate.confusion:
        return {}
    confusion = table(run)
    return {"confusion": confusion} if confusion else {}


def columns(tables: Mapping[str, Sequence[Record]], scenario: Mapping[str, Any]) -> Record:
    """Return the metrics on test samples at the end of a run, as columns of `summary.csv`."""
    sections = [KINDS.validate(each) for each in scenario["evaluate"].get("metrics") or ()]
    names = [f"test_{name}" for name in names_of(sections)]
    last = tables["rounds"][-1] if tables["rounds"] else {}
    return {name: last[name] for name in names if name in last}
