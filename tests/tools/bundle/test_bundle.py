"""`fedsim export --format zip`: the same bytes of the same runs, anywhere; hostile zips."""

import hashlib
import json
import shutil
import stat
import struct
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
from directories import tiny, written
from test_commands import FEDSIM
from test_commands import fedsim as typed

import fedsim
from fedsim.errors import CheckpointError, CorruptError, DirectoryError
from fedsim.tools.bundle.crate import CRATE, Contents
from fedsim.tools.bundle.data import pack_data
from fedsim.tools.bundle.packing import bundle
from fedsim.tools.bundle.unpack import opened

ATTACK = """\
import fedsim
from fedsim.tree import scale

@fedsim.attack
def flipped():
    return fedsim.row_attack(lambda delta, context: scale(delta, -1))

open('executed', 'a').write('x')
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A folder with a scenario on a file of data, and its run."""
    folder = tmp_path_factory.mktemp("study")
    random = np.random.default_rng(0)
    x = random.normal(size=(240, 5)).astype(np.float32)
    np.savez(folder / "w.npz", x=x, y=(x[:, 0] > 0).astype(int))
    data = {"kind": "npz", "path": "w.npz", "clients": 6}
    scenario = written(tiny(rounds=2, method="fedavg", data=data), folder / "mine.yaml")
    fedsim.run(scenario, out=folder / "run", pictures=False)
    return folder


@pytest.fixture(scope="module")
def packed(study):
    """The bundle of that run."""
    bundle([study / "run"], study / "paper.zip", data_roots=[study])
    return study / "paper.zip"


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_same_run_gives_the_same_bytes_and_everything_is_in_it(study, packed, tmp_path):
    shutil.copytree(study / "run", tmp_path / "run")
    bundle([tmp_path / "run"], tmp_path / "again.zip", data_roots=[study])
    assert (tmp_path / "again.zip").read_bytes() == packed.read_bytes()

    inside = members(packed)
    assert list(inside) == sorted(inside)
    assert inside["scenarios/run-as-written/mine.yaml"] == (study / "mine.yaml").read_bytes()
    data = [name for name in inside if name.startswith("data/")]
    assert [inside[name] for name in data] == [(study / "w.npz").read_bytes()]
    assert f"path: ../{data[0]}".encode() in inside["scenarios/run.yaml"]
    assert b"fedsim-jax==" in inside["requirements.txt"]
    assert b"fedsim verify --against ." in inside["README.md"]

    crate = json.loads(inside[CRATE])
    entities = {entity["@id"]: entity for entity in crate["@graph"]}
    assert entities[CRATE]["about"] == {"@id": "./"}
    assert {part["@id"] for part in entities["./"]["hasPart"]} == {*inside} - {CRATE}
    for name in {*inside} - {CRATE}:
        assert entities[name]["sha256"] == hashlib.sha256(inside[name]).hexdigest()
        assert entities[name]["contentSize"] == str(len(inside[name]))


@pytest.mark.long
@pytest.mark.parametrize("name", ["line\nbreak", "tab\tand\\", "bell\x07", "C:", "r\u00e9\u2028"])
def test_a_run_directory_of_any_name_makes_a_bundle_that_opens(name, study, tmp_path):
    shutil.copytree(study / "run", tmp_path / name)
    bundle([tmp_path / name], tmp_path / "b.zip", data_roots=[study])
    with opened(tmp_path / "b.zip") as content:
        assert len(content.runs) == 1


def test_a_file_that_nobody_could_unpack_is_refused(tmp_path):
    (tmp_path / "w\n.npz").write_text("x")
    values = {"name": "x", "data": {"kind": "npz", "path": "w\n.npz"}}
    with pytest.raises(DirectoryError, match=r"w.*npz: has a name that no bundle can hold"):
        pack_data(Contents(), values, tmp_path, [], 10**6)


@pytest.mark.long
def test_large_data_and_commits_are_left_out_and_named(study, tmp_path):
    made = bundle([study / "run"], tmp_path / "b.zip", limit_mb=0.005, data_roots=[study])
    left_out = {item.name: item for item in made.left_out}
    data = (study / "w.npz").read_bytes()
    assert left_out["w.npz"].sha256 == hashlib.sha256(data).hexdigest()
    assert left_out["w.npz"].size == len(data)
    assert left_out["runs/run/checkpoints"].size
    assert left_out["w.npz"].sha256.encode() in members(tmp_path / "b.zip")["README.md"]

    bundle([study / "run"], tmp_path / "c.zip", commits=True, data_roots=[study])
    with opened(tmp_path / "c.zip") as content:
        assert fedsim.verify(content.runs["run"], data_roots=content.data_roots).equal


