"""A lock holds its directory, renamed, replaced or unreadable; others' files are left alone."""

import fcntl
import os
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from directories import contents, started, tiny, wait_for_commit, written
from test_commands import fedsim as typed

import fedsim
from fedsim.cli.entry import every_command
from fedsim.disk import files
from fedsim.errors import DirectoryError, LockedError
from fedsim.runs.directory import open_run_directory
from fedsim.runs.lock import LOCK, demand_free, held


def test_a_lock_is_freed_in_a_renamed_directory(tmp_path):
    """A holds x; x becomes y, and B begins a new x: A's end frees y, and B still holds x."""
    x, y = tmp_path / "x", tmp_path / "y"
    a, b = open_run_directory(x, False, False), open_run_directory(x, False, False)
    a.__enter__()
    x.rename(y)
    b.__enter__()
    a.__exit__(None, None, None)
    assert (x / LOCK).exists() and not (y / LOCK).exists()
    with pytest.raises(LockedError), open_run_directory(x, False, False):
        pass
    b.__exit__(None, None, None)
    assert not x.exists() and y.is_dir() and files.CLAIMS == set()


def test_a_created_folder_is_removed_only_if_it_is_still_the_same(tmp_path):
    """Another run has just created the same folders, which are still empty."""
    out = tmp_path / "reports" / "x"
    with open_run_directory(out, False, False):
        (tmp_path / "reports").rename(tmp_path / "elsewhere")
        out.mkdir(parents=True)
    assert out.is_dir() and (tmp_path / "elsewhere").is_dir()
    with open_run_directory(tmp_path / "other" / "x", False, False):
        pass
    assert not (tmp_path / "other").exists()


def test_a_lock_of_another_process_stays(tmp_path):
    with open_run_directory(tmp_path / "x", False, False):
        (tmp_path / "x" / LOCK).unlink()
        (tmp_path / "x" / LOCK).write_text("of somebody else")
    assert (tmp_path / "x" / LOCK).read_text() == "of somebody else"


@pytest.mark.parametrize(
    "write",
    [lambda path: files.write(path, "x"), lambda path: files.append(path, 0, b"x"), files.remove],
    ids=["write", "append", "remove"],
)
def test_nothing_is_written_into_a_directory_that_replaced_the_locked_one(write, tmp_path):
    x, mine = tmp_path / "x", tmp_path / "x" / "rounds.csv"
    with open_run_directory(x, False, False):
        write(mine)
        x.rename(tmp_path / "y")
        with pytest.raises(
            DirectoryError,
            match=r"x: was renamed or replaced while this run wrote there; resume it where",
        ):
            write(mine)
        x.mkdir()
        mine.write_text("of somebody else")
        with pytest.raises(DirectoryError, match="was renamed or replaced"):
            write(mine)
        assert mine.read_text() == "of somebody else" and os.listdir(x) == [mine.name]


# What is put before -o FOLDER, of every command that writes files into a folder.
INTO_FOLDERS = {
    "run": "run {scenario} --force",
    "compare": "compare {scenario} --methods fedavg --seeds 1 --force",
    "suite run": "suite run {task}",
    "suite report": "suite report {suite} --force",
    "data partition": "data partition {scenario} --force",
    "fork": "fork {run} --round 1 --force",
    "fork --unlearn": "fork --unlearn {run} --client 3 --force",
    "report --contributions": "report --contributions {run} --force",
    "doctor --bench": "doctor --bench {scenario} --force",
}
INTO_FOLDERS = {name: line for name, line in INTO_FOLDERS.items() if name in every_command()}

# Commands that take only a new folder, or whose -o FILE is replaced as a whole or not at all.
OTHERS = {"verify --against RUN", "report", "export", "export --format zip", "new --schema"}


def test_every_command_that_writes_is_tried():
    writes = lambda command: any("--out" in option.opts for option in command.params)
    writing = {name for name, command in every_command().items() if writes(command)}
    assert writing <= {*INTO_FOLDERS} | OTHERS


# Those whose files may lie beside somebody's own.
OF_FILES = ("report --contributions", "suite report", "data partition", "doctor --bench")


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> dict[str, Path]:
    """A scenario, a run of it, and a task of a suite with its comparison."""
    folder = tmp_path_factory.mktemp("desk")
    scenario = tiny(seeds=[0], rounds=2, method="fedavg", evaluate={"every": 1})
    task = {**scenario, "compare": {"methods": ["fedavg", "mean"], "suite": 1}}
    del task["method"]
    fedsim.run(scenario, out=folder / "run", pictures=False)
    paths = {name: folder / name for name in ("run", "suite")}
    paths["scenario"] = written(scenario, folder / "scenario.yaml")
    paths["task"] = written(task, folder / "task.yaml")
    fedsim.compare(task, out=paths["suite"] / task["name"], pictures=False)
    return paths


