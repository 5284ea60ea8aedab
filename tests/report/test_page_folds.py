"""What the page shows at once and what it folds away; nothing that failed is ever folded."""

import re

import pandas as pd
import pytest
from test_page_content import (
    SCENARIO,
    SCORES,
    comparison,
    page_text,
    plain,
    record,
    summary_of,
    tables_of,
)

from fedsim.report.page import folding, table
from fedsim.report.page.opening import opening_axis
from fedsim.study.conclusions import conclusions

REASON = "the loss of seed 2 is not finite in round 7"


def folds(text):
    """The content of all folds that are closed when the page opens."""
    return re.findall(r"<details(?![^>]* open).*?</details>", text, re.S)


def varied(rows_by_variant):
    """The rows of several variations, each of which scales the scores by a factor."""
    rows = []
    for variant, factor in rows_by_variant.items():
        scores = {"base": [0.9, 0.9], "good": [0.9 * factor, 0.9 * factor]}
        rows += summary_of(scores, variant=variant)
    return rows


@pytest.mark.parametrize("kind", ["run", "compare"])
def test_a_reason_that_a_run_failed_is_never_folded(kind):
    rows = summary_of(SCORES)
    reasons = {f"good, seed {seed}": REASON for seed in range(5)}
    written = comparison(status="incomplete", reasons=reasons)
    if kind == "run":
        rows = summary_of({"base": SCORES["base"]})
        written = record(status="incomplete", reasons={"2": REASON})
    text = page_text(written, tables_of(rows, compared=kind == "compare"))
    assert REASON in text
    assert not any(REASON in fold for fold in folds(text))
    assert text.index(REASON) < text.index('aria-label="The result"')  # in the first screen
    if kind == "compare":
        assert "good, seed 2 and 2 more runs: " in plain(text)


def test_of_many_small_plots_those_that_differ_most_are_open(monkeypatch):
    """The differences grow from the first variation to the last."""
    monkeypatch.setattr(folding, "MANY", 2)
    monkeypatch.setattr(folding, "SHOWN", 2)
    variants = {f"client.lr={number}": 1 - number / 20 for number in range(1, 4)}
    text = page_text(comparison(), tables_of(varied(variants)))
    section = text[text.index('id="curves"') : text.index('id="differences"')]
    shown = re.sub(r"<details.*?</details>", "", section, flags=re.S)
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", shown)
    assert captions == [f"client learning rate {number}" for number in (2, 3)]
    assert "1 more, in which methods differ less" in section


def test_bytes_that_are_equal_for_all_are_folded_behind_the_table():
    rows = summary_of(SCORES)
    tables = tables_of(rows)
    tables["rounds"]["clients_sampled"] = 3
    tables["summary"]["bytes_to_target"] = 100.0
    runs = [{**row, "bytes_to_target": 100.0} for row in rows]
    found = conclusions(runs, [], "base", "final", [], tables["rounds"].to_dict("records"))
    tables["bytes"] = pd.DataFrame(found["bytes"])
    text = page_text(comparison(), tables)
    (fold,) = [fold for fold in folds(text) if "What it costs in bytes" in fold]
    assert "<summary>What it costs in bytes: the same for all methods in a round</summary>" in fold
    assert text.index('id="table"') < text.index(fold) < text.index('id="differences"')
    assert 'href="#bytes"' not in text


def test_curves_open_on_the_axis_of_the_headline():
    rounds = tables_of(summary_of(SCORES))["rounds"]
    top_k = {"wire": [{"kind": "top_k", "k": 5}]}
    codecs = {**SCENARIO, "compare": {"methods": ["fedavg", {"method": "fedavg", "set": top_k}]}}
    fleet = {**SCENARIO, "fleet": {"speed": {"kind": "pareto"}}}
    assert opening_axis(SCENARIO, rounds, []) == "round"
    assert opening_axis(fleet, rounds, []) == "seconds"
    assert opening_axis(codecs, rounds, []) == "bytes"
    assert opening_axis(fleet, rounds.assign(virtual_seconds=float("nan")), []) == "round"

    tables = tables_of(summary_of(SCORES))
    rounds = tables["rounds"]
    rounds.loc[rounds["method"] == "good", "virtual_seconds"] = float("nan")
    text = page_text({**comparison(), "scenario": fleet}, tables)
    assert "Not on this axis: good." in plain(text)
    assert re.findall(r'data-axis="(\w+)" aria-pressed="true"', text) == ["seconds"]
    assert "Test accuracy over virtual seconds" in plain(text)
    seen = re.findall(r'<svg viewBox="[\d ]+" role="img" data-along="(\w+)"', text)
    assert set(seen) == {"seconds"}  # without a script, too


def test_a_long_table_is_folded_by_method(monkeypatch):
    for module in (folding, table):
        monkeypatch.setattr(module, "MOST_ROWS", 3)
    variants = {"client.lr=1": 0.99, "client.lr=2": 0.6}
    text = page_text(comparison(), tables_of(varied(variants)))
    section = text[text.index('id="table"') : text.index('id="curves"')]
    titles = re.findall(r"<summary>(.*?)</summary>", section)
    assert titles == [
        "base: final test accuracy 0.9 to 0.9 in 2 conditions",
        "good: final test accuracy 0.54 to 0.891 in 2 conditions",
    ]
    assert section.count("<tbody>") == 2
