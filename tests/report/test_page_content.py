"""The page of runs made by hand: its anchors, its words for variations and data, any names."""

import html
import re

import pandas as pd
import pytest

from fedsim.report import page
from fedsim.report.page.setting import setting
from fedsim.runs.record_form import malformed
from fedsim.study.findings import findings_of
from fedsim.study.pairing import against
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


def attacked_page():
    """The page of a comparison with and without malicious clients."""
    rows = summary_of(SCORES, variant="fleet.malicious=0")
    rows += summary_of(ATTACKED, variant="fleet.malicious=0.2")
    grid = {"methods": list(SCORES), "vary": {"fleet.malicious": [0, 0.2]}}
    written = {**comparison(), "scenario": {**SCENARIO, "compare": grid}}
    return page_text(written, {**tables_of(rows), "rounds": rounds_of(rows, losses=True)})


@pytest.fixture(scope="module")
def text():
    return attacked_page()


def plain(text):
    """The words that a reader sees."""
    words = re.sub(r"<(style|script).*?</\1>|<wbr>|<[^>]*>", " ", text, flags=re.S)
    return " ".join(html.unescape(words).split())


def test_the_record_of_these_tests_is_one_that_a_run_writes():
    assert not malformed(record(), "scenario")


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


def test_what_is_tuned_stands_in_a_column_of_its_axis():
    rows = [{**row, "tuned": "client.lr=0.3", "client.lr": 0.3} for row in summary_of(SCORES)]
    text = page_text(comparison(), tables_of(rows))
    assert '<th scope="col">client learning rate</th>' in text
    assert '<td data-sort="client.lr=0.3">0.3</td>' in text
    tables = {"compare": against(rows, "base", "final"), "summary": rows}
    assert verdict(findings_of(tables, "base")).lines[0] in html.unescape(text)


def test_what_was_run_says_who_is_held_out_and_what_was_made_of_the_table():
    for clients, said in ((["Oslo"], "Oslo never train"), (0.5, "50 % of")):
        data = {"test": {"clients": clients}, "missing": "median", "drop": ["note"]}
        about = record(remarks=["column 'id' is left out"])
        about["scenario"] = {**SCENARIO, "data": {**SCENARIO["data"], **data}}
        steps = dict(setting(about)["steps"])
        assert said in steps["data"] and "without note, medians for blanks" in steps["data"]
        assert steps["remarks"] == ["column 'id' is left out"]
