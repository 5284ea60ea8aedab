"""Accuracy and losses against rounds, from the rows of `rounds.csv`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from fedsim.report.figures.drawing import COLOURS, FOOT, GAP, GREY, SMALL, WIDE, literal, sheet, style
from fedsim.report.series import Track, by_variant, diverged, last_rounds, series, tracks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("test_accuracy", "test_loss", "train_loss")
BAND = 3  # seeds from which on their range is a band
FEW = 15  # points up to which each is marked
LOGARITHMIC = 100.0  # largest loss over the smallest, from which on the scale is logarithmic
LEGEND_LINE = 0.13  # inches
TRAIN = 4  # the colour of the train loss where it shares a panel with the test loss
UNITS = {"cross_entropy": "cross-entropy (nats)", "squared": "squared error"}


class Panel(NamedTuple):
    """Axes to be: the columns that share them, of which methods, and the variation that they show."""

    columns: tuple[str, ...]
    label: str
    methods: list[Track]
    variant: str = ""


def figure_of_curves(rounds: pd.DataFrame, scenario: Mapping[str, Any]) -> "Figure":
    """A figure of a run or a comparison: a panel of test accuracy, where there is any, above panels of the losses.

    A line per method: of one seed as it is; of several their mean, with the range of three or more as a band. The mean
    is over rounds that all seeds reached; where a seed ended early each is drawn, thin, up to its last finite value, and
    a cross says that it diverged there. Of one method the two losses share a panel. Where something varies, there is a
    panel per variation instead, of the metric alone.

    Args:
      rounds: the columns of `rounds.csv`; losses and accuracies may be missing, NaN or infinite.
      scenario: resolved, for the name, the small print and the target.
    """
    by = {variant: tracks(table, COLUMNS) for variant, table in by_variant(rounds).items()}
    methods = [track for of_variant in by.values() for track in of_variant]
    names = list(dict.fromkeys(track.name for track in methods))
    panels = list(_panels(by, scenario)) or [Panel((), "loss per sample", [])]
    lines = -(-len(names) // _abreast(names)) if len(names) > 1 else 0
    note = "; ".join(part for part in (_setting(scenario), _key(methods)) if part)
    last = max((int(track.rounds.max()) for track in methods), default=0)
    with style():
        heights = [1.25 if len(panels) > 1 else 1.75] * len(panels)
        foot = FOOT + (LEGEND_LINE * lines + 0.08 if lines else 0.0)
        gap = GAP if "" in by else GAP + 0.1
        figure, all_axes = sheet(str(scenario.get("name", "")), note, heights, foot, gap=gap)
        for axes, panel in zip(all_axes, panels, strict=True):
            _fill(axes, panel, names)
            _target(axes, panel, scenario, accurate="test_accuracy" in panels[0].columns)
            axes.set_xlim(*((-0.02 * last, 1.02 * last) if last else (-0.5, 0.5)))
            axes.tick_params(labelbottom=axes is all_axes[-1])
        all_axes[-1].set_xlabel("round")
        if lines:
            _legend(figure, names)
        return figure


def _panels(by: Mapping[str, list[Track]], scenario: Mapping[str, Any]) -> Iterator[Panel]:
    methods = [track for of_variant in by.values() for track in of_variant]
    columns = [name for name in COLUMNS if methods and name in methods[0].values]
    losses = tuple(name for name in columns if name.endswith("loss"))
    loss = UNITS.get(scenario.get("model", {}).get("loss") or "", "loss per sample")
    labels = {name: f"{name.split('_')[0]} {loss}" for name in losses} | {"test_accuracy": "test accuracy (share)"}
    if "" not in by and columns:
        metric = scenario.get("evaluate", {}).get("metric")
        column = metric if metric in columns else columns[0]
        yield from (Panel((column,), labels[column], of_variant, variant) for variant, of_variant in by.items())
        return
    if "test_accuracy" in columns:
        yield Panel(("test_accuracy",), labels["test_accuracy"], methods)
    if len(methods) == 1 and len(losses) == 2:
        yield Panel(losses, loss, methods)
    else:
        yield from (Panel((name,), labels[name], methods) for name in losses)


def _fill(axes: "Axes", panel: Panel, names: Sequence[str]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    for track in panel.methods:
        place = names.index(track.name)
        for column in panel.columns:
            shade = TRAIN if column == "train_loss" and len(panel.columns) > 1 else place
            _curve(axes, track, column, {"color": COLOURS[shade % len(COLOURS)], "linestyle": _dash(place)})
    axes.set_ylabel(panel.label)
    axes.set_title(literal(panel.variant, 60), loc="left", fontsize=SMALL, pad=2)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    if "test_accuracy" in panel.columns or not _wide(panel):
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    else:
        axes.set_yscale("log")
        axes.set_ylabel(f"{panel.label}, log")
        axes.yaxis.set_major_locator(LogLocator(numticks=6))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(_power))
    if len(panel.columns) > 1:
        drawn = {line.get_label(): line for line in axes.lines}
        axes.legend([drawn[column] for column in panel.columns], [c.split("_")[0] for c in panel.columns], loc="best")


def _curve(axes: "Axes", track: Track, column: str, style: dict[str, Any]) -> None:
    """One method's lines in one panel, each labelled by its column."""
    by_seed = series(track, column)
    rounds, common = by_seed.common()
    if len(by_seed.seeds) > 1 and _each(track):
        for seed in by_seed.seeds:
            axes.plot(*by_seed.of(seed), lw=0.6, alpha=0.6, label=f"{column}, seed {seed}", **style)
    elif len(by_seed.seeds) > 1:
        band = {"color": style["color"], "alpha": 0.2, "lw": 0, "label": f"{column}, range"}
        axes.fill_between(rounds, common.min(1), common.max(1), **band)
    marked = {"marker": "o", "markersize": 2.0} if len(by_seed.rounds) <= FEW else {}
    axes.plot(rounds, common.mean(1) if len(rounds) else [], lw=1.3, label=column, **style, **marked)
    for seed in diverged(track):
        if seed in by_seed.seeds:
            x, y = by_seed.of(seed)
            cross = {"ls": "", "marker": "x", "ms": 4.5, "mew": 1.2, "label": f"{column}, diverged"}
            axes.plot(x[-1:], y[-1:], color=style["color"], **cross)


