"""Records name no user and no machine: paths are relative, and a tree may be moved."""

import json
import shutil
import socket

import numpy as np
import pytest

import fedsim
from fedsim.scenario.recorded_paths import relative, with_relative_paths

ROWS = np.random.default_rng(0).normal(size=(60, 2)).round(3)
TABLE = "a,b,y\n" + "".join(f"{a},{b},{int(a > 0)}\n" for a, b in ROWS)


@pytest.mark.parametrize(
    ("path", "start", "roots", "recorded"),
    [
        ("/p/study/d.csv", "/p/study", ["/p/study", "/p"], "d.csv"),
        ("/p/data/d.csv", "/p/study", ["/p/study", "/p"], "../data/d.csv"),
        ("/p/data/d.csv", "/p/study", ["/p/study", "/q"], "d.csv"),  # nothing above is recorded
        ("/far/set/d.csv", "/p/study", ["/p/study", "/far"], "set/d.csv"),
        ("/p/data/d.csv", "/p/study", ["/"], "d.csv"),
    ],
)
def test_a_path_reveals_nothing_above_its_roots(path, start, roots, recorded):
    assert relative(path, start, roots) == recorded


def test_no_path_goes_through_a_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/users/anna")
    assert relative("/users/anna/d.csv", "/users", ["/users"]) == "d.csv"
    assert relative("/users/anna/p/d.csv", "/users/anna/p/out", ["/users/anna/p"]) == "../d.csv"


@pytest.mark.parametrize(
    ("word", "recorded"),
    [
        ("/nowhere/s.yaml", "s.yaml"),
        ("--out=/nowhere/anna/run", "--out=run"),
        ("data={kind: npz, path: /nowhere/w.npz}", "data={kind: npz, path: w.npz}"),
        ("data.path=/nowhere/a.csv,/nowhere/b.csv", "data.path=a.csv,b.csv"),
        ("../nowhere/x", "x"),
        ("~/x", "x"),
        ("scenarios/iid.yaml", "scenarios/iid.yaml"),
        ("fedprox(mu=0.1)", "fedprox(mu=0.1)"),
        ("client.lr=1/2", "client.lr=1/2"),
    ],
)
def test_paths_in_a_command_line_are_recorded_as_relative(word, recorded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert with_relative_paths(word, []) == recorded


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A tree of scenario, data and a run before it is moved; the folder above it is `anna`."""
    home = tmp_path_factory.mktemp("tree") / "anna" / "project"
    (home / "study").mkdir(parents=True)
    scenario = "name: s\nrounds: 2\ndata: {kind: csv, path: d.csv, clients: 4}\n"
    (home / "study" / "d.csv").write_text(TABLE)
    (home / "study" / "s.yaml").write_text(scenario)
    words = ["/opt/anna/bin/fedsim", "run", f"{home}/study/s.yaml", "--out", f"{home}/out"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.argv", words)
        patched.setenv("JAX_TRACEBACK_FILTERING", "/home/anna/x")
        fedsim.run(home / "study" / "s.yaml", out=home / "study" / "out", pictures=False)
    return home


@pytest.mark.long
def test_nothing_in_a_run_directory_names_a_user_or_a_machine(project):
    for path in (project / "study" / "out").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"anna" not in content and str(project).encode() not in content, path
            if path.suffix in (".json", ".yaml"):
                assert f'"{socket.gethostname()}"'.encode() not in content
    record = json.loads((project / "study/out/run.json").read_text())
    assert record["scenario"]["data"]["path"] == "d.csv"
    assert record["surroundings"]["command"][:3] == ["fedsim", "run", "s.yaml"]
    assert "path: ../d.csv" in (project / "study/out/scenario.yaml").read_text()


@pytest.mark.long
def test_a_moved_tree_is_verified_resumed_and_repeated(project, tmp_path, monkeypatch):
    shutil.copytree(project, tmp_path / "berta")
    study = tmp_path / "berta" / "study"
    assert fedsim.verify(study / "out").equal
    monkeypatch.chdir(study / "out")
    again = fedsim.run("scenario.yaml")  # the file is known by its hash
    more = fedsim.run(study / "s.yaml", rounds=3, out=study / "out", resume=True, pictures=False)
    assert more.rounds["round"].tolist() == [0, 1, 2, 3]
    assert more.rounds.head(3).equals(again.rounds)


@pytest.mark.long
def test_a_file_is_found_by_its_hash_and_no_other_is_read(project, tmp_path, monkeypatch):
    """A stranger's scenario may name any file: one without the hash it names is not read."""
    out = shutil.copytree(project / "study/out", tmp_path / "run")  # outside its tree
    monkeypatch.chdir(tmp_path)
    missing = fedsim.verify(out)
    assert not missing.wrong and missing.checks[-1].detail == "d.csv is elsewhere (--data-root DIR)"
    assert fedsim.verify(out, data_roots=[project / "study"]).equal
    # Where the path leads, outside, is another file.
    (tmp_path / "d.csv").write_text(TABLE.replace("1\n", "0\n", 1))
    monkeypatch.chdir(out)
    with pytest.raises(fedsim.ScenarioError, match="lies outside"):
        fedsim.run("scenario.yaml")
