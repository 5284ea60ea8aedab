"""A comparison keeps what its machines did; its page shows that, ages, and who is left out."""

import json

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.report import page
from fedsim.report.context import context_of
from fedsim.report.derived import derived_files
from fedsim.report.page.left_out import classes_of, left_out
from fedsim.runs import derive

SCENARIO = {
    "name": "machines",
    "rounds": 2,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 12},
    "cohort": {"kind": "uniform", "size": 6},
    "client": {"lr": 0.1, "batch": 10, "epochs": 1},
    "fleet": {
        "speed": {"kind": "pareto"},
        "links": {"kind": "lognormal", "up": 5000.0, "down": 20000.0},
    },
}
BUFFER = {"schedule": {"kind": "fedbuff", "buffer": 3, "concurrency": 6}}
METHODS = [
    {"method": "fedavg", "label": "wait"},
    {"method": "fedavg", "label": "deadline", "set": {"fleet.deadline": 4.0}},
    {"method": "fedavg", "label": "fedbuff", "set": BUFFER},
]


@pytest.mark.long
def test_the_table_is_kept_and_the_page_shows_machines_ages_and_who_is_left_out(tmp_path):
    out = tmp_path / "out"
    comparison = fedsim.compare(SCENARIO, methods=METHODS, baseline="wait", out=out)
    table = derive.tables_of(out).get("machines")
    assert table is not None and len(table) == len(comparison.machines)
    wait = table.query("method == 'wait' and seed == 0")
    rounds = comparison.rounds.query("method == 'wait' and seed == 0 and round == 1")
    assert len(wait) == 6 and wait["closes"].unique().tolist() == rounds["virtual_seconds"].tolist()
    assert all(check.ok for check in fedsim.verify(out).checks)

    record = json.loads((out / "run.json").read_text())
    files = derived_files(comparison.frames(), record)
    text = files["report.html"].decode()
    assert 'id="machines"' in text and "Who is left out" in text
    assert "wait: 6 of 6 count" in text
    assert 'id="seconds"' in text and files["figures/machines.png"].startswith(b"\x89PNG")
    ages = pd.DataFrame(
        {"method": "fedbuff", "seed": [0, 0, 1], "age": [0, 2, 0], "messages": [1, 1, 2]}
    )
    shown = page.page_of(
        [page.Source(record, {**derive.tables_of(out), "staleness": ages})]
    ).decode()
    assert "How old messages are" in shown and "fedbuff: 0.5 on average" in shown


def test_clients_are_told_apart_by_how_often_they_took_part():
    clients = pd.DataFrame({
        "method": "a", "seed": [0] * 4 + [1] * 4,
        "rounds_joined": [0, 1, 4, 7] * 2, "rounds_late": 0,
        "global_accuracy": [0.2, 0.4, 0.6, 0.8, 0.4, 0.6, 0.8, np.nan],
    })  # fmt: skip
    assert classes_of(np.array([0, 1, 4, 7])).tolist() == [0, 1, 2, 3]
    ((title, picture),) = left_out(clients, context_of({}, order=["a"]))
    assert title == "" and picture.rows[0].texts == ["0.300", "0.500", "0.700", "0.800"]
    assert (
        left_out(clients.drop(columns="rounds_late"), context_of({}))
        == left_out(None, context_of({}))
        == []
    )
