"""Methods by attacks as a heat map: mean scores, the worst of every method framed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsim.report.figures.drawing import COLOURS, literal, sheet, style
from fedsim.report.results import Row, metric_of
from fedsim.study.standings import mean_score
from fedsim.study.summary import in_words, larger_is_better
from fedsim.study.words import variation
from fedsim.study.worst_case import by_attack

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LETTER, CELL = 0.055, 0.19  # inches: of a letter, and high
LONGEST = 26  # letters of a name


def figures_of_attacks(
    summary: Sequence[Row], scenario: Mapping[str, Any], score: str, order: Sequence[str] = ()
) -> list["Figure"]:
    """A heat map for every variation beside the attack; none where attacks do not vary.

    Args:
      summary: rows of `summary.csv`.
      scenario: resolved, for its name.
      score: `final`, `best` or `mean_last_k`.
      order: of the methods, the most important first.
    """
    return [_figure(rest, methods, scenario, score, order) for rest, methods in by_attack(summary).items()]


def _figure(
    rest: str,
    methods: Mapping[str, Mapping[str, list[Row]]],
    scenario: Mapping[str, Any],
    score: str,
    order: Sequence[str],
) -> "Figure":
    names = [name for name in dict.fromkeys([*order, *methods]) if name in methods]
    attacks = list(dict.fromkeys(attack for runs in methods.values() for attack in runs))
    table = np.array([[mean_score(methods[m].get(a, []), score) for a in attacks] for m in names], float)
    runs = [run for runs in methods.values() for part in runs.values() for run in part]
    metric = metric_of(runs)
    seeds = len({run["seed"] for run in runs})
    note = f"{score} {in_words(metric)}, mean over {seeds} seeds; framed: the worst of the method"
    note += f"; {variation(rest, scenario)}" if rest else ""
    heads = [literal(variation(attack, scenario).removesuffix(" on the wire"), LONGEST) for attack in attacks]
    labels = [literal(name, LONGEST) for name in names]
    left, foot = (0.12 + LETTER * max(map(len, texts)) for texts in (labels, heads))
    with style():
        title = str(scenario.get("name", ""))
        figure, (axes,) = sheet(title, note, [CELL * len(names)], foot, left, right=0.08)
        _cells(axes, table, larger_is_better(metric))
        axes.set_xticks(range(len(heads)), heads, rotation=90)
        axes.set_yticks(range(len(labels)), labels)
        axes.tick_params(length=0)
        return figure


def _cells(axes: "Axes", table: np.ndarray, rising: bool) -> None:
    """A rectangle for every pair, with its number; darker is better."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    known = np.where(np.isfinite(table), table if rising else -table, np.nan)
    low, high = (np.nanmin(known), np.nanmax(known)) if np.isfinite(known).any() else (0.0, 1.0)
    axes.set(xlim=(-0.5, table.shape[1] - 0.5), ylim=(len(table) - 0.5, -0.5))
    axes.grid(False)
    axes.spines[:].set_visible(False)
    for (y, x), value in np.ndenumerate(known):
        shade = 0.0 if np.isnan(value) else 0.05 + 0.75 * (value - low) / max(high - low, 1e-12)
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fc=colormaps["Blues"](shade), ec="white", lw=0.5))
        text = "" if np.isnan(table[y, x]) else f"{table[y, x]:.2f}" if np.isfinite(table[y, x]) else "∞"
        axes.text(x, y, text, ha="center", va="center", fontsize=5.5, color="white" if shade > 0.5 else "black")
    for y, row in enumerate(known):
        if np.isfinite(row).any():
            worst = (int(np.nanargmin(row)) - 0.5 + 0.04, y - 0.5 + 0.06)
            axes.add_patch(Rectangle(worst, 0.92, 0.88, fill=False, ec=COLOURS[1], lw=1.0))
