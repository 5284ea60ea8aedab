"""Accuracy and losses against rounds, from the rows of `rounds.csv`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from fedsim.report.figures.drawing import FOOT, GAP, GREY, HIGH, RIGHT, SMALL, STYLE, WIDE, literal, sheet, style
from fedsim.report.figures.marks import STRONG, legend, legend_inches, line_of, markers_of, numbered
from fedsim.report.series import Track, by_variant, diverged, last_rounds, series, tracks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("test_accuracy", "test_loss", "train_loss")
BAND = 3  # seeds from which on their range is a band
FEW = 15  # points up to which each is marked, of a single method
LOGARITHMIC = 100.0  # largest loss over the smallest, from which on the scale is logarithmic
TRAIN = 4  # the colour of the train loss where it shares a panel with the test loss
UNITS = {"cross_entropy": "cross-entropy (nats)", "squared": "squared error"}
ABREAST = ((3, 1, 1.25), (10, 2, 1.05), (27, 3, 0.9))  # panels up to which so many stand in a row, and how high it is
LOW = 0.62  # inches: how low a row of panels may become to fit a page
LETTER = 0.052  # inches of a letter above a panel


class Panel(NamedTuple):
    """Axes to be: the columns that share them, of which methods, and the variation that they show."""

    columns: tuple[str, ...]
    label: str
    methods: list[Track]
    variant: str = ""


def pages_of_curves(
    rounds: pd.DataFrame, scenario: Mapping[str, Any], order: Sequence[str] | None = None
) -> list["Figure"]:
    """`figure_of_curves`; of more variations than fit a page several, their panels in turn."""
    tables, most = list(by_variant(rounds).values()), ABREAST[-1][0]
    names = _ordered(rounds, order)
    pages = [pd.concat(tables[i : i + most]) for i in range(0, len(tables), most)]
    return [figure_of_curves(page, scenario, names) for page in pages]


def figure_of_curves(rounds: pd.DataFrame, scenario: Mapping[str, Any], order: Sequence[str] | None = None) -> "Figure":
    """A figure of a run or a comparison: a panel of test accuracy, where there is any, above panels of the losses.

    A line per method: of one seed as it is; of several their mean, with the range of three or more as a band. The mean
    is over rounds that all seeds reached; where a seed ended early each is drawn, thin, up to its last finite value, and
    a cross says that it diverged there. Of one method the two losses share a panel. Where something varies, there is a
    panel per variation instead, of the metric alone, all with the same axes. Methods after the eighth are pale and
    numbered.

    Args:
      rounds: the columns of `rounds.csv`; losses and accuracies may be missing, NaN or infinite. A further column
        `diverged` says which runs did; without it that is told from their last test loss.
      scenario: resolved, for the name, the small print and the target.
      order: of the methods, the most important first; left out: as they appear.
    """
    by = {variant: tracks(table, (*COLUMNS, "diverged")) for variant, table in by_variant(rounds).items()}
    methods = [track for of_variant in by.values() for track in of_variant]
    names = _ordered(rounds, order)
    panels = list(_panels(by, scenario)) or [Panel((), "loss per sample", [])]
    target = scenario.get("evaluate", {}).get("target") if len(panels) > ABREAST[0][0] else None
    notes = (
        _setting(scenario),
        _key(methods),
        f"pale, by number: rank {STRONG + 1} and after" * (len(names) > STRONG),
        "" if target is None else f"dashed: target {target:g}",
    )
    last = max((int(track.rounds.max()) for track in methods), default=0)
    with style():
        figure, all_axes, across = _sheet(scenario, "; ".join(filter(None, notes)), len(panels), names, "" not in by)
        for axes, panel in zip(all_axes, panels, strict=False):
            axes.set_xlim(*((-0.02 * last, 1.02 * last) if last else (-0.5, 0.5)))
            _fill(axes, panel, names, "" not in by and _wide(panels))
            _target(axes, panel, scenario, accurate="test_accuracy" in panels[0].columns)
            axes.set_title(_title(panel.variant, axes, across), loc="left", fontsize=SMALL, pad=2)
        _share(all_axes, len(panels), across, "" not in by)
        for axes, panel in zip(all_axes, panels, strict=False):
            numbered(axes, _ends(panel, names))
        if len(names) > 1:
            legend(figure, names)
        return figure


def _ordered(rounds: pd.DataFrame, order: Sequence[str] | None) -> list[str]:
    """All methods with rows, those of the order first."""
    names = list(dict.fromkeys(np.asarray(rounds["method"], object).astype(str).tolist()))
    return [*(name for name in order or () if name in names), *(name for name in names if name not in (order or ()))]


def _sheet(
    scenario: Mapping[str, Any], note: str, panels: int, names: Sequence[str], varied: bool
) -> tuple["Figure", list["Axes"], int]:
    """A sheet with as many axes as there are panels, or a few more, and how many of them are in a row."""
    across, high = next(((n, high) for most, n, high in ABREAST if panels <= most), ABREAST[-1][1:])
    if not varied:
        across, high = 1, 1.25 if panels > 1 else 1.75
    rows, foot = -(-panels // across), FOOT + legend_inches(names)
    gap = GAP + 0.1 if varied else GAP
    high = max(min(high, (HIGH - foot - 0.6) / rows - gap), LOW)
    right = RIGHT + (0.1 if len(names) > STRONG else 0.0)
    figure, axes = sheet(str(scenario.get("name", "")), note, [high] * rows, foot, gap=gap, across=across, right=right)
    for spare in axes[panels:]:
        spare.remove()
    return figure, axes[:panels], across


def _title(variant: str, axes: "Axes", across: int) -> str:
    """The variation above a panel; beside others by the last words of its paths."""
    most = int(axes.get_position().width * WIDE / LETTER)
    if across > 1:
        variant = ", ".join(part.rpartition(".")[2] if "=" not in part else _tail(part) for part in variant.split(", "))
    return literal(variant, max(most, 8))


def _tail(setting: str) -> str:
    """`fleet.malicious=0.2` -> `malicious=0.2`."""
    path, _, value = setting.partition("=")
    return f"{path.rpartition('.')[2]}={value}"


def _share(all_axes: Sequence["Axes"], panels: int, across: int, alike: bool) -> None:
    """The same limits for all, where all show the same; numbers and labels stand at the left and at the foot alone."""
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


def _ends(panel: Panel, names: Sequence[str]) -> list[tuple[int, float, float]]:
    """Place and last point of every pale curve of a panel."""
    ends = []
    for track in panel.methods:
        rounds, common = series(track, panel.columns[0]).common()
        if names.index(track.name) >= STRONG and len(rounds):
            ends.append((names.index(track.name), float(rounds[-1]), float(common[-1].mean())))
    return ends


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


def _fill(axes: "Axes", panel: Panel, names: Sequence[str], log: bool) -> None:
    """The curves of a panel, the most important ones above the others, and its scales."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    for track in sorted(panel.methods, key=lambda track: names.index(track.name)):
        place = names.index(track.name)
        for column in panel.columns:
            shade = TRAIN if column == "train_loss" and len(panel.columns) > 1 else place
            _curve(
                axes,
                track,
                column,
                {**line_of(place), "color": line_of(shade)["color"]},
                place if len(names) > 1 else None,
            )
    axes.set_ylabel(panel.label)
    steps = {"min_n_ticks": 1, "steps": [1, 2, 5, 10]}
    axes.xaxis.set_major_locator(MaxNLocator(6 if axes.get_position().width > 0.5 else 3, integer=True, **steps))
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
        axes.legend([drawn[column] for column in panel.columns], [c.split("_")[0] for c in panel.columns], loc="best")


