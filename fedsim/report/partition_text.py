"""A partition for a terminal of any width: a few lines, and a table."""

import io
import textwrap
from collections.abc import Iterable
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedsim.report.figures.drawing import literal
from fedsim.study.label_skew import Heterogeneity

LISTED = 20  # clients in the table, at most
# characters of a name, at most
CLIENT = 30
LABEL = 12
NARROW = 20  # prose is not broken into shorter lines; the terminal wraps it

SKEW = "skew/"  # prefix of columns that tell what a client has of a skew
OF_LABELS = ("classes", "entropy bits", "total variation", "largest share")
EXPENDABLE = ("entropy bits", "classes")  # a narrow terminal does without, the first one first


def text(partition: Heterogeneity, width: int = 80, ascii: bool = False) -> str:
    """Summary and table of a partition, as `fedsim data partition` prints them."""
    return f"{summary(partition.overall, width)}\n\n{table(partition.clients, ascii, width)}\n"


def summary(overall: dict[str, Any], width: int = 80) -> str:
    """The numbers of all clients together, a paragraph each."""
    lines = {"clients": _clients_line(overall), "samples": _samples_line(overall)}
    if "labels" in overall:
        lines["labels"] = _labels_line(overall)
        lines["skew"] = _skew_line(overall)
    paragraphs = []
    for name, line in lines.items():
        paragraphs.append(_wrapped(f"{name:<8} {line}", width, indent=9))
    return "\n".join(paragraphs)


def _clients_line(overall: dict[str, Any]) -> str:
    line = f"{overall['clients']:,}"
    empty = overall["clients_without_samples"]
    if empty:
        line += f", {empty:,} of them without samples"
    return line


def _samples_line(overall: dict[str, Any]) -> str:
    line = f"{overall['samples']:,}"
    if overall["clients"]:
        least = overall["samples_min"]
        most = overall["samples_max"]
        median = overall["samples_median"]
        line += f"; a client holds {least:,} to {most:,}, median {median:,g}"
    if overall["samples_gini"] is not None:
        line += f", Gini {overall['samples_gini']:.2f}"
    return line


def _labels_line(overall: dict[str, Any]) -> str:
    mean = overall["classes_mean"]
    bits = overall["entropy_bits_mean"]
    all_bits = overall["entropy_bits_all"]
    per_client = f"a client holds {mean:.1f} on average, {bits:.2f} of {all_bits:.2f} bits"
    return f"{overall['labels']:,}; {per_client}"


def _skew_line(overall: dict[str, Any]) -> str:
    mean = overall["total_variation_mean"]
    most = overall["total_variation_max"]
    iid = overall["total_variation_iid"]
    distance = f"total variation from the common mix {mean:.3f} on average, {most:.3f} at most"
    return f"{distance}; a random partition has {iid:.3f}"


def table(clients: pd.DataFrame, ascii: bool = False, width: int = 80) -> str:
    """The clients; of many those whose labels are farthest from the common ones, or the largest."""
    has_labels = "total_variation" in clients
    shown = clients
    if len(clients) > LISTED:
        by = ["samples"]
        if has_labels:
            by.insert(0, "total_variation")
        shown = clients.sort_values(by, ascending=False, kind="stable").head(LISTED)

    skews = [name.removeprefix(SKEW) for name in skews_of(clients)]
    labels = OF_LABELS if "classes" in clients else ()
    names = ["client", "samples", *labels, *skews]
    rows = []
    for row in shown.to_dict("records"):
        rows.append(dict(zip(names, _cells(row, ascii), strict=True)))

    lines = _lines(names, rows)
    for name in EXPENDABLE:
        if name in names and max(map(len, lines)) > width:
            names.remove(name)
            lines = _lines(names, rows)
    if len(clients) > LISTED:
        which = "most skewed" if has_labels else "largest"
        lines.append(f"   ... the {LISTED} {which} of {len(clients):,} clients")
    return "\n".join(lines)


def _lines(names: list[str], rows: list[dict[str, str]]) -> list[str]:
    """The lines of a table with these columns, without colours."""
    view = Table(box=None, pad_edge=False)
    for name in names:
        view.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        view.add_row(*(Text(row[name]) for name in names))
    console = Console(
        file=io.StringIO(),
        width=100 + 20 * len(names),
        color_system=None,
        force_jupyter=False,
        legacy_windows=False,
    )
    with console.capture() as printed:
        console.print(view)
    return [line.rstrip() for line in printed.get().splitlines()]


def _cells(row: dict[Any, Any], ascii: bool) -> list[str]:
    cells = [_label(row["client"], ascii, CLIENT), f"{row['samples']:,}"]
    if "classes" in row:
        cells += [str(row["classes"]), *_label_cells(row, ascii)]
    for name in skews_of(row):
        cells.append(f"{row[name]:.4g}")
    return cells


def _label_cells(row: dict[Any, Any], ascii: bool) -> list[str]:
    """Entropy, total variation and largest share; empty for a client without samples."""
    if not row["samples"]:
        return ["", "", ""]
    label = _label(row["largest_label"], ascii)
    return [
        f"{row['entropy_bits']:.2f}",
        f"{row['total_variation']:.3f}",
        f"{100 * row['largest_share']:.0f} % label {label}",
    ]


def skews_of(columns: Iterable[Any]) -> list[str]:
    """The columns that tell what a client has of a skew."""
    return [name for name in columns if str(name).startswith(SKEW)]


def _wrapped(line: str, width: int, indent: int = 0) -> str:
    return textwrap.fill(line, max(width, NARROW), subsequent_indent=" " * indent)


def _label(name: Any, ascii: bool = False, most: int = LABEL) -> str:
    """The name of a label or client as text that cannot steer a terminal; long ones are cut."""
    if ascii:
        name = str(name).encode("ascii", "backslashreplace").decode()
    return literal(name, most)
