"""A malformed `run.json` whose hash matches: every command says so in a line, or ignores it."""

import copy
import itertools
import json
import os
import shutil
import warnings

import pytest
from conftest import WHOLE

import fedsim
from fedsim.errors import DirectoryError, Failure
from fedsim.runs import derive, directory
from fedsim.runs.export import exported
from fedsim.runs.record_form import ComparisonRecord, RunRecord, malformed

TINY = {
    "name": "tiny",
    "rounds": 1,
    "data": {"kind": "gaussian_blobs", "clients": 4, "samples": 60, "classes": 3, "shape": [3]},
    "cohort": {"kind": "uniform", "size": 2},
}
METHODS = ["fedavg", "mean"]
ODD = ["text", ["a", 3], 3, 2.5, None, {"a": 3}, True, -1, ""]  # for values of another form


def paths(value, above=()):
    """Every place in a nested value; of lists and of long mappings, the first one."""
    inner = []
    if isinstance(value, dict):
        inner = [*value.items()][: None if len(value) < 30 else 1]
    if isinstance(value, list):
        inner = [*enumerate(value)][:1]
    for name, one in inner:
        yield (*above, name)
        yield from paths(one, (*above, name))


def changed(record, path, value):
    """The record with another value at a place."""
    again = copy.deepcopy(record)
    place = again
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return again


@pytest.fixture(scope="module")
def made(root, tmp_path_factory):
    """A run and a comparison that are stored in the project, without their commits."""
    home = tmp_path_factory.mktemp("kept")
    shutil.copytree(root / "reports/readme", home / "run")
    shutil.copytree(root / "reports/rules", home / "compare")
    return home


PLAYED = {
    "run": lambda out: fedsim.run(TINY, out=out, pictures=False),
    "compare": lambda out: fedsim.compare(
        TINY, METHODS, out=out, seeds=1, vary={"client.lr": [0.1, 0.2]}, pictures=False
    ),
}
ACTS = {
    "run --resume": lambda out: fedsim.run(TINY, out=out, resume=True, pictures=False),
    "compare --resume": lambda out: fedsim.compare(
        TINY, METHODS, out=out, seeds=1, resume=True, pictures=False
    ),
    "run": lambda out: fedsim.run(TINY, out=out, pictures=False),
    "report": derive.rebuild,
    "report --out": lambda out: derive.page_of_runs([out]),
    "report of two": lambda out: derive.page_of_runs([out, out]),
    "export": lambda out: exported(out, None, "markdown"),
    "export --table": lambda out: exported(out, "rounds", "csv"),
    "verify": fedsim.verify,
    "diff": lambda out: fedsim.diff(out, out),
    "run --force": lambda out: fedsim.run(TINY, out=out, force=True, pictures=False),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", PLAYED)
def test_any_malformed_entry_is_refused_or_ignored_by_every_command(kind, tmp_path):
    """Of records with one changed value, whose hash matches: an error is one of ours."""
    whole = tmp_path / "whole"
    PLAYED[kind](whole)
    record = directory.read_record(whole)
    every_case = itertools.product(paths(record), ODD)
    for path, value in itertools.islice(every_case, 0, None, 1 if WHOLE else 799):
        out = shutil.copytree(whole, tmp_path / "out")
        directory.write_record(out, changed(record, path, value))
        for name, act in ACTS.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    done = act(out)
                assert name != "run"
                if name == "verify":
                    assert all("\n" not in check.detail for check in done.checks)
            except Failure as error:
                assert "already exists" in str(error) or name != "run", (name, path, value)
        shutil.rmtree(out)


def test_records_of_runs_have_the_form(made, root):
    for out in (made / "run", made / "compare", root / "reports/optimisers"):
        assert malformed(directory.read_record(out), "files", "reasons") == [], out


@pytest.mark.parametrize(("form", "kind"), [(RunRecord, "run"), (ComparisonRecord, "compare")])
def test_every_entry_that_is_read_is_required(form, kind, made):
    record = json.loads((made / kind / "run.json").read_text())
    for name in sorted(form.__required_keys__ - {"kind"}):
        less = {key: value for key, value in record.items() if key != name}
        assert malformed(less) == [name]
        for value in ("text" if name not in ("status", "method", "baseline") else 3, None):
            assert any(entry.startswith(name) for entry in malformed({**record, name: value})), name
    assert malformed({**record, "kind": ["run"]}) == ["kind"]
    assert malformed({**record, "kind": "walk"}) == ["kind"]
    never = changed(record, ("scenario", "evaluate", "every"), 0)
    assert malformed(never) == ["scenario.evaluate.every"]
    assert malformed(changed(record, ("scenario", "seeds"), [0, True])) == ["scenario.seeds[1]"]
    for folder in ("../elsewhere", "", "a/b", "a" * 256):
        assert malformed({**record, "names": {"fedavg": folder}}) == ["names.fedavg"]


def test_a_record_must_be_a_file(tmp_path):
    os.mkfifo(tmp_path / directory.RECORD)
    with pytest.raises(DirectoryError, match="is not a regular file"):
        directory.read_record(tmp_path)


# ------------------------------------------------------------------------ files that lead elsewhere


@pytest.mark.parametrize(
    "act", ["export", "export --table", "report", "report --out", "verify", "diff"]
)
def test_no_command_follows_links_in_a_run_directory(act, made, tmp_path):
    out = shutil.copytree(made / "run", tmp_path / "out")
    secret = (out / "rounds.csv").rename(tmp_path / "secret")
    (out / "rounds.csv").symlink_to(secret)
    before = secret.stat().st_mtime_ns
    with pytest.raises(
        DirectoryError, match=r"rounds\.csv: is a symbolic link, which no run directory holds"
    ):
        ACTS[act](out)
    assert secret.stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["../compare/rounds", "/etc/passwd", "..", "", "rounds.csv", "\n"])
def test_a_table_is_a_name_and_not_a_path(name, made):
    tables = "clients, partition, rounds, summary, timing"
    with pytest.raises(DirectoryError, match=f"has no table '.*'; there are {tables}$"):
        exported(made / "run", name, "csv")


def test_a_table_that_no_run_wrote_is_refused_in_one_line(made, tmp_path):
    out = shutil.copytree(made / "run", tmp_path / "out")
    (out / "summary.csv").write_text("a,b\n1,2\n")
    for act in ("export", "report --out"):
        with pytest.raises(DirectoryError, match="the tables are not as a run writes them"):
            ACTS[act](out)