def _curve(axes: "Axes", track: Track, column: str, style: dict[str, Any], place: int | None) -> None:
    """One method's lines in one panel, each labelled by its column; with its marker where it is one of several."""
    by_seed = series(track, column)
    rounds, common = by_seed.common()
    strong = place is None or place < STRONG
    if len(by_seed.seeds) > 1 and _each(track):
        for seed in by_seed.seeds:
            thin = {**style, "lw": 0.6 if strong else 0.4, "alpha": 0.6}
            axes.plot(*by_seed.of(seed), label=f"{column}, seed {seed}", **thin)
    elif len(by_seed.seeds) > 1 and strong:
        band = {"color": style["color"], "alpha": 0.2 if place is None else 0.13, "lw": 0, "label": f"{column}, range"}
        axes.fill_between(rounds, common.min(1), common.max(1), **band)
    marked = {"marker": "o", "markersize": 2.0} if len(by_seed.rounds) <= FEW else {}
    if place is not None:
        marked = markers_of(place, len(rounds))
    axes.plot(rounds, common.mean(1) if len(rounds) else [], label=column, **style, **marked)
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


def _wide(panels: Sequence[Panel]) -> bool:
    """Whether the losses of some panels need a logarithmic scale."""
    values = [series(track, column).values.ravel() for p in panels for track in p.methods for column in p.columns]
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
    if axes.get_position().width < 0.5:  # among many panels it is told above them
        return
    edge = axes.get_yaxis_transform()
    axes.text(0.01, target, f"target {target:g}", transform=edge, va="bottom", fontsize=SMALL - 0.5, color=GREY)


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
        parts.append(f"{kind} cohorts" + (f" at rate {rate:g}" if isinstance(rate, int | float) else ""))
    return ", ".join(parts)


def _key(methods: Sequence[Track]) -> str:
    """The meaning of thin lines, bands and crosses, as far as there are any."""
    several = [track for track in methods if len(last_rounds(track)) > 1]
    ways = dict.fromkeys("each (thin)" if _each(track) else "range" for track in several)
    seeds = max((len(last_rounds(track)) for track in several), default=1)
    parts = [f"{seeds} seeds: mean and {' or '.join(ways)}"] if several else []
    return "; ".join([*parts, "cross: diverged"] if any(map(diverged, methods)) else parts)
