"""Results in a notebook: they say what the page says, are inert, and plot what is kept."""

import re
from xml.etree import ElementTree

import pytest
from test_derived import TINY

import fedsim
from fedsim.report import figures
from fedsim.runs.comparison import Comparison, Outcome
from fedsim.runs.directory import read_record

pytestmark = pytest.mark.long

HOSTILE = "<script>alert(1)</script>"
INERT = {"div", "strong", "span", "table", "thead", "tbody", "tr", "th", "td"}
DRAWN = {"svg", "g", "line", "path", "text"}


def inert(html):
    """The words of a piece of HTML that loads nothing, runs nothing, and is closed."""
    whole = ElementTree.fromstring(f"<div>{html.replace('<wbr>', '')}</div>")
    assert {part.tag.rpartition("}")[2] for part in whole.iter()} <= INERT | DRAWN
    for name, value in [pair for part in whole.iter() for pair in part.items()]:
        assert not re.match(r"on|href|src|xlink|id$", name) and "url(" not in value
    return " ".join(whole.itertext())


@pytest.fixture(scope="module")
def comparison():
    hostile = {"method": "mean", "label": HOSTILE, "set": {"client.lr": 0.2}}
    return fedsim.compare(TINY, ["mean", hostile], vary={"evaluate.last": [1, 2]})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run, and its record."""
    out = tmp_path_factory.mktemp("notebook") / "out"
    return fedsim.run(TINY, out=out), read_record(out)


def test_a_comparison_shows_headline_table_and_curves_and_is_inert(comparison):
    html = comparison._repr_html_()
    words = inert(html)
    assert comparison.verdict[0] in words and HOSTILE in words
    assert html.count("<tr") == 1 + len(comparison.table)
    assert html.count("<svg xmlns") == 4  # a picture for each variation, a line for each method
    assert "var(" not in html  # a notebook has no style sheet of ours
    for method, mean in zip(comparison.table["method"], comparison.table["mean"], strict=True):
        assert f"{mean:.4f}" in words and method in words


def test_a_run_shows_its_seeds(run):
    result, _ = run
    words = inert(result._repr_html_())
    for score in result.summary["final"]:
        assert f"{score:.4f}" in words
    assert words.startswith("fedavg ends with test accuracy")


def test_what_went_wrong_is_said(comparison):
    diverged = fedsim.run(TINY, edits="client.lr=1e30")
    words = inert(diverged._repr_html_())
    assert len(diverged.reasons) == 2
    assert all(reason in words for reason in diverged.reasons.values())

    failed = [Outcome(outcome.cell, None, f"no {HOSTILE}") for outcome in comparison.outcomes]
    nothing = Comparison(failed, comparison.scenario, comparison.baseline, comparison.score)
    words = inert(nothing._repr_html_())
    assert f"no {HOSTILE}" in words and "and 1 more: .reasons" in words


def test_a_plot_is_the_kept_picture(run, draw):
    result, record = run
    kept = draw(result.frames(), record, ["svg"])
    for name in ("curves", "partition"):
        drawn = figures.rendered(result.plot(name), name, formats=["svg"])
        assert drawn[f"{name}.svg"] == kept[f"figures/{name}.svg"]


def test_a_picture_that_is_not_there_is_answered_with_those_that_are(comparison):
    figure = comparison.plot("differences")
    assert figure.axes and figure._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"no picture 'curve'; there are: curves, .*differences"):
        comparison.plot("curve")
