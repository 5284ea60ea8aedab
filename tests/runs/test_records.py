"""A malformed `run.json` whose hash matches: every command says so in a line, or ignores it."""

import copy
import itertools
import json
import shutil
import warnings

import pytest
from conftest import WHOLE

import fedsim
from fedsim.errors import (
    CheckpointError,
    DataError,
    DeviceError,
    DirectoryError,
    LockedError,
    ScenarioError,
)
from fedsim.runs import derive, directory
from fedsim.runs.export import exported
from fedsim.runs.record_form import ComparisonRecord, RunRecord, malformed

TINY = {
    "name": "tiny",
    "rounds": 1,
    "data": {"kind": "gaussian_blobs", "clients": 4, "samples": 60, "classes": 3, "shape": [3]},
    "cohort": {"kind": "uniform", "size": 2},
}
METHODS = ["fedavg", "median"]
OURS = (ScenarioError, DataError, DirectoryError, LockedError, CheckpointError, DeviceError)
ODD = ["text", ["a", 3], 3, 2.5, None, {"a": 3}, True, -1, ""]  # for values of another form


def paths(value, above=()):
    """Every place in a nested value, the first of every list, the last of every long mapping."""
    inner = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))[:1]
        if isinstance(value, list)
        else []
    )
    for name, one in inner if len(inner) < 30 else inner[:1]:
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


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A run and a comparison, whole and small."""
    home = tmp_path_factory.mktemp("played")
    fedsim.run(TINY, out=home / "run", pictures=False)
    fedsim.compare(
        TINY, METHODS, out=home / "compare", seeds=1, vary={"client.lr": [0.1, 0.2]}, pictures=False
    )
    return home


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


def tried(out, record, acts):
    """The outcome of each act on a directory with this record: `done`, or the line of its error."""
    directory.write_record(out, record)
    outcomes = {}
    for name in acts:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                verification = ACTS[name](out)
            outcomes[name] = "done"
            if name == "verify":
                assert all("\n" not in check.detail for check in verification.checks)
        except OURS as error:
            assert str(error), name
            outcomes[name] = str(error)
        if name == "run":
            assert "already exists" in outcomes[name]
    return outcomes


def cases(out, every):
    """Records with one changed value."""
    record = json.loads((out / "run.json").read_text())
    record.pop("sha256")
    every_case = itertools.product(paths(record), ODD)
    for path, value in itertools.islice(every_case, 0, None, every):
        yield path, value, changed(record, path, value)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["run", "compare"])
def test_any_malformed_entry_is_refused_or_ignored_by_every_command(kind, played, tmp_path):
    for path, value, record in cases(played / kind, 1 if WHOLE else 399):
        out = shutil.copytree(played / kind, tmp_path / "out")
        tried(out, record, ACTS)
        shutil.rmtree(out)


def test_records_of_runs_have_the_form(made, root):
    for out in (
        made / "run",
        made / "compare",
        root / "reports/optimisers",
    ):
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
    assert malformed(changed(record, ("scenario", "evaluate", "every"), 0)) == [
        "scenario.evaluate.every"
    ]
    assert malformed(changed(record, ("scenario", "seeds"), [0, True])) == ["scenario.seeds[1]"]
    for folder in ("../elsewhere", "", "a/b", "a" * 256):
        assert malformed({**record, "names": {"fedavg": folder}}) == ["names.fedavg"]


# ------------------------------------------------------------------------ files that lead elsewhere


@pytest.mark.parametrize(
    ("act", "name"),
    [
        *((act, "rounds.csv") for act in ("export", "export --table", "report", "report --out")),
        *(("diff", name) for name in ("rounds.csv", "run.json", "figures")),
        ("verify", "rounds.csv"),
    ],
)
def test_no_command_follows_links_in_a_run_directory(act, name, made, tmp_path):
    out = shutil.copytree(made / "run", tmp_path / "out")
    secret = tmp_path / "secret"
    if (out / name).exists():
        (out / name).rename(secret)
    else:
        secret.mkdir()
    (out / name).symlink_to(secret)
    before = sorted((path, path.stat().st_mtime_ns) for path in (secret, *secret.rglob("*")))
    with pytest.raises(
        DirectoryError, match=f"{name}: is a symbolic link, which no run directory holds"
    ):
        ACTS[act](out)
    assert (
        sorted((path, path.stat().st_mtime_ns) for path in (secret, *secret.rglob("*"))) == before
    )


@pytest.mark.parametrize(
    "name",
    [
        "../other/rounds",
        "/etc/passwd",
        "..",
        "",
        ".",
        "checkpoints/../rounds",
        "rounds.csv",
        "a\nb",
    ],
)
def test_a_table_is_a_name_and_not_a_path(name, made, tmp_path):
    out = shutil.copytree(made / "run", tmp_path / "out")
    shutil.copytree(made / "run", tmp_path / "other")
    with pytest.raises(
        DirectoryError,
        match=r"has no table '.*'; there are clients, partition, rounds, summary, timing$",
    ):
        exported(out, name, "csv")


def test_a_table_that_no_run_wrote_is_refused_in_one_line(made, tmp_path):
    out = shutil.copytree(made / "run", tmp_path / "out")
    (out / "summary.csv").write_text("a,b\n1,2\n")
    for act in ("export", "report --out"):
        with pytest.raises(DirectoryError, match="the tables are not as a run writes them"):
            ACTS[act](out)
