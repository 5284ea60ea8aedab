"""Cohorts listed in a file: the same run as if listed in the scenario, and one line per fault."""

import json

import pytest
from building import built

import fedsim
from fedsim.errors import CheckpointError, DataError, ScenarioError
from fedsim.fleet.selection import rounds_of

ROUNDS = [[3, 5], [1], [2, 0, 2]]
LISTED = "round,client,note\n2,1,a\n1,3,b\n3,2,c\n1,5,d\n3,0,e\n3,2,f\n"
TINY = {
    "name": "tiny",
    "rounds": 5,
    "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 6},
    "client": {"steps": 2},
    "cohort": {"kind": "listed", "path": "cohorts.csv"},
}


def written(folder, name: str, text: str | bytes) -> str:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return str(folder / name)


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A scenario beside its file of cohorts, and another working directory."""
    for name in ("study", "here", "far"):
        (tmp_path / name).mkdir()
    written(tmp_path / "study", "cohorts.csv", LISTED)
    written(tmp_path / "far", "far.csv", LISTED)
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in TINY.items()]
    written(tmp_path / "study", "s.yaml", "".join(lines))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


INLINE = {**TINY, "cohort": {"kind": "listed", "rounds": ROUNDS}}


@pytest.mark.long
def test_cohorts_from_a_file_give_the_run_of_cohorts_in_the_scenario(study):
    """And a run does not resume, nor is it verified, with another file."""
    path, out = study / "study" / "s.yaml", study / "run"
    assert [ids.tolist() for ids in rounds_of(str(path.parent / "cohorts.csv"), None)] == ROUNDS
    of_file, of_scenario = fedsim.run(path, out=out, pictures=False), fedsim.run(INLINE)
    for table in ("rounds", "clients", "summary"):
        assert getattr(of_file, table).equals(getattr(of_scenario, table))

    assert fedsim.verify(out, data_roots=[path.parent]).equal
    written(path.parent, "cohorts.csv", LISTED.replace("2,1,a", "2,4,a"))
    with pytest.raises(CheckpointError, match="sha256"):
        fedsim.run(path, out=out, resume=True, pictures=False)
    assert fedsim.verify(out, data_roots=[path.parent]).wrong


def test_the_resolved_scenario_has_the_hash_and_no_empty_keys(study):
    resolved = built(study / "study" / "s.yaml").scenario.resolved()["cohort"]
    assert resolved.keys() == {"kind", "path", "sha256"} and len(resolved["sha256"]) == 64
    assert built(INLINE).scenario.resolved()["cohort"] == INLINE["cohort"]


BAD = {
    "no header": ("1,2\n", "the columns round, client are needed: no column 'round'; there"),
    "no rows": ("round,client\n", "no rows below the header"),
    "a fraction": ("round,client\n1,2.5\n", "row 2, column 'client': '2.5' is not a whole number"),
    "a word": ("round,client\none,2\n", "row 2, column 'round': 'one' is not a whole number"),
    "round 0": ("round,client\n0,2\n", "row 2, column 'round': '0' is not a whole number up to"),
    "a gap": ("round,client\n1,2\n3,2\n", "round 2 has no row, but round 3 has"),
    "a stranger": ("round,client\n1,2\n1,6\n", "row 3: there is no client 6 (clients are 0 to 5)"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_one_line(name, study):
    content, words = BAD[name]
    file = written(study / "study", "cohorts.csv", content)
    with pytest.raises(DataError) as error:
        built(study / "study" / "s.yaml")
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"{file}: ") and words in line and error.value.exit_code == 3


REFUSED = {
    "outside": ("{kind: listed, path: ../far/far.csv}", "path: .*outside the scenario's folder"),
    "missing": ("{kind: listed, path: cohort.csv}", "there is no file 'cohort.csv'; did you mean"),
    "both": (
        "{kind: listed, path: cohorts.csv, rounds: [[0]]}",
        "listed: .* found both; write one",
    ),
    "neither": ("listed", "listed: .* found neither; write one of them"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_contradictory_cohorts_are_refused(name, study):
    section, words = REFUSED[name]
    with pytest.raises(ScenarioError, match=f"cohort.*{words}"):
        built(study / "study" / "s.yaml", f"cohort={section}")
