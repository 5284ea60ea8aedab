"""Pages, figures and paper tables: the same bytes from a run's frames and from its files."""

import pandas as pd
import pytest
from conftest import some

import fedsim
from fedsim.disk.tables import read_table
from fedsim.report import derived
from fedsim.runs.derive import TABLES, rebuild

BLOBS = {"kind": "gaussian_blobs", "samples": 300, "clients": 5, "validation": 0.2}
TINY = {"name": "tiny", "rounds": 2, "seeds": 2, "data": BLOBS, "evaluate": {"target": 0.3}}
LINE = {
    **TINY,
    "data": {"kind": "linear_regression", "clients": 5},
    "model": {"kind": "linear"},
    "evaluate": {},
}
LABELS = ["mean", "7", "=a\nb, 'c'"]


def compared(out):
    """Methods of any name over variations and settings; one fails in the small cohort."""
    methods = [{"method": "mean", "label": label} for label in LABELS] + ["krum(f=1)"]
    vary = {"cohort": [{"kind": "uniform", "size": 2}, "all"]}
    tune = {"client.shuffle": [True, False]}
    return fedsim.compare(
        TINY, methods, vary=vary, tune=tune, baseline="mean", score="best", out=out
    )


MADE = {
    "comparison": compared,
    "run without labels": lambda out: fedsim.run(LINE, out=out),
    "run that diverged": lambda out: fedsim.run(TINY, edits="client.lr=1e30", out=out),
}


def contents(folder):
    """All files but those that `fedsim report` adds, and the record with the hashes of these."""
    added = lambda path: path.suffix == ".pdf" or path.name == "run.json"
    return {
        path: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not added(path)
    }


@pytest.mark.long
@pytest.mark.parametrize("kind", some(MADE, 2))
def test_what_is_derived_in_memory_is_what_is_derived_from_the_files(kind, tmp_path, pictures):
    made = MADE[kind](tmp_path / "out")
    kept = contents(tmp_path / "out")
    names = rebuild(tmp_path / "out")
    assert {derived.PAGE, "figures/partition.pdf", "tables/summary.tex"} <= {*names}
    assert contents(tmp_path / "out") == kept
    frames = made.frames()
    for name in TABLES:
        table = read_table(tmp_path / "out", name)
        assert (table is None) == (name not in frames or not len(frames[name]))
        if table is not None:  # a switch that varies is a word in a file
            switches = dict.fromkeys({"client.shuffle"} & {*frames[name]}, str)
            pd.testing.assert_frame_equal(table, frames[name].astype(switches))
