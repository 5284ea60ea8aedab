"""Figures draw what the tables say, with the same bytes every time, and names as they are."""

import html
import io
import logging
import re
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pandas as pd
import pytest
from fontTools.ttLib import TTFont

from fedsim.report import figures
from fedsim.report.context import context_of
from fedsim.report.figures import drawing
from fedsim.report.page.partition import heat_map
from fedsim.report.series import diverged, tracks
from fedsim.study.label_skew import LabelCounts

SCENARIO = {
    "name": "small",
    "rounds": 4,
    "data": {"clients": 30, "partition": {"kind": "dirichlet", "alpha": 0.3, "sigma": None}},
    "model": {"kind": "mlp", "loss": None},
    "cohort": {"kind": "uniform", "size": 6},
    "evaluate": {"metric": "test_accuracy", "target": 0.5},
}
HOSTILE = ["</script><b>", "$x_1$", "=cmd()", "_hidden", "\x1b[31mred\n", "猫", "x" * 300]


def rows(method="fedavg", seeds=1, rounds=5, **columns):
    """A frame as `rounds.csv` has it.

    Args:
      method: its name.
      seeds: how many there are.
      rounds: how many there are, with the start.
      columns: values by column, `[rounds]` or `[seeds][rounds]`; None alone: without the column.
    """
    losses = [[2.0 / (1 + r) + 0.1 * seed for r in range(rounds)] for seed in range(seeds)]
    values = {
        "train_loss": [[None, *of_seed[1:]] for of_seed in losses],
        "test_loss": losses,
        "test_accuracy": [[1 - loss / 4 for loss in of_seed] for of_seed in losses],
        **columns,
    }
    index = pd.MultiIndex.from_product([range(seeds), range(rounds)], names=["seed", "round"])
    frame = pd.DataFrame({"method": method}, index).reset_index()
    for name, column in values.items():
        if column != [None] * rounds:
            of_seeds = column if isinstance(column[0], list) else [column] * seeds
            frame[name] = np.array(of_seeds, float).ravel()
    return frame


def counts(clients, labels, seed=0):
    drawn = np.random.default_rng(seed).poisson(3, (clients, labels))
    return LabelCounts(np.arange(clients), list(range(labels)), drawn)


def curves(frame, scenario):
    return figures.files_of(figures.pages_of_curves(frame, context_of(scenario)), "curves")


def partition(held, scenario):
    return figures.files_of([figures.figure_of_partition(held, context_of(scenario))], "partition")


def drawn(axes):
    """Data of the lines of some axes by their labels."""
    data = {}
    for line in axes.lines:
        data[line.get_label()] = (list(line.get_xdata()), list(line.get_ydata()))
    return data


def accuracy_colours(axes):
    return [line.get_color() for line in axes.lines if line.get_label() == "test_accuracy"]


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def words(figure):
    """All text of a figure that can be seen."""
    texts = figure.findobj(lambda artist: hasattr(artist, "get_text"))
    return " ".join(text.get_text() for text in texts).replace("\n", " ")


