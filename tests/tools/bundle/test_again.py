"""What equal runs have in common, as the README says; and what `verify` cannot check."""

import re

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from directories import contents, rehashed

import fedsim
from fedsim.cli import cli
from fedsim.report import derived

TINY = {
    "name": "tiny",
    "rounds": 2,
    "data": {"kind": "gaussian_blobs", "clients": 4, "samples": 60, "classes": 3, "shape": [3]},
    "cohort": {"kind": "uniform", "size": 2},
    "checkpoint": {"rounds": 1},
}


@pytest.fixture(autouse=True)
def in_a_pipe(monkeypatch):
    """A line is as long as it is, where no terminal says how wide it is."""
    monkeypatch.delenv("COLUMNS", raising=False)


def allowed(root) -> set[str]:
    """Files that may differ, by the README's own sentence."""
    after = (root / "README.md").read_text().partition("## Nothing is lost")[2]
    section = after.partition("\n## ")[0]
    sentence = re.search(r"Two equal runs may differ only in (.*?);", section, re.S)
    assert sentence, "the README names the files that may differ"
    return set(re.findall(r"`([\w./]+)`", sentence[1]))


@pytest.mark.long
def test_equal_runs_differ_only_in_the_files_that_the_readme_names(
    root, tmp_path, pictures, monkeypatch
):
    """Except for the pictures, which take long and have their own test."""
    monkeypatch.setattr(derived, "all_figures", lambda *_: ())
    for name in ("one", "two"):
        fedsim.run(TINY, out=tmp_path / name)
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert one.keys() == two.keys() and {"report.html", "tables/summary.tex"} <= one.keys()
    differing = {name for name in one if one[name] != two[name]}
    # the log has the rows of timing.csv, and the commits the hash of the log
    tops = {re.sub("^(checkpoints)/.*", r"\1", name) for name in differing}
    assert {"timing.csv", "run.json"} <= tops <= allowed(root)
    assert allowed(root) == {"timing.csv", "run.json", "report.html", "checkpoints"}


# ---------------------------------------------------------------------------------- what is missing


@pytest.fixture
def done(tmp_path):
    """A run on a data file next to its scenario, and the folder with its samples."""
    study = tmp_path / "study"
    study.mkdir()
    rng = np.random.default_rng(0)
    lines = [f"{a:.3f},{b:.3f},{int(a > 0)}" for a, b in rng.normal(size=(40, 2))]
    (study / "samples.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    scenario = {**TINY, "data": {"kind": "csv", "path": "samples.csv", "clients": 4}}
    (study / "s.yaml").write_text(yaml.safe_dump(scenario))
    fedsim.run(study / "s.yaml", out=tmp_path / "run", pictures=False)
    return tmp_path / "run", study


def verified(out, *words):
    """`fedsim verify` -> exit code, last line, and the marks of the checks that are not ok."""
    shown = CliRunner().invoke(cli, ["verify", str(out), *map(str, words)])
    assert shown.exception is None or isinstance(shown.exception, SystemExit), shown.exception
    *checks, last = shown.stdout.splitlines()
    marks = {line[5:].partition(":")[0]: line[:3] for line in checks if line[:3] != "ok "}
    return shown.exit_code, last, marks


WHOLE, WRONG = "is equal to what its record says", "is NOT what its record says"
ELSEWHERE = "cannot be checked here: {} is elsewhere (--data-root DIR)"


@pytest.mark.long
def test_a_data_file_elsewhere_counts_as_missing_not_as_wrong(done):
    """And what is wrong is said even if something is missing."""
    out, study = done
    code, last, marks = verified(out)  # from where it may not be read
    assert (code, marks) == (2, {"data": "-- "}) and last.endswith(ELSEWHERE.format("samples.csv"))
    code, last, marks = verified(out, "--data-root", study)
    assert (code, marks) == (0, {}) and last.endswith(WHOLE)
    (study / "samples.csv").rename(study / "moved.csv")
    code, last, marks = verified(out, "--data-root", study)
    assert (code, marks) == (2, {"data": "-- "}) and last.endswith(ELSEWHERE.format("samples.csv"))
    (study / "samples.csv").write_text((study / "moved.csv").read_text().replace("1\n", "0\n", 1))
    code, last, marks = verified(out, "--data-root", study)  # there, and another one
    assert (code, marks) == (7, {"data": "NOT"}) and last.endswith(WRONG)
    (out / "rounds.csv").write_text((out / "rounds.csv").read_text().replace("0,1,", "0,2,", 1))
    rehashed(out)
    code, last, marks = verified(out)
    assert (code, marks) == (7, {"tables": "NOT"}) and last.endswith(WRONG)
