"""A partition for a terminal: in a few lines, as a table, and as a heat map in shades; no colours, any width."""

import io
import textwrap
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedsim.report.figures.drawing import literal
from fedsim.study.label_skew import Heterogeneity, LabelCounts, evenly_spaced

BLOCKS, ASCII = " ░▒▓█", " .:*#"
LISTED = 20  # clients in the table
ROWS = 24  # lines of the heat map; more labels share them
CLIENT, LABEL = 30, 12  # characters of a name, at most
CELL = 4  # columns of the terminal that a client takes at most
NARROW = 20  # prose is not broken into shorter lines; the terminal wraps it


def text(partition: Heterogeneity, width: int = 80, ascii: bool = False) -> str:
    """Summary, table and heat map of a partition, as `fedsim partition` prints them.

    Args:
      partition: how far its clients differ.
      width: columns of the terminal.
      ascii: draw with ` .:*#`.
    """
    parts = [
        summary(partition.overall, width),
        table(partition.clients, ascii),
        heat_map(partition.counts, width, ascii),
    ]
    return "\n\n".join(parts) + "\n"


def summary(overall: dict[str, Any], width: int = 80) -> str:
    """The numbers of all clients together, a paragraph each."""
    o = overall
    lines = {"clients": f"{o['clients']:,}", "samples": f"{o['samples']:,}"}
    if o["clients_without_samples"]:
        lines["clients"] += f", {o['clients_without_samples']:,} of them without samples"
    if o["clients"]:
        each = f"{o['samples_min']:,} to {o['samples_max']:,}, median {o['samples_median']:,g}"
        lines["samples"] += f"; a client holds {each}"
    if o["samples_gini"] is not None:
        lines["samples"] += f", Gini {o['samples_gini']:.2f}"
    if "labels" in o:
        bits = f"{o['entropy_bits_mean']:.2f} of {o['entropy_bits_all']:.2f} bits"
        lines["labels"] = (
            f"{o['labels']:,}; a client holds {o['classes_mean']:.1f} in the mean, {bits}"
        )
        far = f"{o['total_variation_mean']:.3f} in the mean, {o['total_variation_max']:.3f} at most"
        lines["skew"] = (
            f"total variation from the common mix {far}; a random deal has {o['total_variation_iid']:.3f}"
        )
    return "\n".join(_wrapped(f"{name:<8} {line}", width, 9) for name, line in lines.items())


def table(clients: pd.DataFrame, ascii: bool = False) -> str:
    """The clients, or of many those whose labels are farthest from the common ones (without labels: the largest)."""
    by = ["total_variation", "samples"] if "total_variation" in clients else ["samples"]
    few = clients
    if len(clients) > LISTED:
        few = clients.sort_values(by, ascending=False, kind="stable").head(LISTED)
    view = Table(box=None, pad_edge=False)
    labels = (
        ("classes", "entropy bits", "total variation", "largest share")
        if "classes" in clients
        else ()
    )
    skews = [name.removeprefix("skew/") for name in skews_of(clients)]
    for name in ("client", "samples", *labels, *skews):
        view.add_column(name, justify="right", no_wrap=True)
    for row in few.to_dict("records"):
        view.add_row(*(Text(cell) for cell in _cells(row, ascii)))
    console = Console(
        file=io.StringIO(),
        width=100 + 20 * len(skews),
        color_system=None,
        force_jupyter=False,
        legacy_windows=False,
    )
    with console.capture() as printed:
        console.print(view)
    lines = [line.rstrip() for line in printed.get().splitlines()]
    if len(clients) > LISTED:
        first = "most skewed" if len(by) > 1 else "largest"
        lines.append(f"   ... the {LISTED} {first} of {len(clients):,} clients")
    return "\n".join(lines)


