"""Mistakes and attacks: one right line for each, and nothing executed."""

import contextlib
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import hostile.archives
import hostile.images
import hostile.scenarios
import hostile.tables  # noqa: F401 (importing them registers attacks)
import pytest
from building import built
from click.testing import CliRunner
from conftest import if_all_installed
from hostile.book import Mistake, mistakes
from hostile.confinement import forget_peak, peak, within
from hostile.planted import PLANTED, SCENARIO
from hostile.registry import ATTACKS, canary

import fedsim
from fedsim.cli import cli
from fedsim.errors import CheckpointError, DataError, DirectoryError, LockedError, ScenarioError
from fedsim.machine import memory_now
from fedsim.runs.describe_data import describe

MISTAKES = mistakes()
OURS = (ScenarioError, DataError, DirectoryError, LockedError, CheckpointError)


def said(mistake: Mistake, folder: Path) -> list[str]:
    """The lines that a scenario in a folder gets, read and built as the command does it."""
    study = folder / "study"
    study.mkdir()
    (study / "wages.csv").write_text("age,wage\n30,1.5\n40,2.5\n50,2.0\n")
    (study / "s.yaml").write_bytes(mistake.content)
    try:
        built(study / "s.yaml", *mistake.edits)
    except (ScenarioError, DataError) as error:
        return str(error).replace(f"{study}/", "").replace(str(study), "FOLDER").splitlines()
    return []


@if_all_installed
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.title)
def test_every_mistake_gets_its_line(mistake, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    lines = said(mistake, tmp_path)
    assert len(lines) == len(mistake.lines)
    for line, wanted in zip(lines, mistake.lines, strict=True):
        is_start = wanted.endswith("…")
        assert line.startswith(wanted[:-1]) if is_start else line == wanted
        assert line.isprintable() and len(line) <= 300
        assert mistake.edits or re.match(r"s\.yaml:\d+:\d+: |wages\.csv: |FOLDER: ", line)


# ------------------------------------------------------------------------------------------ attacks


def contents(folder: Path, but: Path) -> dict[str, object]:
    """Everything below a folder, except below another one."""
    files = {}
    for path in folder.rglob("*"):
        if path == but or but in path.parents:
            continue
        if path.is_symlink():
            files[str(path)] = path.readlink()
        else:
            files[str(path)] = path.read_bytes() if path.is_file() else "other"
    return files


def refused(act, folder: Path) -> str:
    """The error of an act that has no other effect."""
    before, held = contents(folder.parent, folder), memory_now()
    forget_peak()
    with within(10), pytest.raises(OURS) as error, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a damaged commit, before the previous one is tried
        act()
    assert not canary(folder).exists() and contents(folder.parent, folder) == before
    assert peak() - held < 1 << 30
    return str(error.value)


@pytest.mark.quick(6)
@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_scenario_or_data_file_is_refused(name, tmp_path, monkeypatch):
    folder = tmp_path / "study"
    folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    act = ATTACKS[name](folder)
    lines = refused(act, folder).splitlines()
    assert lines
    assert all(line.isprintable() and len(line) < 400 + len(str(folder)) for line in lines)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [name for name in ATTACKS if re.match("archive|table: (?!a gigabyte)|image", name)]
)
def test_hostile_data_are_described_or_refused(name, tmp_path, monkeypatch):
    (tmp_path / "study").mkdir()
    ATTACKS[name](tmp_path / "study")
    monkeypatch.chdir(tmp_path / "study")
    before, held = contents(tmp_path, tmp_path / "none"), memory_now()
    forget_peak()
    path = next(path for path in ("w.npz", "t.csv", "set") if Path(path).exists())
    with within(10), contextlib.suppress(*OURS):
        description = describe(path)
        assert description["rows"] or description["problems"]
    assert contents(tmp_path, tmp_path / "none") == before and peak() - held < 1 << 30
    done = CliRunner().invoke(cli, ["data", "describe", path])
    assert done.exit_code == 0 or isinstance(done.exception, OURS), done.exception


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """An intact run directory."""
    out = tmp_path_factory.mktemp("sound") / "run"
    fedsim.run(SCENARIO, out=out, pictures=False)
    return out


@pytest.mark.quick(6)
@pytest.mark.parametrize("name", PLANTED)
def test_a_hostile_run_directory_is_refused(name, sound, tmp_path, monkeypatch):
    out = shutil.copytree(sound, tmp_path / "run")
    (tmp_path / "secret.csv").write_text("a,y\n" + "1,0\n" * 20)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    plant, act = PLANTED[name]
    plant(out)
    assert refused(lambda: act(out), out)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("scenario: a tag that calls a function", 2),
        ("scenario: terminal commands, escaped", 2),
        ("archive: an array of objects", 3),
        ("table: terminal commands for columns", 3),
    ],
)
def test_a_command_refuses_in_one_line_and_writes_nothing(name, code, tmp_path):
    folder = tmp_path / "study"
    folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    ATTACKS[name](folder)
    before = contents(tmp_path, folder)
    words = [sys.executable, "-m", "fedsim.cli", "run", str(folder / "s.yaml")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path / "elsewhere")
    assert done.returncode == code, done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr[:-1].isprintable()
    assert contents(tmp_path, folder) == before and not canary(folder).exists()