def test_a_panel_for_every_variation():
    """Of the metric alone, in the same colours, with the methods named once."""
    frames = []
    for lr in (0.1, 1):
        for name in ("fedavg", "median"):
            frames.append(rows(name, seeds=3).assign(variant=f"lr={lr}"))
    figure = figures.figure_of_curves(pd.concat(frames), context_of(SCENARIO))
    assert titles(figure) == ["learning rate 0.1", "learning rate 1"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fedavg", "median"]
    first, second = map(accuracy_colours, figure.axes)
    assert first == second and len(set(first)) == 2


def test_differences_are_drawn_where_the_table_has_them():
    one = {"baseline": "fedavg", "metric": "test_accuracy"}
    one |= {"difference": 0.1, "ci_low": -0.1, "ci_high": 0.3}
    table = [
        {**one, "method": "median", "variant": "lr=0.1", "p_adjusted": 0.01},
        {**one, "method": "krum", "variant": "lr=0.1", "p_adjusted": 0.2},
        {**one, "method": "local_only", "variant": "lr=0.1", "metric": "", "failed": 0},
        {**one, "method": "median", "variant": "lr=1", "difference": None, "p_adjusted": None},
    ]
    (figure,) = figures.pages_of_differences(table, context_of(SCENARIO))
    assert titles(figure) == ["learning rate 0.1", "learning rate 1"]
    above, below = figure.axes
    marks = [line for line in above.lines if line.get_label() == "mark"]
    points = [(list(mark.get_xdata()), list(mark.get_ydata())) for mark in marks]
    assert points == [([0.1], [0]), ([0.1], [1])]
    assert [m.get_markerfacecolor() for m in marks] == [marks[0].get_markeredgecolor(), "white"]
    assert drawn(above)["interval"] == ([-0.1, 0.3], [1, 1]) and "mark" not in drawn(below)
    assert [label.get_text() for label in above.get_yticklabels()] == ["median", "krum"]


def test_lines_are_the_rows_of_one_seed_and_a_gap_is_bridged():
    frame = rows(train_loss=[None, 2.0, None, 1.0, 0.5])
    accuracy, losses = figures.figure_of_curves(frame, context_of(SCENARIO)).axes
    numbers = frame["round"].tolist()
    assert drawn(accuracy)["test_accuracy"] == (numbers, frame["test_accuracy"].tolist())
    assert drawn(losses)["test_loss"] == (numbers, frame["test_loss"].tolist())
    assert drawn(losses)["train_loss"] == ([1, 3, 4], [2, 1, 0.5])
    assert accuracy.get_ylabel() == "test accuracy (share)"
    assert (losses.get_ylabel(), losses.get_xlabel()) == ("loss per sample", "round")


def test_two_seeds_are_thin_and_their_mean_bold():
    frame = rows(seeds=2)
    lines = drawn(figures.figure_of_curves(frame, context_of(SCENARIO)).axes[0])
    each = [frame[frame["seed"] == s]["test_accuracy"].to_numpy() for s in (0, 1)]
    assert lines["test_accuracy, seed 0"][1] == each[0].tolist()
    assert lines["test_accuracy, seed 1"][1] == each[1].tolist()
    assert lines["test_accuracy"][1] == ((each[0] + each[1]) / 2).tolist()


def test_three_seeds_are_a_mean_and_a_band_from_the_lowest_to_the_highest():
    frame = rows(seeds=3)
    figure = figures.figure_of_curves(frame, context_of(SCENARIO))
    axes = figure.axes[0]
    wide = frame.pivot(index="round", columns="seed", values="test_accuracy")
    assert drawn(axes)["test_accuracy"][1] == pytest.approx(wide.mean(axis=1).tolist())
    corners = axes.patches[0].get_path().vertices
    for number, row in wide.iterrows():
        at = corners[corners[:, 0] == number][:, 1]
        assert (at.min(), at.max()) == (row.min(), row.max())
    said = words(figure)
    assert "small" in said and "3 seeds: mean and range" in said


def test_every_method_has_a_line_a_colour_and_its_name():
    frame = pd.concat([rows("fedavg"), rows("median", test_loss=[3.0, 2, 1, 1, 1])])
    figure = figures.figure_of_curves(frame, context_of(SCENARIO))
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "test accuracy (share)",
        "test loss per sample",
        "train loss per sample",
    ]
    one, other = (line for line in figure.axes[1].lines)
    assert list(other.get_ydata()) == [3, 2, 1, 1, 1] and one.get_color() != other.get_color()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fedavg", "median"]


def test_a_line_ends_where_its_seed_diverged_and_the_mean_where_the_first_did():
    losses = [
        [2.0, 1, 0.5, 0.4, 0.3],
        [2.0, 1, 9, float("inf"), float("nan")],
        [2.0, 1, 1, 1, float("inf")],
    ]
    frame = rows(seeds=3, test_loss=losses)
    accuracy, below = figures.figure_of_curves(frame, context_of(SCENARIO)).axes
    assert diverged(tracks(frame, ("test_loss",))[0]) == [1, 2]
    assert drawn(below)["test_loss, seed 1"] == ([0, 1, 2], [2, 1, 9])
    assert drawn(below)["test_loss, seed 0"] == ([0, 1, 2, 3, 4], losses[0])
    assert drawn(below)["test_loss"][0] == [0, 1, 2]
    # the accuracy of a model that is no longer finite means nothing
    assert drawn(accuracy)["test_accuracy, seed 1"][0] == [0, 1, 2]
    assert drawn(accuracy)["test_accuracy, diverged"][0] == [3]  # the last one drawn, seed 2


@pytest.mark.parametrize(
    ("losses", "scale"), [([1.0, 1, 1, 1, 0.02], "linear"), ([1e5, 1, 1, 1, 1e-6], "log")]
)
def test_losses_over_more_than_two_decades_are_on_a_logarithmic_scale(losses, scale):
    axes = figures.figure_of_curves(rows(test_loss=losses), context_of(SCENARIO)).axes
    assert axes[0].get_yscale() == "linear" and axes[1].get_yscale() == scale


