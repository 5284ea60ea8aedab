"""The first screen of the page: a sentence, what was measured, and a picture of it."""

import json
import re

from test_page_content import (
    HOSTILE,
    SCORES,
    attacked_page,
    comparison,
    page_text,
    plain,
    record,
    summary_of,
    tables_of,
)

from fedsim.report import page
from fedsim.report.element import breakable


def first_screen(text):
    return text[text.index("<main>") : text.index('id="curves"')].partition('id="table"')[0]


def test_the_first_screen_is_a_sentence_and_a_picture():
    text = attacked_page()
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
