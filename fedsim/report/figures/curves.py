"""Accuracy and losses against rounds, from the rows of `rounds.csv`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from fedsim.report.about import About
from fedsim.report.figures.drawing import (
    FOOT,
    GAP,
    GREY,
    HIGH,
    RIGHT,
    SMALL,
    STYLE,
    WIDE,
    literal,
    sheet,
    style,
)
from fedsim.report.figures.marks import STRONG, legend, legend_inches, line_of, markers_of, numbered
from fedsim.report.pictures.curves import Curve, curves, drawn_each
from fedsim.report.series import Track, by_variant, diverged, last_rounds, tracks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("test_accuracy", "test_loss", "train_loss")
FEW = 15  # points up to which each is marked, of a single method
LOGARITHMIC = 100.0  # largest loss over the smallest, from which on the scale is logarithmic
TRAIN = 4  # the colour of the train loss where it shares a panel with the test loss
UNITS = {"cross_entropy": "cross-entropy (nats)", "squared": "squared error"}
# panels up to which so many stand in a row, and how high it is
ABREAST = ((3, 1, 1.25), (10, 2, 1.05), (27, 3, 0.9))
LOW = 0.62  # inches: how low a row of panels may become to fit a page
LETTER = 0.052  # inches of a letter above a panel


class Panel(NamedTuple):
    """Axes to be: the columns that share them, the curves of these, and the variation that they
    show.
    """

    columns: tuple[str, ...]
    label: str
    curves: list[Curve]
    variant: str = ""


def pages_of_curves(rounds: pd.DataFrame, about: About) -> list["Figure"]:
    """`figure_of_curves`; of more variations than fit a page several, their panels in turn."""
    tables, most = list(by_variant(rounds).values()), ABREAST[-1][0]
    names = _names(rounds, about)
    pages = [pd.concat(tables[i : i + most]) for i in range(0, len(tables), most)]
    return [figure_of_curves(page, about._replace(order=names)) for page in pages]


def figure_of_curves(rounds: pd.DataFrame, about: About) -> "Figure":
    """A figure of a run or a comparison: a panel of test accuracy, where there is any, above panels
    of the losses.

    A line per method: of one seed as it is; of several their mean, with the range of three or more
    as a band. The mean is over rounds that all seeds reached; where a seed ended early each is
    drawn, thin, up to its last finite value, and a cross says that it diverged there. Of one method
    the two losses share a panel. Where something varies, there is a panel per variation instead, of
    the metric alone, all with the same axes. Methods after the eighth are pale and numbered.

    Args:
      rounds: the columns of `rounds.csv`; losses and accuracies may be missing, NaN or infinite. A
        further column `diverged` says which runs did; without it that is told from their last test
        loss.
      about: what is shown; its scenario has the small print and the target.
    """
    names = _names(rounds, about)
    by = {
        variant: tracks(table, (*COLUMNS, "diverged"))
        for variant, table in by_variant(rounds).items()
    }
    varied = "" not in by
    panels = _panels(by, about.scenario, names) or [Panel((), "loss per sample", [])]
    target = (
        about.scenario.get("evaluate", {}).get("target") if len(panels) > ABREAST[0][0] else None
    )
    methods = [track for of_variant in by.values() for track in of_variant]
    notes = (
        _setting(about.scenario),
        _key(methods),
        f"pale, by number: rank {STRONG + 1} and after" * (len(names) > STRONG),
        "" if target is None else f"dashed: target {target:g}",
    )
    last = max((int(track.rounds.max()) for track in methods), default=0)
    with style():
        note = "; ".join(filter(None, notes))
        figure, all_axes, across = _sheet(about.title, note, len(panels), names, varied)
        for axes, panel in zip(all_axes, panels, strict=False):
            axes.set_xlim(*((-0.02 * last, 1.02 * last) if last else (-0.5, 0.5)))
            _fill(axes, panel, len(names) > 1, varied and _wide(panels))
            _target(axes, panel, about.scenario, accurate="test_accuracy" in panels[0].columns)
            axes.set_title(_title(panel.variant, axes, across), loc="left", fontsize=SMALL, pad=2)
        _share(all_axes, len(panels), across, varied)
        for axes, panel in zip(all_axes, panels, strict=False):
            numbered(axes, _ends(panel))
        if len(names) > 1:
            legend(figure, names)
        return figure


def _names(rounds: pd.DataFrame, about: About) -> list[str]:
    """All methods with rows, those of the order first."""
    return about.ordered(
        list(dict.fromkeys(np.asarray(rounds["method"], object).astype(str).tolist()))
    )


def _sheet(
    title: str, note: str, panels: int, names: Sequence[str], varied: bool
) -> tuple["Figure", list["Axes"], int]:
    """A sheet with as many axes as there are panels, or a few more, and how many of them are in a
    row.
    """
    across, high = next(((n, high) for most, n, high in ABREAST if panels <= most), ABREAST[-1][1:])
    if not varied:
        across, high = 1, 1.25 if panels > 1 else 1.75
    rows, foot = -(-panels // across), FOOT + legend_inches(names)
    gap = GAP + 0.1 if varied else GAP
    high = max(min(high, (HIGH - foot - 0.6) / rows - gap), LOW)
    right = RIGHT + (0.1 if len(names) > STRONG else 0.0)
    figure, axes = sheet(title, note, [high] * rows, foot, gap=gap, across=across, right=right)
    for spare in axes[panels:]:
        spare.remove()
    return figure, axes[:panels], across


def _title(variant: str, axes: "Axes", across: int) -> str:
    """The variation above a panel; beside others by the last words of its paths."""
    most = int(axes.get_position().width * WIDE / LETTER)
    if across > 1:
        variant = ", ".join(
            part.rpartition(".")[2] if "=" not in part else _tail(part)
            for part in variant.split(", ")
        )
    return literal(variant, max(most, 8))


def _tail(setting: str) -> str:
    """`fleet.malicious=0.2` -> `malicious=0.2`."""
    path, _, value = setting.partition("=")
    return f"{path.rpartition('.')[2]}={value}"


def _share(all_axes: Sequence["Axes"], panels: int, across: int, alike: bool) -> None:
    """The same limits for all, where all show the same; numbers and labels stand at the left and at
    the foot alone.
    """
    label, one_label = all_axes[0].get_ylabel(), alike and panels > 1
    if one_label:  # beside all rows
        middle = (all_axes[0].get_position().y1 + all_axes[-1].get_position().y0) / 2
        where = {"rotation": 90, "ha": "center", "va": "center", "fontsize": STYLE["font.size"]}
        all_axes[0].figure.text(0.13 / WIDE, middle, label, **where)
    if alike:
        limits = [axes.get_ylim() for axes in all_axes]
        low, high = min(low for low, _ in limits), max(high for _, high in limits)
    for place, axes in enumerate(all_axes):
        first, foot = place % across == 0, place + across >= panels
        if alike:
            axes.set_ylim(low, high)
        axes.tick_params(labelbottom=foot, labelleft=first)
        axes.set_xlabel("round" if foot else "")
        axes.set_ylabel(axes.get_ylabel() if first and not one_label else "")


def _ends(panel: Panel) -> list[tuple[int, float, float]]:
    """Place and last point of every pale curve of a panel."""
    pale = [one for one in panel.curves if one.place >= STRONG and one.column == panel.columns[0]]
    return [
        (one.place, float(one.rounds[-1]), float(one.mean[-1])) for one in pale if len(one.rounds)
    ]


def _panels(
    by: Mapping[str, list[Track]], scenario: Mapping[str, Any], names: Sequence[str]
) -> list[Panel]:
    """A panel for every variation; where nothing varies one of the accuracy, and of the losses one
    or two.
    """
    methods = [track for of_variant in by.values() for track in of_variant]
    columns = [name for name in COLUMNS if methods and name in methods[0].values]
    losses = tuple(name for name in columns if name.endswith("loss"))
    loss = UNITS.get(scenario.get("model", {}).get("loss") or "", "loss per sample")
    labels = {name: f"{name.split('_')[0]} {loss}" for name in losses} | {
        "test_accuracy": "test accuracy (share)"
    }
    if "" not in by and columns:
        metric = scenario.get("evaluate", {}).get("metric")
        column = metric if metric in columns else columns[0]
        return [
            Panel((column,), labels[column], curves(of_variant, [column], names), variant)
            for variant, of_variant in by.items()
        ]
    alone = [name for name in columns if name == "test_accuracy" or name in losses]
    together = len(methods) == 1 and len(losses) == 2
    if together:
        alone = [name for name in alone if name not in losses]
    panels = [Panel((name,), labels[name], curves(methods, [name], names)) for name in alone]
    return [*panels, *([Panel(losses, loss, curves(methods, losses, names))] if together else [])]


def _fill(axes: "Axes", panel: Panel, several: bool, log: bool) -> None:
    """The curves of a panel, the most important ones above the others, and its scales."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    for one in panel.curves:
        shade = TRAIN if one.column == "train_loss" and len(panel.columns) > 1 else one.place
        _curve(axes, one, {**line_of(one.place), "color": line_of(shade)["color"]}, several)
    axes.set_ylabel(panel.label)
    steps = {"min_n_ticks": 1, "steps": [1, 2, 5, 10]}
    axes.xaxis.set_major_locator(
        MaxNLocator(6 if axes.get_position().width > 0.5 else 3, integer=True, **steps)
    )
    if "test_accuracy" in panel.columns or not (log or _wide([panel])):
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    else:
        axes.set_yscale("log")
        axes.set_ylabel(f"{panel.label}, log")
        axes.yaxis.set_major_locator(LogLocator(numticks=6))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(_power))
    if len(panel.columns) > 1:
        drawn = {line.get_label(): line for line in axes.lines}
        axes.legend(
            [drawn[column] for column in panel.columns],
            [c.split("_")[0] for c in panel.columns],
            loc="best",
        )