@pytest.mark.parametrize(
    ("metric", "target", "panel", "side"),
    [("test_accuracy", 0.85, 0, "top"), ("test_loss", 0.45, 1, "bottom")],
)
def test_the_target_is_a_line_where_its_metric_is(metric, target, panel, side):
    """The accuracy ends at 0.9, above the target, and the loss at 0.4: there its name has space."""
    scenario = {**SCENARIO, "evaluate": {"metric": metric, "target": target}}
    figure = figures.figure_of_curves(rows(), context_of(scenario))
    assert [n for n, axes in enumerate(figure.axes) if "target" in drawn(axes)] == [panel]
    (text,) = [t for t in figure.axes[panel].texts if t.get_text() == f"target {target}"]
    assert text.get_va() == side and text.get_ha() == "right"


def test_without_accuracy_the_target_is_of_the_test_loss_and_there_may_be_none():
    figure = figures.figure_of_curves(rows(test_accuracy=[None] * 5), context_of(SCENARIO))
    assert drawn(figure.axes[0])["target"][1] == [0.5, 0.5]
    figure = figures.figure_of_curves(rows(), context_of({**SCENARIO, "evaluate": {}}))
    assert not any("target" in drawn(axes) for axes in figure.axes)


ODD = {
    "round 0 only": rows(rounds=1, seeds=3),
    "no rows": rows().head(0),
    "no test set": rows(test_accuracy=[None] * 5, test_loss=[None] * 5),
    "nothing computed": rows(test_accuracy=[None] * 5, test_loss=[None] * 5, train_loss=[None] * 5),
    "nothing finite": rows(test_loss=[float("nan")] * 5, train_loss=[float("inf")] * 5),
    "only the start is finite": rows(test_loss=[1.0] + [float("nan")] * 4),
    "negative": rows(test_loss=[1.0, -1e-9, -5.0, 0.0, 1e6]),
    "the largest number": rows(test_loss=[1.0, 1e308, 1e-308, 1.0, 1.0]),
    "seeds of unequal length": pd.concat([rows(seeds=4), rows(seeds=1, rounds=9).assign(seed=4)]),
    "25 methods": pd.concat([rows(f"method_{n}(alpha={n / 7})") for n in range(25)]),
    "5,000 rounds": rows(rounds=5000, seeds=3),
}


@pytest.mark.long
@pytest.mark.parametrize("name", ODD)
def test_any_frame_can_be_drawn(name):
    files = curves(ODD[name], SCENARIO if name == "round 0 only" else {})
    assert files["curves.png"].startswith(b"\x89PNG") and files["curves.svg"].endswith(b"</svg>\n")


def test_bars_and_map_are_the_counts_of_every_client():
    held = counts(5, 3)
    figure = figures.figure_of_partition(held, context_of(SCENARIO), seed=7)
    bars, map_ = figure.axes
    assert [bar.get_height() for bar in bars.patches] == held.sizes.tolist()
    shades = shades_in(map_, held)
    order = np.argsort(held.samples.ravel(), kind="stable")
    assert (np.diff(shades.ravel()[order]) >= 0).all()  # the more, the darker
    said = words(figure)
    assert "dirichlet(alpha=0.3), 5 clients, " in said and "seed 7" in said


def shades_in(axes, held):
    """How dark every cell of a heat map is, `[clients, labels]`; 0 where nothing is drawn."""
    shades = np.zeros(held.samples.shape)
    for patch in axes.patches:
        corners = patch.get_path().vertices.reshape(-1, 5, 2)[:, :4]
        centres = np.rint(corners.mean(1)).astype(int)
        shades[tuple(centres.T)] = patch.get_alpha()
    return shades


def test_one_sample_is_to_be_seen_beside_many_and_none_is_white():
    held = LabelCounts(np.arange(3), ["a"], np.array([[0], [1], [5000]]))
    map_ = figures.figure_of_partition(held, context_of({})).axes[1]
    none, one, many = shades_in(map_, held).ravel()
    assert none == 0 and one > 0.1 and many == 1
    assert [text.get_text() for text in map_.get_legend().get_texts()][-1] == "1 to 139"


def test_the_map_has_names_of_labels_and_clients_and_a_legend():
    names = ["hospital A", "clinic <b>", "a very long name of a place"]
    counts = LabelCounts(names, ["cat", "dog"], pd.DataFrame([[5, 0], [3, 9], [0, 1]]).to_numpy())
    drawn = heat_map(counts)
    shown = [html.unescape(name) for name in re.findall(r"<text[^>]*>(.*?)</text>", drawn.picture)]
    assert shown == ["clinic <b>", "hospital A", "a very lo… a place", "cat", "dog"]
    assert not drawn.wide
    spans = [span for _, span in drawn.legend]
    assert spans == ["none", "1", "2 to 3", "4", "5 to 7", "8 to 9"]
    many = LabelCounts(list(range(200)), [], pd.DataFrame([[i] for i in range(200)]).to_numpy())
    assert heat_map(many).wide
    assert "60 of 200 clients, evenly chosen" in heat_map(many).caption