def _each(track: Track) -> bool:
    """Whether every seed of a method is drawn: there are too few for a band, or some ended before the others."""
    last = last_rounds(track)
    return len(last) < BAND or len(set(last.values())) > 1 or bool(diverged(track))


def _power(value: float, _: Any) -> str:
    """A tick of a logarithmic axis."""
    return f"{value:g}" if 0.01 <= value < 1e4 else f"1e{round(np.log10(value))}"


def _wide(panel: Panel) -> bool:
    """Whether the losses of a panel need a logarithmic scale."""
    values = [series(track, column).values.ravel() for track in panel.methods for column in panel.columns]
    known = np.concatenate([np.zeros(0), *values])
    positive = known[known > 0]
    return len(positive) > 0 and not (known < 0).any() and bool(positive.max() > LOGARITHMIC * positive.min())


def _target(axes: "Axes", panel: Panel, scenario: Mapping[str, Any], accurate: bool) -> None:
    """A dashed line where the metric is to arrive."""
    evaluate = scenario.get("evaluate", {})
    metric, target = evaluate.get("metric", "test_accuracy"), evaluate.get("target")
    if metric == "test_accuracy" and not accurate:
        metric = "test_loss"  # as summaries fall back
    if target is None or metric not in panel.columns:
        return
    axes.axhline(target, lw=0.8, ls=(0, (4, 3)), color=GREY, zorder=1, label="target")
    edge = axes.get_yaxis_transform()
    axes.text(0.01, target, f"target {target:g}", transform=edge, va="bottom", fontsize=SMALL - 0.5, color=GREY)


def _setting(scenario: Mapping[str, Any]) -> str:
    """Rounds, clients and cohort."""
    cohort = scenario.get("cohort", {})
    counts = {"rounds": scenario.get("rounds"), "clients": scenario.get("data", {}).get("clients")}
    parts = [f"{n:,} {name}" for name, n in counts.items() if n is not None]
    kind = cohort.get("kind")
    if kind == "all":
        parts.append("all in every round")
    elif isinstance(cohort.get("size"), int):
        parts.append(f"{cohort['size']:,} a round ({kind})")
    elif kind:
        rate = cohort.get("rate")
        parts.append(f"{kind} cohorts" + (f" at rate {rate:g}" if isinstance(rate, int | float) else ""))
    return ", ".join(parts)


def _key(methods: Sequence[Track]) -> str:
    """The meaning of thin lines, bands and crosses, as far as there are any."""
    several = [track for track in methods if len(last_rounds(track)) > 1]
    ways = dict.fromkeys("each (thin)" if _each(track) else "range" for track in several)
    seeds = max((len(last_rounds(track)) for track in several), default=1)
    parts = [f"{seeds} seeds: mean and {' or '.join(ways)}"] if several else []
    return "; ".join([*parts, "cross: diverged"] if any(map(diverged, methods)) else parts)


def _dash(place: int) -> Any:
    """Solid, until the colours come round again."""
    return ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))[place // len(COLOURS) % 4]


def _abreast(names: Sequence[str]) -> int:
    """How many names stand in a line of the legend."""
    longest = max((len(literal(name)) for name in names), default=1)
    return max(min(int((WIDE - 0.2) / (0.35 + 0.055 * longest)), len(names), 4), 1)


def _legend(figure: "Figure", names: Sequence[str]) -> None:
    """At the foot, with names as they are."""
    from matplotlib.lines import Line2D

    styles = [{"color": COLOURS[place % len(COLOURS)], "linestyle": _dash(place)} for place in range(len(names))]
    handles = [Line2D([], [], lw=1.3, **style) for style in styles]
    where = {"loc": "lower center", "ncols": _abreast(names), "borderaxespad": 0.2, "labelspacing": 0.2}
    keys = figure.legend(handles, ["-"] * len(handles), **where)
    for key, name in zip(keys.get_texts(), names, strict=True):
        key.set_text(literal(name))  # given to `legend`, a name that begins with _ would be left out