def _curve(axes: "Axes", one: Curve, style: dict[str, Any], several: bool) -> None:
    """A curve in its panel, labelled by its column; with the method's marker where it is one of
    several.
    """
    strong = not several or one.place < STRONG
    if one.several and one.each:
        for seed in one.series.seeds:
            thin = {**style, "lw": 0.6 if strong else 0.4, "alpha": 0.6}
            axes.plot(*one.series.of(seed), label=f"{one.column}, seed {seed}", **thin)
    elif one.several and strong:
        alpha = 0.13 if several else 0.2
        band = {"color": style["color"], "alpha": alpha, "lw": 0, "label": f"{one.column}, range"}
        axes.fill_between(one.rounds, one.low, one.high, **band)
    marked = {"marker": "o", "markersize": 2.0} if len(one.series.rounds) <= FEW else {}
    if several:
        marked = markers_of(one.place, len(one.rounds))
    axes.plot(one.rounds, one.mean, label=one.column, **style, **marked)
    for seed in one.lost:
        if seed in one.series.seeds:
            x, y = one.series.of(seed)
            cross = {
                "ls": "",
                "marker": "x",
                "ms": 4.5,
                "mew": 1.2,
                "label": f"{one.column}, diverged",
            }
            axes.plot(x[-1:], y[-1:], color=style["color"], **cross)


