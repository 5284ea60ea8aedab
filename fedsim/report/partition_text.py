"""A partition for a terminal of any width: a few lines, a table, and a heat map in shades."""

import io
import textwrap
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedsim.report.figures.drawing import literal
from fedsim.study.label_skew import Heterogeneity, LabelCounts, evenly_spaced

BLOCKS = " ░▒▓█"
ASCII = " .:*#"
LISTED = 20  # clients in the table, at most
ROWS = 24  # lines of the heat map, at most; more labels share them
# characters of a name, at most
CLIENT = 30
LABEL = 12
CELL = 4  # characters that a client takes in the heat map, at most
NARROW = 20  # prose is not broken into shorter lines; the terminal wraps it

SKEW = "skew/"  # prefix of columns that tell what a client has of a skew
OF_LABELS = ("classes", "entropy bits", "total variation", "largest share")
EXPENDABLE = ("entropy bits", "classes")  # a narrow terminal does without, the first one first


def text(partition: Heterogeneity, width: int = 80, ascii: bool = False) -> str:
    """Summary, table and heat map of a partition, as `fedsim data partition` prints them.

    Args:
      partition: how far its clients differ.
      width: columns of the terminal.
      ascii: draw with ` .:*#`.
    """
    paragraphs = [
        summary(partition.overall, width),
        table(partition.clients, ascii, width),
        heat_map(partition.counts, width, ascii),
    ]
    return "\n\n".join(paragraphs) + "\n"


def summary(overall: dict[str, Any], width: int = 80) -> str:
    """The numbers of all clients together, a paragraph each.

    Args:
      overall: as in `Heterogeneity`.
      width: columns of the terminal.
    """
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
    """The clients; of many those whose labels are farthest from the common ones, or the largest.

    Args:
      clients: as in `Heterogeneity`.
      ascii: without other characters.
      width: columns of the terminal.
    """
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


def heat_map(counts: LabelCounts, width: int = 80, ascii: bool = False) -> str:
    """A heat map of label by client, darker where there are more samples.

    Where there are too many clients, some are shown, evenly spaced: a mean of neighbours would hide
    how they differ. Where there are too many labels, neighbours share a line, which shows their
    mean.

    Args:
      counts: samples per client and label.
      width: columns to fit into, as far as a single client fits.
      ascii: draw with ` .:*#`.
    """
    if not len(counts.clients):
        return "no clients"
    names = [_label(name, ascii) for name in counts.labels] or ["samples"]
    firsts = np.arange(0, len(names), -(-len(names) // ROWS))  # first label of every line
    titles = _titles(names, firsts)

    margin = max(map(len, titles))
    if width <= 2 * margin + 3:
        margin = 0
    columns = max(width - margin - 3, 1)
    chosen = evenly_spaced(len(counts.clients), columns)
    labels = np.diff(firsts, append=len(names))  # how many share a line
    samples = np.add.reduceat(counts.samples[chosen], firsts, axis=1) / labels  # [clients, lines]

    steps = _steps(samples)
    levels = np.searchsorted(steps, samples)  # 0 only where there are no samples
    shades = ASCII if ascii else BLOCKS
    cell = min(columns // len(chosen), CELL)
    lines = []
    for title, of_line in zip(titles, levels.T, strict=True):
        drawn = "".join(shades[level] * cell for level in of_line)
        if margin:
            drawn = f"{title:>{margin}} |{drawn}|"
        lines.append(drawn)
    lines.append(_wrapped(_clients_shown(counts, chosen, ascii), width))
    lines.append(_wrapped(_scale(counts, steps, shades, ascii), width))
    return "\n".join(lines)


def _titles(names: list[str], firsts: np.ndarray) -> list[str]:
    """The names of lines: of a label, or of the first and the last label that share the line."""
    titles = []
    for first, end in pairwise([*firsts, len(names)]):
        last = end - 1
        title = names[first]
        if last > first:
            title += f"-{names[last]}"
        titles.append(title)
    return titles


def _steps(samples: np.ndarray) -> np.ndarray:
    """The largest number of samples of each shade, `[5]`.

    The steps are even, or grow like squares where a few clients hold much more than the others.
    """
    most = samples.max()
    if not most:
        return np.arange(5.0)
    power = 2 if most > 8 * np.median(samples[samples > 0]) else 1
    return most * (np.arange(5) / 4) ** power


def _clients_shown(counts: LabelCounts, chosen: np.ndarray, ascii: bool) -> str:
    """Which clients the columns are."""
    first = _label(counts.clients[chosen[0]], ascii, CLIENT)
    last = _label(counts.clients[chosen[-1]], ascii, CLIENT)
    clients = f"client {first}"
    if len(chosen) > 1:
        clients = f"clients {first} to {last} from left to right"
    if len(chosen) < len(counts.clients):
        clients += f": {len(chosen):,} of {len(counts.clients):,}, evenly chosen"
    return clients


def _scale(counts: LabelCounts, steps: np.ndarray, shades: str, ascii: bool) -> str:
    """How many samples the shades stand for."""
    samples = "samples"
    if counts.labels:
        samples += f" of a {_label(counts.noun, ascii, CLIENT)}"
    if len(counts.labels) > ROWS:
        samples += ", mean of those on a line"
    spans = []
    for shade, step in zip(shades[1:], steps[1:], strict=True):
        spans.append(f"{shade} to {step:.3g}")
    return f"{samples}: {', '.join(spans)}, blank 0"


def _wrapped(line: str, width: int, indent: int = 0) -> str:
    return textwrap.fill(line, max(width, NARROW), subsequent_indent=" " * indent)


def _label(name: Any, ascii: bool = False, most: int = LABEL) -> str:
    """The name of a label or client as text that cannot steer a terminal; long ones are cut."""
    if ascii:
        name = str(name).encode("ascii", "backslashreplace").decode()
    return literal(name, most)
