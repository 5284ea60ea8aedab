"""The page of runs made by hand: first screen, order, words for variations, marks, any names."""

import html
import json
import re

import pandas as pd
import pytest

from fedsim.report import figures, notebook_curves, page
from fedsim.report.context import axis_label
from fedsim.report.element import breakable
from fedsim.report.figures.rows import rows_on_page
from fedsim.report.page import content, gallery, partition, sources
from fedsim.report.page.charts import column_in_words
from fedsim.report.page.setting import setting
from fedsim.report.pictures.looks import curve_classes
from fedsim.report.pictures.rows import Mark, Row, Rows, Span
from fedsim.report.ranking import order_of
from fedsim.runs.record_form import malformed
from fedsim.study.findings import findings_of
from fedsim.study.label_skew import LabelCounts
from fedsim.study.pairing import against
from fedsim.study.summary import in_words
from fedsim.study.verdict import verdict

HOSTILE = "</script><img src=x onerror=hit()>"
SCORES = {
    "base": [0.90, 0.91, 0.92, 0.93],
    "good": [0.95, 0.95, 0.96, 0.97],
    HOSTILE: [0.5, 0.5, 0.6, 0.4],
}
ATTACKED = {
    "base": [0.10, 0.11, 0.10, 0.09],
    "good": [0.90, 0.91, 0.92, 0.90],
    HOSTILE: [0.5, 0.4, 0.5, 0.5],
}


SCENARIO = {
    "name": "made",
    "rounds": 2,
    "seeds": [0, 1, 2, 3],
    "data": {"kind": "digits", "clients": 3, "partition": {"kind": "iid"}},
    "model": {"kind": "mlp"},
    "cohort": {"kind": "all"},
    "client": {"kind": "sgd", "lr": 0.1, "batch": 8},
    "server": [{"kind": "mean"}],
    "evaluate": {"every": 1, "last": 2, "metric": "test_accuracy", "target": 0.8},
    "numerics": {},
}
SURROUNDINGS = {"python": "3.11", "command": ["fedsim", "run"], "devices": ["cpu"], "cores": 2}
SURROUNDINGS |= {"platform": "here", "git": None}


def record(**more):
    """The content of a `run.json`."""
    return {
        "status": "done",
        "started": "2026-11-29T12:00:00Z",
        "scenario": dict(SCENARIO),
        "method": "base",
        "names": {"base": "base"},
        "hashes": {"scenario": "abc", "data": "d", "partition": {}, "start": {}},
        "supplied": [],
        "own_links": {},
        "environment": {"fedsim": "1", "jax": "1", "threads": None},
        "surroundings": SURROUNDINGS,
        **more,
    }


def comparison(**more):
    """The record of a comparison."""
    of_scores = {"kind": "compare", "baseline": "base", "score": "final", "cells": []}
    return record(**of_scores | more)


def page_text(written, tables, **more):
    """The page of one source."""
    return page.page_of([page.Source(written, tables)], **more).decode()


def summary_of(scores, metric="test_accuracy", **more):
    """Rows of `summary.csv`.

    Args:
      scores: by method and seed.
      metric: of the scores.
      more: cells of every row.
    """
    rows = []
    for method, values in scores.items():
        for seed, value in enumerate(values):
            score = {"metric": metric, **dict.fromkeys(("final", "best", "mean_last_k"), value)}
            rows.append({"method": method, **more, "seed": seed, **score, "k": 2, "diverged": 0})
    return rows


def rounds_of(summary, losses=False):
    """Every run at the rounds 0, 1, 2, with losses beside accuracies, or without."""
    rows = []
    for run in summary:
        key = {name: run[name] for name in ("method", "variant", "seed") if name in run}
        for number in range(3):
            row = {**key, "round": number, "bytes_up": number, "bytes_down": number}
            row |= {"virtual_seconds": 2.0 * number}
            row |= {"test_accuracy": (run["final"] or 0) * (number + 1) / 3}
            if losses or run["metric"] == "test_loss":
                row["test_loss"] = 10.0 ** -(3 * number)
            rows.append(row)
    return pd.DataFrame(rows)


