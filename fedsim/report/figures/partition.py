"""A partition as a figure: bars of samples per client, and where there are labels a heat map of
label by client below.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsim.report.about import About
from fedsim.report.figures.drawing import COLOURS, FOOT, GREY, LEFT, literal, sheet, style
from fedsim.study.label_skew import LabelCounts, evenly_spaced
from fedsim.study.words import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

MOST = 200  # clients that are drawn; of more, so many
WRITTEN = 12  # clients up to which the numbers stand in the heat map
NAMED = 24  # labels up to which each is named, and clients with names
LONGEST = 24  # letters of a client's name; longer ones are cut
ABREAST = 36  # letters of all clients' names that fit side by side; more stand upright
BARS, HEAT, ALONE = 0.8, 1.9, 1.6  # inches: heights of bars and heat map, and of bars alone
PIXELS = (600, 1200)  # of the heat map, at least
# inches beside the heat map for its scale, and for every letter of its numbers
SCALE, LETTER = 0.42, 0.055


def figure_of_partition(counts: LabelCounts, about: About, seed: int | None = None) -> "Figure":
    """A figure of a partition, clients in the order of ids; of more than 200 as many, evenly
    spaced.

    Args:
      counts: samples per client and label.
      about: what is shown; its scenario is in the small print.
      seed: of the partition, where there are several.
    """
    with style():
        few = evenly_spaced(len(counts.clients), MOST)
        ids, samples = counts.clients[few], counts.samples[few]
        names = [literal(name, 12) for name in counts.labels]
        note = _note(counts, len(few), about.scenario) + ("" if seed is None else f", seed {seed}")
        places, ticks = _ticks(ids)
        upright = _letters(ticks, ids) > ABREAST
        foot = FOOT + LETTER * max(map(len, ticks)) if upright else FOOT
        figure, all_axes = _sheet(about.title, note, names, samples, foot)
        _bars(all_axes[0], samples.sum(1))
        if names:
            _heat_map(all_axes[1], samples, names)
            all_axes[1].set_ylabel(literal(counts.noun, LONGEST))
        for axes in all_axes:
            axes.set_xlim(-0.5, max(len(ids), 1) - 0.5)
            axes.set_xticks(places, ticks)
            axes.tick_params(
                labelbottom=axes is all_axes[-1], labelrotation=90 if upright else 0, axis="x"
            )
        all_axes[-1].set_xlabel("client")
        return figure


def _sheet(
    title: str, note: str, names: Sequence[str], samples: np.ndarray, foot: float
) -> tuple["Figure", list["Axes"]]:
    """With room for names and numbers beside the axes."""
    longest = max([len(f"{samples.sum(1).max(initial=0):,}"), *map(len, names)])
    left = LEFT + LETTER * max(longest - 5, 0)
    if not names:
        return sheet(title, note, [ALONE], foot, left)
    return sheet(title, note, [BARS, HEAT], foot, left, SCALE + LETTER * len(f"{samples.max():,}"))


def _bars(axes: "Axes", sizes: np.ndarray) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    axes.bar(
        np.arange(len(sizes)), sizes, width=0.8 if len(sizes) <= 50 else 1.0, color=COLOURS[0], lw=0
    )
    axes.grid(False, axis="x")
    if _skewed(sizes, 50):
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.7)
        axes.set_ylabel(
            "samples, log scale" if axes.get_position().height > 0.4 else "samples (log)"
        )
        axes.yaxis.set_major_locator(LogLocator(numticks=5))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylabel("samples")
        axes.set_ylim(0, max(1.05 * sizes.max(initial=0), 1))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _heat_map(axes: "Axes", samples: np.ndarray, names: Sequence[str]) -> None:
    """Samples by label and client, the scale beside them, and of few clients the numbers."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, LogNorm, Normalize

    blues = ListedColormap(
        colormaps["Blues"](np.linspace(0.15, 1, 256)), name="counts"
    ).with_extremes(bad="white")
    most = max(int(samples.max()), 2)
    norm = LogNorm(1, most) if _skewed(samples, 8) else Normalize(1, most)
    paint = ScalarMappable(norm, blues)
    extent = (-0.5, len(samples) - 0.5, -0.5, len(names) - 0.5)
    pixels = _enlarged(paint.to_rgba(np.ma.masked_equal(samples.T, 0), bytes=True))
    axes.imshow(pixels, extent=extent, aspect="auto", origin="lower", interpolation="none")
    axes.grid(False)
    every = next(n * 10**k for k in range(10) for n in (1, 2, 5) if n * 10**k * NAMED >= len(names))
    axes.set_yticks(range(0, len(names), every), names[::every])
    _scale(axes, paint)
    if len(samples) <= WRITTEN and len(names) <= NAMED and most < 10_000:
        for (x, y), n in np.ndenumerate(samples):
            ink = "white" if norm(max(n, 1)) > 0.5 else "black"
            axes.text(
                x, y, f"{n}", ha="center", va="center", fontsize=5.5, color=ink if n else GREY
            )