def _power(value: float, _: Any) -> str:
    """A tick of a logarithmic axis."""
    return f"{value:g}" if 0.01 <= value < 1e4 else f"1e{round(np.log10(value))}"


def _wide(panels: Sequence[Panel]) -> bool:
    """Whether the losses of some panels need a logarithmic scale."""
    values = [one.series.values.ravel() for panel in panels for one in panel.curves]
    known = np.concatenate([np.zeros(0), *values])
    positive = known[known > 0]
    return (
        len(positive) > 0
        and not (known < 0).any()
        and bool(positive.max() > LOGARITHMIC * positive.min())
    )


def _target(axes: "Axes", panel: Panel, scenario: Mapping[str, Any], accurate: bool) -> None:
    """A dashed line where the metric is to arrive."""
    evaluate = scenario.get("evaluate", {})
    metric, target = evaluate.get("metric", "test_accuracy"), evaluate.get("target")
    if metric == "test_accuracy" and not accurate:
        metric = "test_loss"  # as summaries fall back
    if target is None or metric not in panel.columns:
        return
    axes.axhline(target, lw=0.8, ls=(0, (4, 3)), color=GREY, zorder=1, label="target")
    if axes.get_position().width < 0.5:  # among many panels it is told above them
        return
    edge = axes.get_yaxis_transform()
    axes.text(
        0.01,
        target,
        f"target {target:g}",
        transform=edge,
        va="bottom",
        fontsize=SMALL - 0.5,
        color=GREY,
    )


def _setting(scenario: Mapping[str, Any]) -> str:
    """Rounds, clients and cohort, or buffer and concurrency of an asynchronous server."""
    cohort, schedule = scenario.get("cohort", {}), scenario.get("schedule", {})
    counts = {"rounds": scenario.get("rounds"), "clients": scenario.get("data", {}).get("clients")}
    parts = [f"{n:,} {name}" for name, n in counts.items() if n is not None]
    kind = cohort.get("kind")
    if "concurrency" in schedule:
        buffer = f"{schedule['buffer']:,} a round, " if "buffer" in schedule else ""
        parts.append(f"{buffer}{schedule['concurrency']:,} at a time ({schedule['kind']})")
    elif kind == "all":
        parts.append("all in every round")
    elif isinstance(cohort.get("size"), int):
        parts.append(f"{cohort['size']:,} a round ({kind})")
    elif kind:
        rate = cohort.get("rate")
        parts.append(
            f"{kind} cohorts" + (f" at rate {rate:g}" if isinstance(rate, int | float) else "")
        )
    return ", ".join(parts)


def _key(methods: Sequence[Track]) -> str:
    """The meaning of thin lines, bands and crosses, as far as there are any."""
    several = [track for track in methods if len(last_rounds(track)) > 1]
    ways = dict.fromkeys("each (thin)" if drawn_each(track) else "range" for track in several)
    seeds = max((len(last_rounds(track)) for track in several), default=1)
    parts = [f"{seeds} seeds: mean and {' or '.join(ways)}"] if several else []
    return "; ".join([*parts, "cross: diverged"] if any(map(diverged, methods)) else parts)
