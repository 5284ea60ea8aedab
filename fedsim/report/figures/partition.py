"""A partition as a figure: samples per client as bars, and a heat map of label by client below."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsim.report.context import Context
from fedsim.report.figures.drawing import COLOURS, FOOT, LEFT, SMALL, literal, sheet, style
from fedsim.study.label_skew import LabelCounts, evenly_spaced
from fedsim.study.words import call_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_CLIENTS = 200  # that are drawn; of more, some are chosen
MAX_NAMED = 24  # labels, and clients, that are named at most
LONGEST = 24  # letters of a client's name, at most
ABREAST = 36  # letters of all clients' names that fit side by side; more stand upright
# inches: heights of bars and heat map, and of bars alone
BARS = 0.8
HEAT = 1.9
ALONE = 1.6
LEGEND = 0.42  # inches right of the heat map for its legend, without its numbers
LETTER = 0.055  # inches of a letter
ALPHAS = (0.14, 0.29, 0.45, 0.62, 0.8, 1.0)  # of the shades of the heat map
GAP = 0.03  # around a cell, as a share of it
MAX_APART = 60  # clients whose cells have a gap around them
STEPS = [1, 2, 5, 10]  # between ticks
SKEWED = 50  # times the median: a largest count above it makes the axis logarithmic


def figure_of_partition(counts: LabelCounts, context: Context, seed: int | None = None) -> "Figure":
    """A figure of a partition, clients in the order of ids; of many clients 200, evenly spaced.

    Args:
      seed: of the partition, where there are several.
    """
    chosen = evenly_spaced(len(counts.clients), MAX_CLIENTS)
    ids = counts.clients[chosen]
    samples = counts.samples[chosen]
    labels = [literal(name, 12) for name in counts.labels]
    note = _note(counts, len(chosen), context.scenario)
    if seed is not None:
        note += f", seed {seed}"
    with style():
        named = np.arange(0, len(ids), max(-(-len(ids) // MAX_NAMED), 1))
        ticks = [literal(name, LONGEST) for name in ids[named]]
        upright = len("".join(ticks)) > ABREAST
        foot = FOOT
        if upright:
            foot += LETTER * max(map(len, ticks))
        figure, all_axes = _sheet(context.title, note, labels, samples, foot)
        _bars(all_axes[0], samples.sum(1))
        if labels:
            draw_heat_map(all_axes[1], samples, labels)
            _legend(all_axes[1], samples)
            all_axes[1].set_ylabel(literal(counts.noun, LONGEST))

        rotation = 90 if upright else 0
        for axes in all_axes:
            last = axes is all_axes[-1]
            axes.set_xlim(-0.5, max(len(ids), 1) - 0.5)
            axes.set_xticks(named, ticks)
            axes.tick_params(labelbottom=last, labelrotation=rotation, axis="x")
        all_axes[-1].set_xlabel("client")
        return figure


def _sheet(
    title: str, note: str, labels: Sequence[str], samples: np.ndarray, foot: float
) -> tuple["Figure", list["Axes"]]:
    """A figure with space for names and numbers beside the axes.

    Args:
      labels: names of the heat map's rows; none: bars alone.
      samples: `[clients, labels]`.
    """
    largest = samples.sum(1).max(initial=0)
    longest = max([len(f"{largest:,}"), *map(len, labels)])
    left = LEFT + LETTER * max(longest - 5, 0)
    if not labels:
        return sheet(title, note, [ALONE], foot, left)
    right = LEGEND + 2 * LETTER * len(f"{samples.max():,}")
    return sheet(title, note, [BARS, HEAT], foot, left, right)


def _bars(axes: "Axes", sizes: np.ndarray) -> None:
    """Draw samples per client."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    width = 0.8 if len(sizes) <= 50 else 1.0
    axes.bar(np.arange(len(sizes)), sizes, width=width, color=COLOURS[0], lw=0)
    axes.grid(False, axis="x")
    if _skewed(sizes):
        high = axes.get_position().height > 0.4
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.7)
        axes.set_ylabel("samples, log scale" if high else "samples (log)")
        axes.yaxis.set_major_locator(LogLocator(numticks=5))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylabel("samples")
        axes.set_ylim(0, max(1.05 * sizes.max(initial=0), 1))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True, steps=STEPS))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def draw_heat_map(
    axes: "Axes", samples: np.ndarray, labels: Sequence[str], named: int = MAX_NAMED
) -> None:
    """Draw samples by label and client: a path for every shade, of all its cells.

    Args:
      samples: `[clients, labels]`.
      named: rows that have a name, at most.
    """
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    tops = tops_of(int(samples.max(initial=0)))
    shades = shades_of(samples, tops)
    gap = GAP if len(samples) <= MAX_APART else 0.0
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]) * (0.5 - gap)
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    for shade, alpha in enumerate(ALPHAS, 1):
        cells = np.argwhere(shades == shade)
        if len(cells):
            outlines = (cells[:, None] + corners).reshape(-1, 2)
            path = Path(outlines, np.tile(codes, len(cells)))
            look = {"fc": COLOURS[0], "alpha": alpha, "lw": 0, "label": f"shade {shade}"}
            axes.add_artist(PathPatch(path, **look))
    axes.set_xlim(-0.5, max(len(samples), 1) - 0.5)
    axes.set_ylim(-0.5, len(labels) - 0.5)
    axes.grid(False)
    every = -(-len(labels) // named)
    axes.set_yticks(range(0, len(labels), every), labels[::every])


def tops_of(most: int) -> list[int]:
    """The largest number of samples of every shade; they grow like squares, at least by one.

    >>> tops_of(36), tops_of(2)
    ([1, 4, 9, 16, 25, 36], [1, 2])
    """
    if not most:
        return []
    shades = len(ALPHAS)
    tops = set()
    for k in range(1, shades + 1):
        square = -(-most * k * k // shades**2)  # rounded up
        tops.add(max(square, 1))
    return sorted(tops)


def shades_of(samples: np.ndarray, tops: Sequence[int]) -> np.ndarray:
    """The shade of every cell, 0 for none; few samples take the darker shades."""
    if not len(tops):
        return np.zeros(samples.shape, int)
    palest = len(ALPHAS) - len(tops) + 1
    return np.where(samples > 0, np.searchsorted(tops, samples) + palest, 0)


def spans_of(tops: Sequence[int]) -> list[tuple[int, str]]:
    """Every shade, and the samples that it stands for.

    >>> spans_of([1, 4])
    [(0, 'none'), (5, '1'), (6, '2 to 4')]
    """
    spans = [(0, "none")]
    low = 1
    for shade, top in enumerate(tops, len(ALPHAS) - len(tops) + 1):
        spans.append((shade, f"{low:,} to {top:,}" if top > low else f"{low:,}"))
        low = top + 1
    return spans


def _legend(axes: "Axes", samples: np.ndarray) -> None:
    """Draw what shades stand for right of the heat map."""
    from matplotlib.patches import Patch

    patches = []
    for shade, text in spans_of(tops_of(int(samples.max())))[1:]:
        patches.append(Patch(fc=COLOURS[0], alpha=ALPHAS[shade - 1], label=text))
    look = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.04), "handlelength": 1.0}
    axes.legend(handles=patches[::-1], title="samples", title_fontsize=SMALL, **look)


def _skewed(counts: np.ndarray) -> bool:
    """Whether the largest count is many times the median of those above 0."""
    positive = counts[counts > 0]
    return len(positive) > 0 and bool(positive.max() > SKEWED * np.median(positive))


def _note(counts: LabelCounts, drawn: int, scenario: Mapping[str, Any]) -> str:
    notes = []
    section = scenario.get("data", {}).get("partition") or {}
    if "kind" in section:
        notes.append(call_of(section))
    clients = len(counts.clients)
    if drawn < clients:
        notes.append(f"{clients:,} clients (shown: {drawn}, evenly chosen)")
    else:
        notes.append(f"{clients:,} clients")
    notes.append(f"{int(counts.sizes.sum()):,} samples")
    empty = int((counts.sizes == 0).sum())
    if empty:
        notes.append(f"{empty:,} clients without any")
    return ", ".join(notes)
