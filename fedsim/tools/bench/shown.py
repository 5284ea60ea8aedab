"""The records of `fedsim doctor --bench` on the terminal."""

from collections.abc import Callable
from typing import Any

from fedsim.cli import tables
from fedsim.disk.tables import Record


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"


# Name in a record of a benchmark -> (title of its column, format).
COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "workload": ("workload", str),
    "how": ("how", str),
    "version": ("version", str),
    "seconds": ("ms a round", _milliseconds),
    "least": ("least", _milliseconds),
    "most": ("most", _milliseconds),
    "times_lanes": ("× lanes", "{:.2f}".format),
    "steps_per_second": ("steps/s", "{:,.0f}".format),
    "gflops": ("GFLOP/s", "{:.1f}".format),
    "share_of_peak": ("of peak", "{:.0%}".format),
    "lane_efficiency": ("lanes busy", "{:.2f}".format),
    "compile_seconds": ("compile s", "{:.1f}".format),
    "plan_seconds": ("plan ms", _milliseconds),
    "evaluation_seconds": ("test ms", _milliseconds),
    "peak_bytes": ("peak MB", lambda size: f"{size / 1e6:,.0f}"),
    "final_accuracy": ("accuracy", "{:.4f}".format),
}


def print_records(records: list[Record]) -> None:
    """Print workloads and the ways they were run."""
    names = [name for name in COLUMNS if any(name in record for record in records)]
    titles = [COLUMNS[name][0] for name in names]
    view = tables.empty_table(titles, left=("workload", "how"))
    for record in records:
        texts: list[str] = []
        for name in names:
            _, form = COLUMNS[name]
            value = record.get(name)
            texts.append("" if value is None else form(value))
        view.add_row(*texts)
    tables.print_table(view)
