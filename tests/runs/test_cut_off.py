"""A comparison that is cut off anywhere: its tables and its page show what was committed."""

import itertools
import warnings

import jax
import pandas as pd
import pytest
from conftest import sampled
from directories import tiny
from made_up_logs import ENDED, ROUNDS, write_log

from fedsim.errors import DirectoryError
from fedsim.runs import derive, directory
from fedsim.runs.export import exported
from fedsim.runs.record import record_of_comparison
from fedsim.scenario import read
from fedsim.study.grid import design_of

TABLES = {"rounds.csv", "timing.csv", "clients.csv", "partition.csv", "summary.csv", "compare.csv"}
METHODS = ["fedavg", "median"]
TUNE = {"client.lr": [0.1, 0.3]}
VARY = {"fleet.malicious": [0, 0.2]}
DESIGNS = {  # methods, what varies, what is tuned
    "methods": (METHODS, None, None),
    "tuned": (METHODS, None, TUNE),
    "one of them tuned": (["fedavg", "fedprox(mu=0.1|1)"], None, None),
    "varied": (METHODS, VARY, None),
    "varied and tuned": (METHODS, VARY, TUNE),
    "attacks": ([{"method": "mean", "set": {"wire": ["sign_flip"]}}, "median"], VARY, None),
    "a single method": (["fedavg"], VARY, None),
}


DATA = {"kind": "digits", "clients": 12, "validation": 0.1}
SCENARIO = tiny(rounds=ROUNDS, data=DATA, evaluate={"every": 1, "target": 0.5})
del SCENARIO["method"]


def cut_off(name, path):
    """The directory of a comparison that has just begun -> its runs."""
    methods, vary, tune = DESIGNS[name]
    design = design_of(read(SCENARIO), methods, vary, tune)
    path.mkdir()
    record = record_of_comparison(design, jax.devices(), supplied=[])
    directory.write_record(path, {**record, "names": {}, "started": "2026-11-29T12:00:00Z"})
    return [(cell.key_columns, seed) for cell in design.cells for seed in cell.scenario.spec.seeds]


def cuts_of(runs):
    """Before the first commit; in the first round; one run ended; one method; all but one; all."""
    count = len(runs)
    methods = [who["method"] for who, _ in runs]
    yield [0] * count
    yield [1] + [0] * (count - 1)
    yield [ENDED] + [0] * (count - 1)
    yield [0] * (count - 1) + [ENDED]
    yield [ENDED if method == methods[0] else 2 for method in methods]
    yield [ENDED] * (count - 1) + [1]
    yield [ENDED] * count


@pytest.mark.parametrize(
    ("name", "number"), sampled(itertools.product(DESIGNS, range(7)), 33, start=2)
)
def test_any_committed_prefix_has_tables_and_a_page(name, number, tmp_path, draw, monkeypatch):
    """Everything committed is in the tables, and everything is marked as unfinished."""
    without_pictures = lambda frames, record, drawn=(): draw(frames, record, ())
    monkeypatch.setattr(derive, "derived_files", without_pictures)
    path = tmp_path / "run"
    runs = cut_off(name, path)
    cuts = [*cuts_of(runs)][number]
    for (who, seed), entries in zip(runs, cuts, strict=True):
        write_log(path, who, seed, entries)

    names = derive.rebuild(path)
    assert TABLES | {"report.html"} <= {*names} and all((path / name).is_file() for name in names)
    record = directory.sound_record(path)
    assert record["status"] == "interrupted" and record["unfinished"]["files"] == names
    mark = record["unfinished"]["mark"]
    assert mark.startswith("unfinished: ") and mark in (path / "report.html").read_text()
    assert len(pd.read_csv(path / "rounds.csv")) == sum(min(cut, ROUNDS + 1) for cut in cuts)
    summary = pd.read_csv(path / "summary.csv")
    assert len(summary) == sum(cut > 0 for cut in cuts)
    unfinished = sum(0 < cut < ENDED for cut in cuts)  # a column without any value is not written
    assert ("status" in summary and (summary["status"] == "unfinished").sum()) == unfinished
    ended = {who["method"] for (who, _), cut in zip(runs, cuts, strict=True) if cut == ENDED}
    compared = set() if any("tuned" in who for who, _ in runs) else ended
    assert {*pd.read_csv(path / "compare.csv")["method"]} == compared


def test_tables_remain_when_a_page_cannot_be_made(tmp_path, monkeypatch):
    (who, seed), *_ = cut_off("methods", tmp_path / "run")
    write_log(tmp_path / "run", who, seed, 2)
    monkeypatch.setattr(derive, "derived_files", lambda *_: {}["a column that is not there"])
    with pytest.raises(DirectoryError, match="KeyError"):
        derive.rebuild(tmp_path / "run")
    assert len(pd.read_csv(tmp_path / "run/rounds.csv")) == 2
    assert directory.sound_record(tmp_path / "run")["unfinished"]["files"] == sorted(
        path.name for path in (tmp_path / "run").glob("*.csv")
    )


def test_the_export_mixes_no_settings_and_is_refused_before_the_first_row(tmp_path):
    runs = cut_off("tuned", tmp_path / "run")
    refusal = pytest.raises(DirectoryError, match="no round has been evaluated yet")
    with refusal, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported(tmp_path / "run", None, "latex")
    for who, seed in runs:
        write_log(tmp_path / "run", who, seed, 2)
    with pytest.warns(UserWarning, match="unfinished"):
        table = exported(tmp_path / "run", None, "latex").decode()
    assert table.count("client.lr=0.1") == table.count("client.lr=0.3") == len(METHODS)
