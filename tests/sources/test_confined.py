"""Where a scenario may read data, and that a file is the same one wherever it lies."""

import json
import shutil

import numpy as np
import pytest

import fedsim
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.federation import federations_of, resolved_data
from fedsim.errors import CheckpointError, ScenarioError
from fedsim.scenario import read

X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
SECTIONS = {"name": "x", "rounds": 2, "checkpoint": {"rounds": 1}}


def save(path, x):
    np.savez(path, x=x, y=(X[:, 0] > 0).astype(int), client=np.arange(40) % 4)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A study's folder, the working directory, and a third folder, by name, each with data."""
    for name in ("study", "here", "far"):
        (tmp_path / name).mkdir()
        save(tmp_path / name / f"{name}.npz", X)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def written(places, path, **sections):
    """A scenario file that names a data file."""
    lines = [f"{name}: {json.dumps(value)}" for name, value in {**SECTIONS, **sections}.items()]
    file = places / "study" / "s.yaml"
    lines += [f"data: {{kind: npz, path: {json.dumps(str(path))}}}", "model: logistic", ""]
    file.write_text("\n".join(lines))
    return file


def settled(scenario):
    """The data section of a scenario, as its samples settle it."""
    federation = federations_of(scenario, None, np.dtype("float32"))[0]
    return resolved_data(scenario, None, federation)


@pytest.mark.parametrize(
    "path", ["study.npz", "here.npz", "../study/study.npz", "{}/here/here.npz"]
)
def test_beside_the_scenario_and_in_the_working_directory(path, places):
    assert settled(read(written(places, path.format(places)))).clients == 4


@pytest.mark.parametrize(
    "path", ["../far/far.npz", "{}/far/far.npz", "../../../../../../etc/passwd", "/etc/passwd"]
)
def test_elsewhere_is_refused_in_a_line_that_says_what_to_do(path, places):
    with pytest.raises(ScenarioError) as error:
        settled(read(written(places, path.format(places))))
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"{places}/study/s.yaml:4:25: data.path: '")
    assert "lies outside the scenario's folder and the working directory" in line or "..." in line
    remedy = "; move it there, or allow its folder with --data-root DIR"
    assert line.endswith(remedy) or len(line) >= 290


@pytest.mark.parametrize("path", ["far.npz", "{}/far/far.npz", "../far/far.npz"])
def test_a_data_root_allows_its_files_and_is_looked_into(path, places):
    section = settled(read(written(places, path.format(places)), data_roots=[places / "far"]))
    assert section.path == str(places / "far" / "far.npz")
    again = read(read(places / "study/s.yaml"), data_roots=[places / "far"])
    assert settled(again) == section


def test_a_link_counts_as_what_it_leads_to(places):
    (places / "study" / "near.npz").symlink_to("study.npz")
    (places / "study" / "away.npz").symlink_to("../far/far.npz")
    near = settled(read(written(places, "near.npz")))
    assert near.path == str(places / "study" / "study.npz")
    with pytest.raises(ScenarioError, match="lies outside"):
        settled(read(written(places, "away.npz")))
    (places / "linked").symlink_to("far")
    allowed = read(written(places, "away.npz"), data_roots=[places / "linked"])
    assert settled(allowed).clients == 4


def test_a_working_directory_that_changes_after_reading_changes_nothing(places, monkeypatch):
    written(places, "here.npz")
    scenario = read("../study/s.yaml")
    monkeypatch.chdir(places / "far")
    assert settled(scenario).path == str(places / "here" / "here.npz")


def test_what_is_set_on_the_command_line_is_confined_too(places):
    file = written(places, "study.npz")
    edit = f"data.path={places}/far/far.npz"
    with pytest.raises(ScenarioError, match=r"data\.path: .*--data-root"):
        settled(read(file, (edit,)))
    assert settled(read(file, (edit,), data_roots=[places / "far"])).clients == 4


def test_a_scenario_is_no_guess_for_a_missing_data_file(places):
    with pytest.raises(ScenarioError, match=r"no file 's\.npz'; write its path relative to"):
        settled(read(written(places, "s.npz")))


# -------------------------------------------------------------------------- the same file elsewhere


def of(places, name, **sections):
    data = {"kind": "npz", "path": str(places / name)}
    return {**SECTIONS, "model": "logistic", **sections, "data": data}


def built(scenario):
    with numerics(scenario) as devices:
        return build(scenario, devices=devices[:1]).scenario


def test_the_hash_of_a_scenario_knows_the_file_and_not_its_place(places):
    shutil.copy(places / "far" / "far.npz", places / "here" / "copy.npz")
    one, other = (built(read(of(places, name))) for name in ("far/far.npz", "here/copy.npz"))
    assert one.hash() == other.hash() and one.resolved() != other.resolved()
    save(places / "here" / "copy.npz", X + 1)
    assert built(read(of(places, "here/copy.npz"))).hash() != one.hash()
    unread = [read(of(places, name)).hash() for name in ("far/far.npz", "here/copy.npz")]
    assert unread[0] != unread[1]  # nobody has looked what they hold


def test_a_run_knows_its_file_wherever_it_was_moved(places):
    run, file = places / "run", places / "here" / "moved.npz"
    fedsim.run(of(places, "far/far.npz"), out=run, pictures=False)
    (places / "far" / "far.npz").rename(file)

    def resumed(rounds: int = 2):
        scenario = of(places, "here/moved.npz", rounds=rounds)
        return fedsim.run(scenario, out=run, resume=True, pictures=False)

    files = [path for path in run.rglob("*") if path.is_file()]
    before = [path.stat().st_mtime_ns for path in files]
    resumed()
    assert [path.stat().st_mtime_ns for path in files] == before  # it has ended

    fedsim.run(of(places, "here/moved.npz"), out=places / "again", pictures=False)
    found = fedsim.diff(run, places / "again")
    assert found.equal and not any(found.groups.values())

    assert resumed(rounds=3).rounds["round"].tolist() == [0, 1, 2, 3]

    save(file, X + 1)  # is another run
    with pytest.raises(CheckpointError, match=r"scenario\.data\.sha256: .*\n.*hashes\.data"):
        resumed(rounds=3)


def test_the_resolved_scenario_of_a_run_directory_runs_and_is_verified(places):
    """Its path is absolute, and in the working directory: nothing has to be allowed."""
    out = places / "here" / "reports" / "x"
    fedsim.run(written(places, "here.npz"), out=out, pictures=False)
    record = json.loads((out / "run.json").read_text())
    assert built(read(out / "scenario.yaml")).hash() == record["hashes"]["scenario"]
    found = fedsim.verify(out)
    assert found.equal, found.checks


def test_a_record_may_name_what_its_user_allows(places):
    out = places / "run"
    allowed = [str(places / "far")]
    fedsim.run(written(places, "../far/far.npz"), out=out, data_roots=allowed, pictures=False)
    refused = fedsim.verify(out)
    assert not refused.equal and "--data-root" in refused.checks[-1].detail
    assert fedsim.verify(out, data_roots=[places / "far"]).equal