def test_of_10_000_clients_200_are_drawn_and_it_is_said():
    held = counts(10_000, 10)
    figure = figures.figure_of_partition(held, context_of(SCENARIO))
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert len(heights) == 200 and heights[0] == held.sizes[0] and heights[-1] == held.sizes[-1]
    assert "10,000 clients (shown: 200, evenly chosen)" in words(figure)


def test_targets_that_are_no_classes_have_bars_only():
    held = LabelCounts(np.arange(3), [], np.array([[4], [0], [9]]))
    figure = figures.figure_of_partition(held, context_of(SCENARIO))
    assert [[bar.get_height() for bar in axes.patches] for axes in figure.axes] == [[4, 0, 9]]


@pytest.mark.long
@pytest.mark.parametrize(
    "held",
    [
        counts(1, 300),
        LabelCounts(np.arange(0), [], np.zeros((0, 1), int)),
        LabelCounts(np.arange(4), [0, 1], np.zeros((4, 2), int)),
        LabelCounts(np.arange(300), [], np.zeros((300, 1), int)),
        LabelCounts(np.arange(2), ["a"], np.array([[10**9], [1]])),
        LabelCounts(np.arange(2), HOSTILE, np.ones((2, len(HOSTILE)), int)),
    ],
    ids=["1x300", "nobody", "empty", "empty targets", "huge", "hostile"],
)
def test_any_partition_can_be_drawn(held):
    files = partition(held, SCENARIO)
    assert list(files) == ["partition.png", "partition.svg", "partition.pdf"]
    assert files["partition.png"].startswith(b"\x89PNG")


def test_names_are_drawn_as_they_are():
    frame = pd.concat([rows(name) for name in HOSTILE])
    figure = figures.figure_of_curves(frame, context_of({**SCENARIO, "name": "$n_1$"}))
    texts = figure.legends[0].get_texts()
    assert [text.get_text() for text in texts][:4] == HOSTILE[:4]
    assert texts[4].get_text() == r"\x1b[31mred\n" and len(texts[-1].get_text()) == 40
    assert not any(text.get_parse_math() for text in (*texts, *figure.texts))
    svg = figures.rendered(figure, "x", formats=["svg"])["x.svg"]
    assert b"</script" not in svg and b"<b>" not in svg
    ElementTree.fromstring(svg)


def test_settings_and_log_levels_of_others_are_left_as_they_were():
    import matplotlib

    log = logging.getLogger("matplotlib")
    before = dict(matplotlib.rcParams), log.level
    picture = figures.figure_of_partition(counts(4, 3), context_of(SCENARIO))
    figures.rendered(picture, "partition", formats=["png"])
    assert (dict(matplotlib.rcParams), log.level) == before


def test_a_figure_is_drawn_by_the_canvas_of_its_file(monkeypatch):
    """Whatever canvas the figure had before."""
    with drawing.style():
        from matplotlib.backend_bases import FigureCanvasBase
        from matplotlib.figure import Figure

        class Foreign(FigureCanvasBase):
            def print_figure(self, *_, **__):
                raise AssertionError("the user's own canvas")

        figure, plain = Figure(figsize=(1, 1)), Figure(figsize=(1, 1))
        Foreign(figure)
    assert drawing.rendered(figure, "x") == drawing.rendered(plain, "x")


def both_figures():
    """The files of curves and of a partition."""
    return curves(rows(rounds=100, seeds=5), SCENARIO) | partition(counts(200, 10), SCENARIO)


@pytest.fixture(scope="module")
def files():
    return both_figures()


@pytest.mark.long
def test_bytes_are_the_same_whatever_the_user_has_set_up_and_whenever(files):
    import matplotlib

    own = {"text.usetex": True, "font.size": 30, "savefig.dpi": 7, "savefig.transparent": True}
    with matplotlib.rc_context(own):
        assert both_figures() == files
    for content in files.values():
        assert not re.search(b"atplotlib v|Software|dc:date", content)


@pytest.mark.long
def test_fonts_in_a_pdf_have_no_tables_that_place_letters(files):
    fonts = []
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", files["curves.pdf"], re.S):
        content = zlib.decompress(stream)
        if content.startswith(b"\x00\x01\x00\x00"):
            fonts.append(TTFont(io.BytesIO(content)))
    assert fonts
    for font in fonts:
        assert "glyf" in font
        assert not {"GDEF", "GPOS", "GSUB", "MATH", "kern"} & {*font.keys()}
