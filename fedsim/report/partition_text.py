"""Who holds what, for a terminal: in a few lines, as a table, and as a map in shades; no colours, any width."""

import io
import shutil
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TextIO

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedsim.report.figures.drawing import literal
from fedsim.study.label_skew import Holdings, Tally, evenly

BLOCKS, ASCII = " ░▒▓█", " .:*#"
LISTED = 20  # clients in the table
ROWS = 24  # lines of the map; more labels share them
CELL = 4  # columns of the terminal that a client takes at most
NARROW = 20  # prose is not broken into shorter lines; the terminal wraps it


def fitting(stream: TextIO) -> tuple[int, bool]:
    """Columns that a stream's terminal has (80 where there is none), and whether it takes nothing but ASCII."""
    try:
        BLOCKS.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return shutil.get_terminal_size().columns, True
    return shutil.get_terminal_size().columns, False


def text(held: Holdings, width: int = 80, ascii: bool = False) -> str:
    """Summary, table and map of a partition, as `fedsim partition` prints them.

    Args:
      held: what `inspected` found.
      width: columns of the terminal.
      ascii: draw with ` .:*#`.
    """
    parts = [summary(held.overall, width), table(held.clients, ascii), picture(held.tally, width, ascii)]
    return "\n\n".join(parts) + "\n"


def summary(overall: dict[str, Any], width: int = 80) -> str:
    """What holds for all clients together, a paragraph each."""
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
        lines["labels"] = f"{o['labels']:,}; a client holds {o['classes_mean']:.1f} in the mean, {bits}"
        far = f"{o['total_variation_mean']:.3f} in the mean, {o['total_variation_max']:.3f} at most"
        lines["skew"] = f"total variation from the common mix {far}; a random deal has {o['total_variation_iid']:.3f}"
    return "\n".join(_wrapped(f"{name:<8} {said}", width, 9) for name, said in lines.items())


def table(clients: pd.DataFrame, ascii: bool = False) -> str:
    """The clients, or of many those whose mix is farthest from the common one (without labels: the largest)."""
    by = ["total_variation", "samples"] if "total_variation" in clients else ["samples"]
    few = clients
    if len(clients) > LISTED:
        few = clients.sort_values(by, ascending=False, kind="stable").head(LISTED)
    view = Table(box=None, pad_edge=False)
    mix = ("classes", "entropy bits", "total variation", "largest share") if "classes" in clients else ()
    for name in ("client", "samples", *mix):
        view.add_column(name, justify="right", no_wrap=True)
    for row in few.to_dict("records"):
        view.add_row(*(Text(cell) for cell in _cells(row, ascii)))
    console = Console(file=io.StringIO(), width=100, color_system=None, force_jupyter=False, legacy_windows=False)
    with console.capture() as printed:
        console.print(view)
    lines = [line.rstrip() for line in printed.get().splitlines()]
    if len(clients) > LISTED:
        first = "most skewed" if len(by) > 1 else "largest"
        lines.append(f"   ... the {LISTED} {first} of {len(clients):,} clients")
    return "\n".join(lines)


def _cells(row: dict[Any, Any], ascii: bool) -> list[str]:
    cells = [str(row["client"]), f"{row['samples']:,}"]
    if "classes" in row:
        cells.append(str(row["classes"]))
        if row["samples"]:
            share = f"{100 * row['largest_share']:.0f} % label {shown(row['largest_label'], ascii)}"
            cells += [f"{row['entropy_bits']:.2f}", f"{row['total_variation']:.3f}", share]
    return cells


def picture(held: Tally, width: int = 80, ascii: bool = False) -> str:
    """A map of label by client, darker where there are more samples.

    Where there are too many clients, some are shown, evenly chosen: a mean of neighbours would hide how they differ. Where
    there are too many labels, neighbours share a line, which shows their mean.

    Args:
      held: who holds what.
      width: columns to fit into, as far as there is room for a single client.
      ascii: draw with ` .:*#`.
    """
    if not len(held.clients):
        return "no clients"
    names = [shown(name, ascii) for name in held.labels] or ["samples"]
    rows = np.arange(0, len(names), -(-len(names) // ROWS))
    titles = [names[a] if a + 1 == b else f"{names[a]}-{names[b - 1]}" for a, b in pairwise([*rows, len(names)])]
    margin = max(map(len, titles))
    margin = margin if width > 2 * margin + 3 else 0
    room = max(width - margin - 3, 1)
    few = evenly(len(held.clients), room)
    samples = np.add.reduceat(held.counts[few], rows, axis=1) / np.diff(rows, append=len(names))
    steps = _steps(samples)
    level = np.searchsorted(steps, samples)  # 0 only where there is nothing
    shades, wide = ASCII if ascii else BLOCKS, min(room // len(few), CELL)
    drawn = ["".join(shades[place] * wide for place in line) for line in level.T]
    lines = [f"{title:>{margin}} |{line}|" if margin else line for title, line in zip(titles, drawn, strict=True)]
    return "\n".join([*lines, *(_wrapped(line, width) for line in _legend(held, few, steps, shades))])


def _steps(samples: np.ndarray) -> np.ndarray:
    """Up to where each shade goes `[5]`: evenly, or by squares where few places hold much more than the others."""
    most = samples.max()
    power = 2 if most and most > 8 * np.median(samples[samples > 0]) else 1
    return most * (np.arange(5) / 4) ** power if most else np.arange(5.0)


def _legend(held: Tally, few: np.ndarray, steps: np.ndarray, shades: str) -> Iterator[str]:
    """What places and shades stand for."""
    first, last, n = held.clients[few[0]], held.clients[few[-1]], len(held.clients)
    who = f"clients {first:,} to {last:,} from left to right" if len(few) > 1 else f"client {first:,}"
    yield who if len(few) == n else f"{who}: {len(few):,} of {n:,}, evenly chosen"
    said = ", ".join(f"{shade} to {step:.3g}" for shade, step in zip(shades[1:], steps[1:], strict=True))
    of = " of a label" if held.labels else ""
    yield f"samples{of}{', mean of those on a line' if len(held.labels) > ROWS else ''}: {said}, blank 0"


def _wrapped(line: str, width: int, indent: int = 0) -> str:
    return textwrap.fill(line, max(width, NARROW), subsequent_indent=" " * indent)


def shown(name: Any, ascii: bool = False) -> str:
    """A label as text that cannot steer a terminal; long ones are cut."""
    return literal(str(name).encode("ascii", "backslashreplace").decode() if ascii else name, 12)