def tables_of(summary, compared=True):
    """The tables of runs, with `compare.csv` where they are compared."""
    partition = {"client": [0, 0, 1, 2], "label": [0, 1, 0, 1], "samples": [5, 5, 6, 4]}
    frames = {"rounds": rounds_of(summary), "summary": pd.DataFrame(summary)}
    frames["partition"] = pd.DataFrame(partition)
    if compared:
        frames["compare"] = pd.DataFrame(against(summary, "base", "final", ["fleet.malicious"]))
    return frames


@pytest.fixture(scope="module")
def text():
    """The page of a comparison with and without malicious clients."""
    rows = summary_of(SCORES, variant="fleet.malicious=0")
    rows += summary_of(ATTACKED, variant="fleet.malicious=0.2")
    grid = {"methods": list(SCORES), "vary": {"fleet.malicious": [0, 0.2]}}
    written = {**comparison(), "scenario": {**SCENARIO, "compare": grid}}
    return page_text(written, {**tables_of(rows), "rounds": rounds_of(rows, losses=True)})


def first_screen(text):
    return text[text.index("<main>") : text.index('id="curves"')].partition('id="table"')[0]


def plain(text):
    """The words that a reader sees."""
    words = re.sub(r"<(style|script).*?</\1>|<wbr>|<[^>]*>", " ", text, flags=re.S)
    return " ".join(html.unescape(words).split())


def test_the_record_of_these_tests_is_one_that_a_run_writes():
    assert not malformed(record(), "scenario")


def test_the_first_screen_is_a_sentence_and_a_picture(text):
    first = first_screen(text)
    lead = plain(re.search(r'<p class="lead">(.*?)</p>', first, re.S)[1])
    assert lead == "No clear difference from base: 4 seeds are too few, 8 would do."
    statistics = plain(re.search(r'<p class="statistics small">(.*?)</p>', first, re.S)[1])
    assert statistics.startswith("Test accuracy 0.907 with good, 0.1")
    order = [text.index(part) for part in ('"lead"', 'class="scores"', 'id="table"')]
    assert order == sorted(order)
    rows = re.findall(r'<span class="who">(.*?)</span>', first)
    assert rows == ["base <i>baseline</i>", "good", str(breakable(HOSTILE))]
    assert plain(first).count("20 % malicious") >= 2 and "fleet.malicious" not in plain(first)
    assert first.count('stroke-dasharray="1 3"') == 2  # the line of guessing, and in the legend
    assert "guessing, 0.55" in plain(first)


def test_a_verdict_of_the_record_is_what_it_says():
    lines = ["The headline.", "A sentence.", "Another."]
    text = page_text(comparison(verdict=lines), tables_of(summary_of(SCORES)))
    assert '<p class="lead">The headline.</p>' in text
    assert '<p class="statistics small">A sentence.</p>' in text
    assert "<li>Another.</li>" in text


def test_a_page_is_inert_and_has_words_and_the_anchors_of_its_navigation(text):
    spoken = plain(text)
    assert "share of malicious clients (fleet.malicious): 0, 0.2" in spoken
    assert spoken.count("fleet.malicious") == 1
    anchors = re.findall(r'<a href="#(\w+)">', text)
    assert anchors[:3] == ["result", "table", "curves"] and len(anchors) >= 6
    assert all(text.count(f'id="{anchor}"') == 1 for anchor in anchors)
    # A short table is not folded, and names are text.
    assert "<details" not in text[text.index('id="table"') : text.index('id="curves"')]
    assert HOSTILE not in text and "<img" not in text


def test_charts_of_a_metric_share_their_axis_and_say_when_it_is_logarithmic(text):
    charts = re.findall(r'<figure class="chart".*?</figure>', text, re.S)
    ticks = [re.findall(r'text-anchor="end">([^<]*)<', chart) for chart in charts]
    assert ticks[0] == ticks[1] and "0 % malicious" in charts[0] and "20 % malicious" in charts[1]
    assert "Test loss, logarithmic" in text and "Test accuracy over rounds" in plain(text)


def test_methods_beyond_the_eighth_are_pale_but_the_baseline_never_is():
    scores = {f"m{i}": [1 - i / 100] for i in range(16)}
    order = order_of(summary_of(scores), "m15", "final")
    classes = curve_classes(order)
    assert len({look.split()[0] for look in classes.values()}) == 9
    assert classes["m15"].startswith("s0")
    assert [name for name, look in classes.items() if look.startswith("pale")] == order[8:]


