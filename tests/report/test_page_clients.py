"""The clients of the page: a row each, with names, scores, samples and rounds, the worst first."""

import html
import re

import numpy as np
import pandas as pd
from test_page_content import SCENARIO, comparison, page_text, plain, summary_of, tables_of

from fedsim.report.context import context_of
from fedsim.report.page.clients import MOST, OPEN, tables
from fedsim.report.page.pictures import spreads
from fedsim.report.tables import for_paper as tables_for_paper

HOSPITALS = ["Oslo", "Klinikum <b>", "Bergen"]
ERRORS = {"base": [2.0, 9.5, 1.0], "good": [1.0, 8.0, 3.0]}


def clients_of(names, scores, column="global_mae", seeds=2):
    """Rows of `clients.csv`: under seed 1 all scores are larger by 1.

    Args:
      names: of the clients.
      scores: by method and client.
      column: of the scores.
      seeds: how many there are.
    """
    rows = []
    for method, values in scores.items():
        for seed in range(seeds):
            for number, (name, value) in enumerate(zip(names, values, strict=True)):
                run = {"method": method, "seed": seed, "client": name, "samples": 10 * number + 5}
                rows.append({**run, "rounds_joined": number + seed, column: value + seed})
    return pd.DataFrame(rows)


def shown(table):
    """The texts of a table, without markup."""
    return [[html.unescape(str(text).replace("<wbr>", "")) for text, _ in row] for row in table]


def test_named_clients_are_a_table_with_the_worst_first():
    context = context_of(SCENARIO, order=["base", "good"])
    (table,) = tables(clients_of(HOSPITALS, ERRORS), context)
    assert [str(name) for name in table["head"]] == [
        "client", "base", "good", "samples", "rounds joined",
    ]  # fmt: skip
    assert shown(table["rows"]) == [
        ["Klinikum <b>", "10", "8.5", "15", "1.5"],
        ["Oslo", "2.5", "1.5", "5", "0.5"],
        ["Bergen", "1.5", "3.5", "25", "2.5"],
    ]
    assert table["open"]
    assert table["caption"].startswith("Mean absolute error on the client's own samples")
    assert "means over 2 seeds" in table["caption"]


def test_own_models_beside_a_shared_one_have_rows_of_their_own():
    """In the picture of how clients' scores spread, and in their table."""
    scores = {"base": [0.5, 0.2, 0.4], "ditto": [0.5, 0.3, 0.4]}
    shared = clients_of(HOSPITALS, scores, "global_accuracy", seeds=1)
    is_ditto = shared["method"] == "ditto"
    shared["personal_accuracy"] = np.where(is_ditto, shared["global_accuracy"] / 2, np.nan)
    context = context_of(SCENARIO, order=["base", "ditto"])
    ((_, picture), *_) = spreads(shared, context).shown
    names = [html.unescape(str(row.name).replace("<wbr>", "")) for row in picture.rows]
    assert names == ["base", "ditto", "ditto, own models"]
    (table,) = tables(shared, context)
    assert [str(name) for name in table["head"]][1:4] == names
    # Of accuracies the smallest is the worst.
    assert shown(table["rows"])[0][:4] == ["Klinikum <b>", "0.200", "0.300", "0.150"]
    # Clients that train alone have the scores of their own models.
    shared.loc[is_ditto, "global_accuracy"] = np.nan
    (table,) = tables(shared, context)
    assert [row[2] for row in shown(table["rows"])] == ["0.150", "0.200", "0.250"]


def test_numbered_clients_are_those_of_the_first_seed_and_folded():
    """Client 3 of one seed is another one than client 3 of the next."""
    many = range(MOST + 50)
    scores = {"base": np.linspace(0, 1, len(many)).tolist()}
    context = context_of(SCENARIO, order=["base"])
    (table,) = tables(clients_of(many, scores), context)
    assert not table["open"] and len(table["rows"]) == MOST > OPEN
    assert table["summary"] == f"The {MOST} worst of {len(many)} clients"
    assert shown(table["rows"])[0][:2] == [str(len(many) - 1), "1"]  # of seed 0
    assert "of the first seed" in table["caption"]


def test_a_method_may_have_the_name_of_another_column():
    (table,) = tables(clients_of(HOSPITALS, {"samples": [1.0, 2.0, 3.0]}), context_of(SCENARIO))
    assert [str(name) for name in table["head"]] == ["client", *["samples"] * 2, "rounds joined"]


def test_the_page_of_a_regression_has_clients_r2_and_mae():
    rows = summary_of({"base": [2.0, 2.1], "good": [1.0, 1.1]}, "test_loss")
    frames = tables_of(rows)
    rounds = frames["rounds"].drop(columns="test_accuracy")
    frames["rounds"] = rounds.assign(test_r2=0.25 * rounds["round"], test_mae=3.0)
    frames["clients"] = clients_of(HOSPITALS, ERRORS)
    text = page_text(comparison(), frames)
    assert "Klinikum <b>" not in text
    section = text[text.index('id="table"') : text.index('id="differences"')]
    head = re.findall(r"<th [^>]*>(.*?)</th>", section)
    assert head[:6] == ["method", "final test loss", "sd", "R²", "MAE", "best"]
    assert plain(section).count(" 0.5 3 ") == 2
    rounds_to_target = frames["summary"].assign(rounds_to_target=np.nan)
    for_paper = tables_for_paper(rounds_to_target, frames["compare"], rounds=frames["rounds"])
    assert for_paper[["R²", "MAE"]].values.tolist() == [["0.5", "3"]] * 2

    of_clients = plain(text[text.index('id="clients"') :])
    assert of_clients.index("Klinikum <b>") < of_clients.index("Oslo")
    assert "mean absolute error of the final model" in of_clients  # the spread
