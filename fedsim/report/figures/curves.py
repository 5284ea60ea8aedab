"""Accuracy and losses over the rounds, from the rows of `rounds.csv`."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedsim.report.context import Context, axis_label
from fedsim.report.figures import drawing, marks
from fedsim.report.figures.cut import cut_up, within
from fedsim.report.figures.panels import (
    Panel,
    by_method,
    draw_target,
    fill,
    pale_ends,
    share_limits,
    wide,
)
from fedsim.report.pictures.curves import curves, drawn_each
from fedsim.report.pictures.short import told_apart
from fedsim.report.series import Track, by_variant, diverged, last_rounds, tracks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("test_accuracy", "test_loss", "train_loss")
UNITS = {"cross_entropy": "cross-entropy (nats)", "squared": "squared error"}

# For up to so many panels: how many are side by side, and how many inches a row is high.
ABREAST = ((3, 1, 1.25), (10, 2, 1.05), (27, 3, 0.9))
ONE_COLUMN = ABREAST[0][0]  # panels below each other, at most
MAX_PANELS = ABREAST[-1][0]
# inches of a panel where nothing varies: of the only one, and of several
ALONE = 1.75
STACKED = 1.25
LOW = 0.62  # inches of a row of panels, at least, where they are made lower to fit a page
LETTER = 0.052  # inches of a letter above a panel


def pages_of_curves(rounds: pd.DataFrame, context: Context) -> list["Figure"]:
    """Figures of the curves, as many variations on each as fit a page."""
    tables = list(by_variant(rounds).values())
    context = context.including(_methods(rounds, context))
    figures = []
    for first in range(0, len(tables), MAX_PANELS):
        page = pd.concat(tables[first : first + MAX_PANELS])
        figures.append(figure_of_curves(page, context))
    return figures


def figure_of_curves(rounds: pd.DataFrame, context: Context) -> "Figure":
    """A figure of a run or a comparison: the metric that is scored, above accuracy and losses.

    A line per method: a single seed as it is; of several their mean, with the range of three or
    more as a band. The mean is over rounds that all seeds reached; where a seed ended early each is
    drawn, thin, up to its last finite value, and a cross says that it diverged there. For a single
    method the two losses share a panel. Where something varies, there is a panel per variation
    instead, of the metric alone, all with the same axes. Methods after the eighth are pale and
    numbered.

    Args:
      rounds: the columns of `rounds.csv`; losses and accuracies may be missing, NaN or infinite. A
        further column `diverged` says which runs did; without it their last test loss does.
    """
    methods = _methods(rounds, context)
    context = context.including(methods)
    by_variation = {}
    for variant, table in by_variant(rounds).items():
        by_variation[variant] = tracks(table, (context.metric, *COLUMNS, "diverged"))
    varied = "" not in by_variation
    panels = _panels(by_variation, context)
    all_tracks = _all_tracks(by_variation)
    limits = _round_limits(all_tracks)

    shared, titles = told_apart([context.words(panel.variant) for panel in panels])

    with drawing.style():
        keys = marks.keys_of(methods, context)
        note = _note(context.scenario, all_tracks, len(panels), keys)
        note = "; ".join(filter(None, (note, shared)))
        figure, all_axes, across = _sheet(context.title, note, len(panels), keys, varied)
        log = varied and wide(panels)
        for axes, panel, title in zip(all_axes, panels, titles, strict=True):
            axes.set_xlim(*limits)
            fill(axes, panel, len(methods) > 1, log)
            draw_target(
                axes, panel, context.scenario, accurate="test_accuracy" in panels[0].columns
            )
            axes.set_title(_title(title, axes), loc="left", fontsize=drawing.SMALL, pad=2)
        if varied:
            share_limits(all_axes)
            cut_up(all_axes, *by_method(panels))
        else:
            for axes, panel in zip(all_axes, panels, strict=True):
                cut_up([axes], *by_method([panel]))
        _label_outer(all_axes, across, common=varied and len(panels) > 1)
        for axes, panel in zip(all_axes, panels, strict=True):
            marks.numbered(axes, within(axes, pale_ends(panel)))
        if len(methods) > 1:
            marks.legend(figure, keys)
        return figure


def _all_tracks(by_variation: Mapping[str, Sequence[Track]]) -> list[Track]:
    all_tracks = []
    for variation_tracks in by_variation.values():
        all_tracks += variation_tracks
    return all_tracks


def _round_limits(all_tracks: Sequence[Track]) -> tuple[float, float]:
    """The ends of the axis of rounds, a little beyond the first and the last one."""
    last = max((int(track.rounds.max()) for track in all_tracks), default=0)
    if last == 0:
        return -0.5, 0.5
    return -0.02 * last, 1.02 * last


def _methods(rounds: pd.DataFrame, context: Context) -> list[str]:
    names = np.asarray(rounds["method"], object).astype(str)
    return context.ordered(list(dict.fromkeys(names.tolist())))


def _note(
    scenario: Mapping[str, Any], tracks: Sequence[Track], panels: int, keys: Sequence[marks.Key]
) -> str:
    notes = [_key(tracks)]
    if any(key.rank >= marks.STRONG for key in keys):
        notes.append(f"pale, by number: rank {marks.STRONG + 1} and after")
    target = scenario.get("evaluate", {}).get("target")
    if target is not None and panels > ONE_COLUMN:  # where there is no space beside the line
        notes.append(f"dashed: target {target:g}")
    return "; ".join(filter(None, notes))


def _sheet(
    title: str, note: str, panels: int, keys: Sequence[marks.Key], varied: bool
) -> tuple["Figure", list["Axes"], int]:
    """A figure, axes for all panels, and how many of them are side by side."""
    if varied:
        across, high = _abreast(panels)
        gap = drawing.GAP + 0.1
    else:
        across = 1
        high = STACKED if panels > 1 else ALONE
        gap = drawing.GAP
    rows = -(-panels // across)
    foot = drawing.FOOT + marks.legend_inches(keys)
    high = max(min(high, (drawing.HIGH - foot - 0.6) / rows - gap), LOW)
    right = drawing.RIGHT + marks.numbers_inches(keys)
    figure, axes = drawing.sheet(
        title, note, [high] * rows, foot, gap=gap, across=across, right=right
    )
    for spare in axes[panels:]:
        spare.remove()
    return figure, axes[:panels], across


def _abreast(panels: int) -> tuple[int, float]:
    """How many panels are side by side, and how many inches a row is high."""
    for most, across, high in ABREAST:
        if panels <= most:
            return across, high
    return ABREAST[-1][1:]


def _title(variation: str, axes: "Axes") -> str:
    """The variation above a panel, in as many lines as it needs."""
    letters = int(axes.get_position().width * drawing.WIDE / LETTER)
    together = drawing.literal(variation, 200).replace(
        " = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
    )
    return textwrap.fill(together, max(letters, 8))


def _label_outer(all_axes: Sequence["Axes"], across: int, common: bool) -> None:
    """Leave numbers and labels only at the left and at the foot of the figure."""
    if common:
        first = all_axes[0]
        last = all_axes[-1]
        middle = (first.get_position().y1 + last.get_position().y0) / 2
        look = {"rotation": 90, "ha": "center", "va": "center"}
        look["fontsize"] = drawing.STYLE["font.size"]
        first.figure.text(0.13 / drawing.WIDE, middle, first.get_ylabel(), **look)
    for index, axes in enumerate(all_axes):
        at_left = index % across == 0
        at_foot = index + across >= len(all_axes)
        axes.tick_params(labelbottom=at_foot, labelleft=at_left)
        axes.set_xlabel("round" if at_foot else "")
        if common or not at_left:
            axes.set_ylabel("")


def _panels(by_variation: Mapping[str, list[Track]], context: Context) -> list[Panel]:
    """A panel of the metric per variation; else one per column, the metric first."""
    methods = context.order
    all_tracks = _all_tracks(by_variation)
    columns = []
    if all_tracks:
        ordered = dict.fromkeys([context.metric, *COLUMNS])
        columns = [name for name in ordered if name in all_tracks[0].values]
    losses = [name for name in columns if name.endswith("loss")]
    section = context.scenario.get("model", {}).get("loss")
    kind = section["kind"] if isinstance(section, dict) else section
    loss = UNITS.get(kind or "", "loss per sample")
    labels = {name: axis_label(name) for name in columns}
    for name in losses:
        labels[name] = f"{name.split('_')[0]} {loss}"
    if not columns:
        return [Panel((), "loss per sample", [])]

    if "" not in by_variation:
        column = columns[0]
        panels = []
        for variant, variant_tracks in by_variation.items():
            variant_curves = curves(variant_tracks, [column], methods)
            panels.append(Panel((column,), labels[column], variant_curves, variant))
        return panels

    panels = []
    together = len(all_tracks) == 1 and len(losses) == 2
    for name in columns:
        if name not in losses or not together:
            panels.append(Panel((name,), labels[name], curves(all_tracks, [name], methods)))
    if together:
        panels.append(Panel(tuple(losses), loss, curves(all_tracks, losses, methods)))
    return panels


def _key(tracks: Sequence[Track]) -> str:
    """What thin lines, bands and crosses mean, as far as there are any."""
    notes = []
    most_seeds = 1
    spreads = []
    for track in tracks:
        seeds = len(last_rounds(track))
        if seeds > 1:
            most_seeds = max(most_seeds, seeds)
            spreads.append("each (thin)" if drawn_each(track) else "range")
    if spreads:
        notes.append(f"{most_seeds} seeds: mean and {' or '.join(dict.fromkeys(spreads))}")
    if any(map(diverged, tracks)):
        notes.append("cross: diverged")
    return "; ".join(notes)