def test_a_single_run_begins_with_its_numbers_and_its_curve():
    rows = summary_of({"base": SCORES["base"]})
    text = page_text(record(), tables_of(rows, compared=False))
    first = plain(first_screen(text))
    headline = "base ends with test accuracy 0.915 after 2 rounds, the mean of 4 seeds"
    assert f"{headline} (0.9 to 0.93)." in first
    assert "final test accuracy 0.915 0.9 to 0.93" in first
    assert 'class="scores"' not in text and 'id="table"' not in text
    other_half = "best and the mean of the last rounds are on the other half"
    assert other_half not in text

    rows = summary_of({"base": SCORES["base"]}, "personal_accuracy_mean")
    assert other_half in page_text(record(), tables_of(rows, compared=False))


def test_a_run_that_has_not_ended_says_so_first():
    rows = summary_of({"base": SCORES["base"]})
    mark = "unfinished: 4 of 8 rounds"
    left = record(status="interrupted", unfinished={"mark": mark})
    text = page_text(left, tables_of(rows, compared=False), refresh=5)
    assert '<p class="mark"><strong>unfinished: 4 of 8 rounds</strong></p>' in text
    assert "base is at test accuracy" in text
    assert '<meta http-equiv="refresh" content="5">' in text
    assert text.index("unfinished: 4") < text.index('"lead"')
    assert "Nothing has been evaluated yet." in page_text(left, {})


def test_a_comparison_that_has_not_ended_shows_what_there_is_and_compares_nothing():
    left = comparison(status="running", unfinished={"mark": "unfinished: 1 of 9"})
    rows = [{**row, "status": "unfinished"} if row["seed"] else row for row in summary_of(SCORES)]
    text = page_text(left, tables_of(rows))
    sentence = "So far: Nothing is compared; good has the best mean, test accuracy 0.958."
    assert sentence in plain(first_screen(text))
    assert 'class="scores"' in text and 'id="differences"' not in text


def test_several_runs_stand_beside_one_another():
    sources = []
    for name in ("base", "good"):
        tables = tables_of(summary_of({"base": SCORES[name]}), compared=False)
        sources.append(page.Source(record(), tables, name))
    text = page.page_of(sources).decode()
    assert "2 runs" in plain(text)
    sentence = "good ends best with test accuracy 0.9575, base next with 0.915, by the means alone."
    assert sentence in plain(first_screen(text))
    assert re.findall(r'<td data-sort="(good|base)">', text) == ["good", "base"]
    curves = json.loads(re.search(r"data-numbers='(.*?)'", text)[1])["curves"]
    assert {curve["name"] for curve in curves} == {"base", "good"}


def test_runs_that_diverged_are_shown_as_such():
    rows = summary_of({"base": [1.0, 1.1], "wild": [2.0, 2.0]}, "test_loss")
    for row in rows:
        if row["method"] == "wild":
            row |= {"final": None, "mean_last_k": None, "diverged": 1}
    sources = []
    for method, status in (("base", "done"), ("wild", "diverged")):
        tables = tables_of([row for row in rows if row["method"] == method], compared=False)
        sources.append(page.Source(record(status=status), tables, method))
    first = plain(first_screen(page.page_of(sources).decode()))
    assert "wild: ended as diverged" in first
    assert "base ends with test loss 1.05" in first


def test_the_map_has_names_of_labels_and_clients_and_a_legend():
    names = ["hospital A", "clinic <b>", "a very long name of a place"]
    counts = LabelCounts(names, ["cat", "dog"], pd.DataFrame([[5, 0], [3, 9], [0, 1]]).to_numpy())
    drawn = partition.heat_map(counts)
    shown = [html.unescape(name) for name in re.findall(r"<text[^>]*>(.*?)</text>", drawn.picture)]
    assert shown == ["clinic <b>", "hospital A", "a very lo… a place", "cat", "dog"]
    assert not drawn.wide
    spans = [span for _, span in drawn.legend]
    assert spans == ["none", "1", "2 to 3", "4", "5 to 7", "8 to 9"]
    many = LabelCounts(list(range(200)), [], pd.DataFrame([[i] for i in range(200)]).to_numpy())
    assert partition.heat_map(many).wide
    assert "60 of 200 clients, evenly chosen" in partition.heat_map(many).caption