def _cells(row: dict[Any, Any], ascii: bool) -> list[str]:
    cells = [_label(row["client"], ascii, CLIENT), f"{row['samples']:,}"]
    if "classes" in row:
        cells.append(str(row["classes"]))
        if row["samples"]:
            share = (
                f"{100 * row['largest_share']:.0f} % label {_label(row['largest_label'], ascii)}"
            )
            cells += [f"{row['entropy_bits']:.2f}", f"{row['total_variation']:.3f}", share]
        else:
            cells += [""] * 3
    return [*cells, *(f"{row[name]:.4g}" for name in skews_of(row))]


def skews_of(columns: Iterable[Any]) -> list[str]:
    """The columns that tell what a client has of a skew."""
    return [name for name in columns if str(name).startswith("skew/")]


def heat_map(counts: LabelCounts, width: int = 80, ascii: bool = False) -> str:
    """A heat map of label by client, darker where there are more samples.

    Where there are too many clients, some are shown, evenly spaced: a mean of neighbours would hide how they differ. Where
    there are too many labels, neighbours share a line, which shows their mean.

    Args:
      counts: samples per client and label.
      width: columns to fit into, as far as there is room for a single client.
      ascii: draw with ` .:*#`.
    """
    if not len(counts.clients):
        return "no clients"
    names = [_label(name, ascii) for name in counts.labels] or ["samples"]
    rows = np.arange(0, len(names), -(-len(names) // ROWS))
    titles = [
        names[a] if a + 1 == b else f"{names[a]}-{names[b - 1]}"
        for a, b in pairwise([*rows, len(names)])
    ]
    margin = max(map(len, titles))
    margin = margin if width > 2 * margin + 3 else 0
    room = max(width - margin - 3, 1)
    few = evenly_spaced(len(counts.clients), room)
    samples = np.add.reduceat(counts.samples[few], rows, axis=1) / np.diff(rows, append=len(names))
    steps = _steps(samples)
    level = np.searchsorted(steps, samples)  # 0 only where there are none
    shades, wide = ASCII if ascii else BLOCKS, min(room // len(few), CELL)
    drawn = ["".join(shades[place] * wide for place in line) for line in level.T]
    lines = [
        f"{title:>{margin}} |{line}|" if margin else line
        for title, line in zip(titles, drawn, strict=True)
    ]
    return "\n".join(
        [*lines, *(_wrapped(line, width) for line in _legend(counts, few, steps, shades, ascii))]
    )


def _steps(samples: np.ndarray) -> np.ndarray:
    """The largest number of each shade `[5]`: evenly, or by squares where few places hold much more than the others."""
    most = samples.max()
    power = 2 if most and most > 8 * np.median(samples[samples > 0]) else 1
    return most * (np.arange(5) / 4) ** power if most else np.arange(5.0)


def _legend(
    counts: LabelCounts, few: np.ndarray, steps: np.ndarray, shades: str, ascii: bool
) -> Iterator[str]:
    """The meaning of places and shades."""
    first, last = (_label(counts.clients[few[place]], ascii, CLIENT) for place in (0, -1))
    n = len(counts.clients)
    clients = f"clients {first} to {last} from left to right" if len(few) > 1 else f"client {first}"
    yield clients if len(few) == n else f"{clients}: {len(few):,} of {n:,}, evenly chosen"
    scale = ", ".join(
        f"{shade} to {step:.3g}" for shade, step in zip(shades[1:], steps[1:], strict=True)
    )
    of = f" of a {_label(counts.noun, ascii, CLIENT)}" if counts.labels else ""
    yield f"samples{of}{', mean of those on a line' if len(counts.labels) > ROWS else ''}: {scale}, blank 0"


def _wrapped(line: str, width: int, indent: int = 0) -> str:
    return textwrap.fill(line, max(width, NARROW), subsequent_indent=" " * indent)


def _label(name: Any, ascii: bool = False, most: int = LABEL) -> str:
    """The name of a label or client as text that cannot steer a terminal; long ones are cut."""
    return literal(str(name).encode("ascii", "backslashreplace").decode() if ascii else name, most)