def _enlarged(grid: np.ndarray) -> np.ndarray:
    """Every cell `[labels, clients, RGBA]` as many pixels: a viewer that smooths enlarged pictures
    smooths only edges.
    """
    high, wide = (-(-least // n) for least, n in zip(PIXELS, grid.shape[:2], strict=True))
    return grid.repeat(high, 0).repeat(wide, 1)


def _scale(axes: "Axes", paint: "ScalarMappable") -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import LogLocator, MaxNLocator, StrMethodFormatter

    figure, box, log = axes.figure, axes.get_position(), isinstance(paint.norm, LogNorm)
    bar = figure.colorbar(paint, cax=figure.add_axes((box.x1 + 0.02, box.y0, 0.025, box.height)))
    bar.outline.set_visible(False)  # pyright: ignore
    bar.ax.grid(False)
    bar.ax.tick_params(length=2, pad=1.5)
    bar.locator = (
        LogLocator(subs=(1, 2, 5), numticks=12)
        if log
        else MaxNLocator(6, integer=True, steps=[1, 2, 5, 10])
    )
    bar.formatter = StrMethodFormatter("{x:,.0f}")
    bar.update_ticks()
    bar.set_label("samples, log scale (white: 0)" if log else "samples (white: 0)", labelpad=2)


def _skewed(counts: np.ndarray, times: float) -> bool:
    """Whether the largest count is so many times the median of those above 0."""
    known = counts[counts > 0]
    return len(known) > 0 and bool(known.max() > times * np.median(known))


def _ticks(ids: np.ndarray) -> tuple[list[float], list[str]]:
    """Round ids, and where they stand among those that are drawn."""
    from matplotlib.ticker import MaxNLocator

    if len(ids) <= WRITTEN or ids.dtype.kind != "i":
        few = evenly_spaced(len(ids), NAMED if ids.dtype.kind != "i" else WRITTEN)
        return few.tolist(), [literal(ids[place], LONGEST) for place in few]
    round_ids = MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]).tick_values(ids[0], ids[-1])
    inside = [int(i) for i in round_ids if ids[0] <= i <= ids[-1]]
    return np.interp(inside, ids, np.arange(len(ids))).tolist(), [f"{i:,}" for i in inside]


def _letters(ticks: Sequence[str], ids: np.ndarray) -> float:
    """Letters that the ticks take side by side: of names, all as long as the two longest neighbours
    are in the mean.
    """
    lengths = [*map(len, ticks)]
    if ids.dtype.kind == "i" or len(ticks) < 2:
        return sum(lengths)
    return max(a + b for a, b in pairwise(lengths)) / 2 * len(lengths)


def _note(counts: LabelCounts, drawn: int, scenario: Mapping[str, Any]) -> str:
    """The partition, and how many clients and samples there are."""
    section = scenario.get("data", {}).get("partition") or {}
    values = shown(section)
    arguments = ", ".join(
        f"{name} {value}" for name, value in values.items() if name != "kind" and value is not None
    )
    kind = (
        [f"{section['kind']} ({arguments})" if arguments else str(section["kind"])]
        if "kind" in section
        else []
    )
    n, without = len(counts.clients), int((counts.sizes == 0).sum())
    clients = f"{n:,} clients" if drawn == n else f"{n:,} clients (shown: {drawn}, evenly chosen)"
    parts = [*kind, clients, f"{int(counts.sizes.sum()):,} samples"]
    return ", ".join([*parts, f"{without:,} clients without any"] if without else parts)