def test_marks_stand_where_their_numbers_are_in_percent_of_any_width():
    mark = Mark(0.5, 0.25, 0.75, [0.25, 0.75], True, "0.500", "half")
    shown = rows_on_page(Rows([Row("m_a(b=1)", "", 2, [mark])], Span(0, 1), "score"))
    (row,) = shown.rows
    assert row.texts == ["0.500"] and row.look == "s2" and row.title == "half"
    assert 'x1="25.75%" y1="50.00%" x2="74.25%" y2="50.00%"' in shown.drawn
    assert '<circle cx="50.00%" cy="50.00%" r="5"/>' in shown.drawn
    assert shown.drawn.count('r="2"/>') == 2
    assert re.findall(r">([\d.]+)<", shown.foot) == ["0", "0.2", "0.4", "0.6", "0.8", "1"]


@pytest.mark.parametrize("hollow", range(4))
def test_marks_of_every_shape_are_hollow_where_nothing_is_clear(hollow):
    marks = [Mark(0.5, None, None, [], number != hollow, "", "") for number in range(4)]
    shown = rows_on_page(Rows([Row("m", "", 2, marks)], Span(0, 1), "score"))
    faces = re.findall(r'<g fill="var\(--(\w+)\)"', shown.drawn)
    assert faces == ["paper" if number == hollow else "s2" for number in range(4)]


def test_what_is_tuned_stands_in_a_column_of_its_axis():
    rows = [{**row, "tuned": "client.lr=0.3", "client.lr": 0.3} for row in summary_of(SCORES)]
    text = page_text(comparison(), tables_of(rows))
    assert '<th scope="col">client learning rate</th>' in text
    assert '<td data-sort="client.lr=0.3">0.3</td>' in text
    tables = {"compare": against(rows, "base", "final"), "summary": rows}
    assert verdict(findings_of(tables, "base")).lines[0] in html.unescape(text)


def test_curves_are_of_the_metric_that_is_ranked():
    """On the page, in figures, in notebooks and on the cards of the gallery; of others behind."""
    metric = "client_accuracy_worst"
    rows = [{**row, "metric": metric} for row in summary_of(SCORES)]
    frames = tables_of(rows)
    half = frames["rounds"]["test_accuracy"] / 2
    frames["rounds"] = frames["rounds"].assign(test_gain=half, **{metric: half})
    source = page.Source(comparison(), frames)
    result = sources.result_of([source])
    words = [each["words"] for each in content.curves_of([source], result)["groups"]]
    assert words[0] == column_in_words(metric) and words[-1] == "test gain"

    figure, *_ = figures.pages_of_curves(frames["rounds"], result.context)
    assert figure.axes[0].get_ylabel() == axis_label(metric)
    assert in_words(metric) in notebook_curves.curves_of(frames["rounds"], result.context)
    card = gallery.card_of(gallery.Entry("name", "", "finished", source))
    assert card["picture"].caption.startswith(column_in_words(metric))


def test_what_was_run_says_who_is_held_out_and_what_was_made_of_the_table():
    for clients, said in ((["Oslo"], "Oslo never train"), (0.5, "50 % of")):
        data = {"test": {"clients": clients}, "missing": "median", "drop": ["note"]}
        about = record(remarks=["column 'id' is left out"])
        about["scenario"] = {**SCENARIO, "data": {**SCENARIO["data"], **data}}
        steps = dict(setting(about)["steps"])
        assert said in steps["data"] and "without note, medians for blanks" in steps["data"]
        assert steps["remarks"] == ["column 'id' is left out"]


def test_three_variations_have_a_picture_each():
    """With the baseline's line in its own picture alone."""
    rows = []
    for value in range(3):
        rows += summary_of(SCORES, variant=f"fleet.malicious={value / 10}")
    text = page_text(comparison(), tables_of(rows))
    parts = first_screen(text).split("<figcaption>")[1:]
    titles = [part.partition("<")[0] for part in parts]
    assert titles == [f"{10 * value} % malicious" for value in range(3)]
    assert all(part.count('stroke-dasharray="6 3"') == 1 for part in parts)
