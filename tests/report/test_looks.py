"""A method has one colour and one place in the order of every picture, on the page and in files."""

import html
import re

import pandas as pd
import pytest
from test_page_content import SCENARIO, comparison, rounds_of, summary_of, tables_of

from fedsim.report import derived, page
from fedsim.report.context import context_of
from fedsim.report.pictures.looks import COLOURS, curve_classes
from fedsim.report.ranking import all_methods, order_of
from fedsim.study.conclusions import conclusions

# The baseline is neither first in the table nor the best; `lost` has no score at all.
SCORES = {
    "good": [0.95, 0.95, 0.96, 0.97],
    "base": [0.90, 0.91, 0.92, 0.93],
    "lost": [None, None, None, None],
    "poor": [0.5, 0.5, 0.6, 0.4],
}
ORDER = ["base", "good", "poor", "lost"]
CLIENT = {"samples": 5, "rounds_joined": 2, "global_accuracy": 0.5}


@pytest.fixture(scope="module")
def drawn():
    """The page and the tables of a comparison in which bytes differ."""
    rows = summary_of(SCORES)
    frames = tables_of([row for row in rows if row["final"] is not None])
    frames["summary"] = pd.DataFrame(rows)
    rounds = rounds_of(rows)
    sizes = {name: 1000.0 * (number + 1) for number, name in enumerate(SCORES)}
    for column in ("bytes_up", "bytes_down"):
        rounds[column] = rounds["round"] * rounds["method"].map(sizes)
    rounds["clients_sampled"] = 3
    frames["rounds"] = rounds
    frames["clients"] = pd.DataFrame(
        {**{key: row[key] for key in ("method", "seed")}, **CLIENT, "client": client}
        for row in rows
        for client in range(3)
    )
    scored = [row for row in rows if row["final"] is not None]
    found = conclusions(scored, [], "base", "final", [], rounds.to_dict("records"))
    frames["bytes"] = pd.DataFrame(found["bytes"])
    written = comparison_of(SCORES)
    return page.page_of([page.Source(written, frames)]).decode(), frames, written


def comparison_of(scores):
    """The record of a comparison."""
    scenario = {**SCENARIO, "compare": {"methods": list(scores)}}
    return {**comparison(), "scenario": scenario}


def sections(text):
    """Every part of the page that has pictures, by its anchor."""
    parts = re.split(r'<(?:h2|header) id="(\w+)"', text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_page_has_one_order_and_one_colour_per_method(drawn):
    text, _, _ = drawn
    row = r'<div class="row (\w+)" title="[^"]*"><span class="who">(.*?)</span>'
    key = r'<button type="button" class="key (\w+) d\d" data-name="(.*?)"'
    places = 0
    for section in sections(text).values():
        for pattern in (row, key):
            found = re.findall(pattern, section, re.S)
            names = [html.unescape(re.sub(r"<wbr>| <i>.*?</i>", "", name)) for _, name in found]
            assert names == [name for name in ORDER if name in names]
            assert [look for look, _ in found] == [f"s{ORDER.index(name)}" for name in names]
            places += bool(names)
    assert places >= 4  # scores, curves, differences, clients
    point = r'<g class="point"><title>(.*?):[^<]*</title><path [^>]*stroke="var\(--(\w+)\)'
    points = re.findall(point, text)
    assert dict(points) == {"base": "s0", "good": "s1", "poor": "s2"}


def test_files_have_the_order_and_the_colours_of_the_page(drawn):
    text, frames, written = drawn
    for rank, colour in enumerate(COLOURS):
        assert f"--s{rank}:{colour};" in text
    runs = derived.rows_of(frames["summary"])
    order = all_methods(runs, [frames["rounds"]], "base", "final")
    assert order == ORDER
    context = context_of(written["scenario"], runs, "final", order)
    pages = dict(derived.all_figures(frames, runs, context))
    assert {"curves", "differences", "bytes"} <= set(pages)

    (curves,) = pages["curves"]
    (legend,) = curves.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert sorted(names, key=ORDER.index) == [name for name in ORDER if name in names]
    for line, name in zip(legend.get_lines(), names, strict=True):
        assert line.get_color() == COLOURS[ORDER.index(name)]

    (differences,) = pages["differences"]
    axes = differences.axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    for line in axes.get_lines():
        if line.get_label() == "mark":
            place = int(line.get_ydata()[0])
            assert line.get_markeredgecolor() == COLOURS[ORDER.index(names[place])]

    (bytes_figure,) = pages["bytes"]
    for line in [line for axes in bytes_figure.axes for line in axes.get_lines()]:
        if line.get_label() in ORDER:
            assert line.get_color() == COLOURS[ORDER.index(line.get_label())]


FAR = {
    "base": [0.930, 0.932],
    "good": [0.945, 0.946],
    "fair": [0.935, 0.936],
    "weak": [0.925, 0.926],
    "broken": [0.10, 0.11],
}


def far_away():
    """The page and the figures of a comparison in which one method is far from the others."""
    rows = summary_of(FAR)
    frames = tables_of(rows)
    rounds = frames["rounds"]
    rounds["test_loss"] = 2.0 - 0.5 * rounds["round"]
    rounds.loc[rounds["method"] == "broken", "test_loss"] = 50.0
    written = comparison_of(FAR)
    runs = derived.rows_of(frames["summary"])
    context = context_of(written["scenario"], runs, "final", list(FAR))
    pages = dict(derived.all_figures(frames, runs, context))
    return page.page_of([page.Source(written, frames)]).decode(), pages


def test_an_axis_that_one_outlier_would_squeeze_is_cut_and_says_so():
    text, pages = far_away()
    for anchor in ("result", "differences"):
        section = sections(text)[anchor]
        legend = re.search(r'<ul class="legend">.*?</ul>', section, re.S)
        assert legend and "axis cut: broken beyond it" in legend[0]
        row = f"{100 * 4.5 / 5 if anchor == 'result' else 100 * 3.5 / 4:.2f}%"  # the last one
        arrow = rf'<g [^>]*stroke="var\(--s4\)"[^>]*><svg x="1.50%" y="{row}"><path'
        assert len(re.findall(arrow, section)) == 1
    curves = sections(text)["curves"]
    assert set(re.findall(r">([^<]*axis cut)</text>", curves)) == {"▴ broken beyond, axis cut"}

    (figure,) = pages["curves"]
    accuracy, loss = figure.axes[:2]
    assert loss.get_ylim()[1] < 3
    assert [text.get_text() for text in loss.texts] == ["▴ broken beyond, axis cut"]
    assert not [text for text in accuracy.texts if "cut" in text.get_text()]
    (figure,) = pages["differences"]
    assert figure.axes[0].get_xlim()[0] > -0.1
    assert [text.get_text() for text in figure.axes[0].texts][-1] == "-0.826"
    assert "axis cut: broken beyond it" in figure.texts[1].get_text().replace("\n", " ")


def test_methods_beyond_the_eighth_are_pale_but_the_baseline_never_is():
    scores = {f"m{i}": [1 - i / 100] for i in range(16)}
    order = order_of(summary_of(scores), "m15", "final")
    classes = curve_classes(order)
    assert len({look.split()[0] for look in classes.values()}) == 9
    assert classes["m15"].startswith("s0")
    assert [name for name, look in classes.items() if look.startswith("pale")] == order[8:]
