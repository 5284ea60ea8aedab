"""Figures for a paper: curves that can be told apart, panels that fit a page, scores."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from fedsim.report import derived, figures
from fedsim.report.context import context_of
from fedsim.report.figures import marks
from fedsim.report.figures.drawing import COLOURS, HIGH, WIDE
from fedsim.study.price import axis_of
from fedsim.study.words import variation_in_words

SCENARIO = {
    "name": "small",
    "rounds": 4,
    "data": {"clients": 30},
    "cohort": {"kind": "uniform", "size": 6},
    "evaluate": {"metric": "test_accuracy", "target": 0.5},
}
MANY = [f"method_{i}(lr={i})" for i in range(16)]
SHARES = [0, 0.1, 0.2, 0.3]


def rounds(methods, variants=("",), seeds=3, last=5):
    """Rows of `rounds.csv`; later methods and variations are worse."""
    records = []
    for v, variant in enumerate(variants):
        for m, method in enumerate(methods):
            for seed in range(seeds):
                for r in range(last):
                    accuracy = (0.9 - 0.05 * m - 0.1 * v) * (1 - 1 / (1 + r)) + 0.01 * seed
                    row = {"method": method, "seed": seed, "round": r, "variant": variant}
                    records.append({**row, "test_loss": 1 - accuracy, "test_accuracy": accuracy})
    frame = pd.DataFrame(records)
    return frame.drop(columns="variant") if variants == ("",) else frame


def table(means, path="fleet.malicious", values=SHARES, **more):
    """Rows of `compare.csv`: means by method and value of the axis."""
    head = {"baseline": next(iter(means)), "metric": "test_accuracy", "score": "final"}
    head |= {"seeds": 5, "sd": 0.02, "diverged": 0, **more}
    rows = []
    for method, of_method in means.items():
        for value, mean in zip(values, of_method, strict=True):
            point = {"variant": f"{path}={value:g}", path: value, "mean": mean}
            rows.append({"method": method, **point, **head})
    return rows


def scores_of(rows, scenario, start=None, order=()):
    """Figures of the scores against the axis, with the break-down points that follow."""
    path = axis_of(scenario)
    starts = []
    if start is not None:
        starts = [{"round": 0, "variant": r["variant"], r["metric"]: start} for r in rows]
    fallen = derived.fallen_of(None, rows, starts, path)
    return figures.figures_of_scores(rows, context_of(scenario, order=order), fallen, start)


def varied(values, path="fleet.malicious"):
    return {**SCENARIO, "compare": {"vary": {path: list(values)}}}


def legend(figure):
    """Names of the legend, line by line."""
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    columns = figure.legends[0]._ncols
    lines = -(-len(texts) // columns)
    by_line = [texts[j * lines + i] for i in range(lines) for j in range(columns)]
    return [text for text in by_line if text]


def strong(axes):
    """The curves of accuracy that are not pale."""
    curves = [line for line in axes.lines if line.get_label() == "test_accuracy"]
    return [line for line in curves if line.get_color() != marks.PALE]


def test_methods_differ_in_colour_and_marker_and_neighbours_in_dash():
    looks = [{**marks.line_of(rank), **marks.marker_of(rank)} for rank in range(marks.STRONG)]
    assert len({look["color"] for look in looks}) == len(COLOURS) == 8
    assert len({look["marker"] for look in looks}) == 8
    assert all(a["linestyle"] != b["linestyle"] for a, b in pairwise(looks))
    assert len({(str(look["linestyle"]), look["marker"]) for look in looks}) == 8  # in grey too
    assert all(a["lw"] > b["lw"] and a["zorder"] < b["zorder"] for a, b in pairwise(looks))


def test_eight_methods_are_strong_and_the_others_pale_and_numbered():
    figure = figures.figure_of_curves(rounds(MANY), context_of(SCENARIO, order=MANY))
    axes = figure.axes[0]
    lines = [line for line in axes.lines if line.get_label() == "test_accuracy"]
    assert len(lines) == 16 and len(strong(axes)) == 8
    assert {line.get_linewidth() for line in lines if line not in strong(axes)} == {0.7}
    assert {text.get_text() for text in axes.texts} >= {str(n) for n in range(9, 17)}
    assert legend(figure) == [*MANY[:8], *(f"{n} {MANY[n - 1]}" for n in range(9, 17))]
    assert len(axes.patches) == 8  # bands of the strong ones


@pytest.mark.long
@pytest.mark.parametrize(("count", "across", "pages"), [(3, 1, 1), (8, 2, 1), (40, 3, 2)])
def test_panels_share_their_axes_and_fit_a_page(count, across, pages):
    variants = [f"fleet.malicious={i}" for i in range(count)]
    frame = rounds(["a", "b"], variants, seeds=1, last=3)
    drawn = figures.pages_of_curves(frame, context_of(SCENARIO, order=["a", "b"]))
    assert len(drawn) == pages and sum(len(figure.axes) for figure in drawn) == count
    for figure in drawn:
        assert figure.get_figwidth() == WIDE and figure.get_figheight() <= HIGH + 0.2
        assert len({axes.get_xlim() for axes in figure.axes}) == 1
        assert len({axes.get_ylim() for axes in figure.axes}) == 1
        rows = {round(axes.get_position().y0, 6) for axes in figure.axes}
        assert len(rows) == -(-len(figure.axes) // across)
        assert [text.get_text() for text in figure.texts].count("test accuracy (share)") == 1
    titles = [axes.get_title(loc="left") for figure in drawn for axes in figure.axes]
    assert titles == [variation_in_words(name) for name in variants]


def test_differences_of_many_variations_fit_pages():
    means = {name: [0.5] * 3 for name in MANY}
    rows = table(means, values=SHARES[:3], difference=0.1, ci_low=0, ci_high=0.2, p_adjusted=1.0)
    pages = figures.pages_of_differences(rows, context_of(SCENARIO, order=MANY[::-1]))
    assert [len(figure.axes) for figure in pages] == [2, 1]
    for figure in pages:
        assert figure.get_figheight() <= HIGH
        names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert names == MANY[:0:-1]


def test_scores_stand_against_the_axis_with_their_interval():
    means = {"mean": [0.9, 0.8, 0.2, 0.1], "median": [0.88, 0.87, 0.86, 0.85]}
    (figure,) = scores_of(table(means), varied(SHARES), 0.1, ["mean", "median"])
    (axes,) = figure.axes
    curves = [line for line in axes.lines if line.get_label() == "score"]
    for line, of_method in zip(curves, means.values(), strict=True):
        assert list(line.get_xdata()) == SHARES
        assert list(line.get_ydata()) == of_method
    heights = axes.patches[1].get_path().vertices[:, 1]
    half = 2.776445 * 0.02 / np.sqrt(5)
    assert (heights.min(), heights.max()) == pytest.approx((0.85 - half, 0.88 + half))
    (cross,) = [line for line in axes.lines if line.get_label() == "broken down"]
    assert (list(cross.get_xdata()), list(cross.get_ydata())) == ([0.2], [0.2])
    assert axes.get_xlabel() == "share of malicious clients" and axes.get_xscale() == "linear"
    note = " ".join(text.get_text() for text in figure.texts).replace("\n", " ")
    assert "mean and 95 % interval over 5 seeds; cross: broken down" in note
    assert legend(figure) == ["mean", "median"]


def test_an_axis_that_grows_by_factors_is_logarithmic_and_says_so():
    rates = [0.001, 0.01, 0.1, 1]
    rows = table({"a": [0.2, 0.5, 0.9, 0.1]}, "client.lr", rates)
    (figure,) = scores_of(rows, varied(rates, "client.lr"))
    (axes,) = figure.axes
    assert axes.get_xscale() == "log" and axes.get_xlabel() == "client learning rate, logarithmic"
    # without the score of the start no break-down point is known
    assert "broken down" not in {line.get_label() for line in axes.lines}


@pytest.mark.parametrize(
    ("vary", "path"),
    [
        ({"a.b": [0, 0.5], "c": [3]}, "a.b"),
        ({"a.b": [0.5]}, None),
        ({"a.b": [0, 0.5], "c": [3, 4]}, None),
        ({"a.b": [0, 0.2, 0.5], "c": [3, 4]}, "a.b"),
        ({"a.b": [0, 0.2, 0.5], "c": [3, 4, 5]}, None),
        ({"a.b": [0, 0.2, 0.5], "c": ["x", "y", "z"]}, "a.b"),
        ({"a.b": [True, False]}, None),
        ({}, None),
    ],
)
def test_scores_are_drawn_where_exactly_one_axis_is_numeric(vary, path):
    assert axis_of({"compare": {"vary": vary}}) == path and axis_of({}) is None


def test_runs_without_a_mean_leave_a_gap():
    rows = table({"a": [0.9, None, 0.5, 0.4], "b": [None] * 4})
    rows = [{**row, "sd": None} if row["method"] == "b" else row for row in rows]
    (figure,) = scores_of(rows, varied(SHARES), 0.1)
    (axes,) = figure.axes
    lines = [line for line in axes.lines if line.get_label() == "score"]
    assert list(lines[0].get_xdata()) == [0, 0.2, 0.3] and not len(lines[1].get_xdata())
    losses = table({"a": [0.1, 0.2, np.inf, np.inf]}, metric="test_loss")
    (figure,) = scores_of(losses, varied(SHARES), 2.3)
    (axes,) = figure.axes
    assert list(axes.lines[0].get_xdata()) == [0, 0.1]


def test_runs_that_diverged_with_a_finite_loss_are_marked():
    runs = [{"method": "a", "seed": seed, "final": 0.5, "diverged": seed} for seed in (0, 1)]
    drawn = dict(derived.all_figures({"rounds": rounds(["a"])}, runs, context_of(SCENARIO)))
    axes = drawn["curves"][0].axes[0]
    crosses = [line for line in axes.lines if line.get_label() == "test_accuracy, diverged"]
    assert len(crosses) == 1 and list(crosses[0].get_xdata()) == [4]