def refused(line: str, code: int) -> str:
    """What a command says that ends with an exit code."""
    done = typed(line, ".")
    assert done.returncode == code
    return done.stderr


@pytest.mark.long
@pytest.mark.parametrize("name", INTO_FOLDERS)
def test_whatever_writes_into_a_folder_holds_its_lock(name, desk, tmp_path):
    """The command ends with 6 where another holds it, and touches nothing."""
    out = tmp_path / "out"
    with held(out):
        before = contents(out)
        said = refused(f"{INTO_FOLDERS[name].format(**desk)} -o {out}", 6)
        assert "in use by process" in said and contents(out) == before


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in OF_FILES if name in INTO_FOLDERS])
def test_files_of_somebody_are_replaced_only_by_force(name, desk, tmp_path):
    """They are said before anything is computed or written, and a run stays as it is."""
    line = INTO_FOLDERS[name].format(**desk).removesuffix(" --force")
    last_word = name.split()[-1].lstrip("-")
    file = {"suite report": "scores.csv"}.get(name, f"{last_word}.csv")
    (tmp_path / file).write_text("years of work\n")
    assert f"{file}: already exists; --force" in refused(f"{line} -o {tmp_path}", 4)
    assert contents(tmp_path) == {file: b"years of work\n"}

    before = contents(desk["run"])
    assert "is a run, which stays as it is" in refused(f"{line} --force -o {desk['run']}", 4)
    assert contents(desk["run"]) == before


def test_two_processes_may_write_one_file(tmp_path, monkeypatch):
    """Neither takes the other's draft for its own; the file is one of both."""
    file = tmp_path / "page.html"
    (tmp_path / "page.html.tmp").write_text("of somebody else")
    replace = os.replace

    def meanwhile(draft, target):
        monkeypatch.setattr(files.os, "replace", replace)
        monkeypatch.setattr(files.os, "getpid", lambda: 0)
        files.write_output(file, "second")
        assert file.read_text() == "second"
        replace(draft, target)

    monkeypatch.setattr(files.os, "replace", meanwhile)
    files.write_output(file, "first")
    assert file.read_text() == "first"
    assert contents(tmp_path) == {"page.html": b"first", "page.html.tmp": b"of somebody else"}


def test_one_writer_wins_each_of_fifty_races(tmp_path):
    """Two that want one new directory: one gets it, and the other is told so."""
    at_once = threading.Barrier(2, timeout=60)

    def claim(out, resume):
        at_once.wait()
        try:
            with open_run_directory(out, force=False, resume=resume):
                at_once.wait()  # until the other one was told
                (out / "run.json").write_text("mine")
            return "won"
        except LockedError as error:
            at_once.wait()
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        for n in range(50):
            out = tmp_path / f"race{n}"
            one, other = sorted(pool.map(claim, [out, out], [False, True]))
            assert one.startswith(f"{out}: in use by process ") and other == "won"
            assert [path.name for path in out.iterdir()] == ["run.json"]


@pytest.mark.long
def test_a_run_whose_directory_is_removed_ends_with_one_line(tmp_path):
    out = tmp_path / "run"
    process = started(written(tiny(rounds=2000), tmp_path / "scenario.yaml"), out)
    assert wait_for_commit(process, out, set())
    while out.exists():
        shutil.rmtree(out, ignore_errors=True)
    errors = process.communicate(timeout=30)[1]
    assert process.returncode == 4 and not out.exists()
    assert errors.startswith("fedsim: error: ") and errors.count("\n") == 1, errors
    assert str(out) in errors
    assert re.search("was renamed or replaced while this run|No such file or directory", errors)


HOLDERS = {
    b"": "by another process",
    b"3": "by another process",
    b'{"host": "x", "pid": 7, "since": "then"}': "by process 7 on another machine since then",
}


@pytest.mark.parametrize("content", HOLDERS)
def test_an_unreadable_lock_is_still_held(content, tmp_path, monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    (tmp_path / LOCK).write_bytes(content)
    with (tmp_path / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LockedError, match=f"in use {HOLDERS[content]}; wait"):
            demand_free(tmp_path)
    assert len(waits) == (0 if content else 20)