def test_a_changed_file_a_link_and_an_unfinished_run_are_refused(study, tmp_path):
    shutil.copytree(study / "run", tmp_path / "run")
    (tmp_path / "run/rounds.csv").write_text("round\n")
    with pytest.raises(CheckpointError, match=r"rounds.csv is missing, or was changed"):
        bundle([tmp_path / "run"], tmp_path / "b.zip")
    (tmp_path / "run/link.csv").symlink_to("/etc/passwd")
    (tmp_path / "none").mkdir()
    with pytest.raises(DirectoryError, match="is a symbolic link"):
        bundle([tmp_path / "run"], tmp_path / "b.zip")
    with pytest.raises(DirectoryError, match="holds no fedsim run"):
        bundle([tmp_path / "none"], tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()


def test_a_secret_that_a_record_names_is_not_packed(tmp_path):
    """Without a hash, a file has to lie where a scenario may read."""
    secret = tmp_path / "secret"
    secret.write_text("s")
    inside = tmp_path / "run"
    inside.mkdir()
    for path in (str(secret), "../secret"):
        values = {"name": "x", "cohort": {"kind": "listed", "path": path}}
        contents = Contents()
        pack_data(contents, values, inside, [], 10**6)
        assert not contents.files and contents.left_out[0].name == "secret"


# ------------------------------------------------------------------------------- hostile bundles


def zipped(path: Path, *names: str, content: bytes = b"x") -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), content)


def with_link(path: Path) -> None:
    info = zipfile.ZipInfo("runs/a/run.json")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, "/etc/passwd")


def with_bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("runs/a/rounds.csv", bytes(64 << 20))


def with_false_size(path: Path) -> None:
    """A member that is longer than the list says."""
    zipped(path, "README.md", content=b"y" * 1000)
    text = bytearray(path.read_bytes())
    at = text.find(b"PK\1\2")
    text[at + 20 : at + 28] = struct.pack("<II", 10, 10)
    path.write_bytes(text)


HOSTILE = {
    "upwards": (lambda p: zipped(p, "../evil"), "leads out of the bundle"),
    "absolute": (lambda p: zipped(p, "/tmp/evil"), "leads out of the bundle"),
    "inside upwards": (lambda p: zipped(p, "runs/../../evil"), "leads out of the bundle"),
    "drive": (lambda p: zipped(p, "C:evil"), "not the name of a file"),
    "twice": (lambda p: zipped(p, "runs/a", "runs/A"), "is in it twice"),
    "file and folder": (lambda p: zipped(p, "runs", "runs/a"), "both a file and a folder"),
    "link": (with_link, "is a link or a device"),
    "bomb": (with_bomb, "unpacks from"),
    "false size": (with_false_size, "not a sound bundle"),
    "no zip": (lambda p: p.write_bytes(b"PK\3\4 and no more"), "not a sound bundle"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.quick(4)
def test_a_hostile_zip_is_refused_in_one_line_and_nothing_is_written(name, tmp_path):
    make, reason = HOSTILE[name]
    path = tmp_path / "b.zip"
    make(path)
    with pytest.raises(CorruptError, match=reason) as caught, opened(path):
        pass
    assert len(str(caught.value).splitlines()) == 1 and caught.value.exit_code == 7
    assert [entry.name for entry in tmp_path.iterdir()] == ["b.zip"]


@pytest.mark.long
def test_a_changed_bundle_is_noticed(packed, tmp_path):
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path / "b")
    table = tmp_path / "b/runs/run/rounds.csv"
    before, more = table.read_bytes(), tmp_path / "b/runs/run/more.csv"
    for change, reason in (
        (lambda: table.write_bytes(b"x"), "was changed after it was packed"),
        (lambda: table.unlink(), "is missing"),
        (lambda: (table.write_bytes(before), more.touch()), r"is not in ro-crate-metadata\.json"),
        (lambda: (tmp_path / "b" / CRATE).write_text('{"@graph": 3}'), "is damaged"),
    ):
        change()
        with pytest.raises(CorruptError, match=reason), opened(tmp_path / "b"):
            pass


@pytest.mark.long
def test_code_in_a_bundle_runs_only_if_it_is_given(study, tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(ATTACK)
    scenario = tiny(rounds=2, method="fedavg", wire=["flipped"], fleet={"malicious": 0.2})
    file = written(scenario, tmp_path / "mine.yaml")
    words = ["--plugin", str(plugin), "--out", "run", "--quiet", "--no-pictures"]
    subprocess.run([*FEDSIM, "run", str(file), *words], cwd=tmp_path, check=True)
    (tmp_path / "executed").unlink()

    made = bundle([tmp_path / "run"], tmp_path / "without.zip")
    assert any("--plugin" in item.why for item in made.left_out)
    with pytest.raises(CheckpointError, match="no kind of these runs comes from this file"):
        bundle([tmp_path / "run"], tmp_path / "b.zip", plugins=[study / "mine.yaml"])
    bundle([tmp_path / "run"], tmp_path / "b.zip", plugins=[plugin])
    assert members(tmp_path / "b.zip")["plugins/mine.py"] == plugin.read_bytes()

    fresh = tmp_path / "fresh"
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        archive.extractall(fresh)
    done = typed("verify --against .", fresh)
    assert done.returncode == 2 and "flipped is not part of fedsim" in done.stdout
    assert not (fresh / "executed").exists()
    words = [*FEDSIM, "verify", "--against", ".", "--plugin", "plugins/mine.py"]
    given = subprocess.run(words, cwd=fresh, capture_output=True)
    assert given.returncode == 0 and (fresh / "executed").exists()
