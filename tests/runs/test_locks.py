"""A directory that is renamed or replaced while a run holds it: others' files are left alone."""

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from directories import contents, started, tiny, wait_for_commit, written
from test_commands import fedsim as typed

import fedsim
from fedsim.cli.entry import every_command
from fedsim.disk import files
from fedsim.errors import DirectoryError, LockedError
from fedsim.runs.directory import open_run_directory
from fedsim.runs.lock import LOCK, held


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
    [
        lambda path: files.write(path, "x"),
        lambda path: files.append(path, 0, b"x"),
        files.remove,
    ],
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


@pytest.mark.long
def test_a_run_whose_directory_is_replaced_stops_and_resumes_in_the_renamed_one(tmp_path):
    """The commit of round 1 is in y, and the run resumes there; the new x is not touched."""
    x, y = tmp_path / "x", tmp_path / "y"
    scenario = tiny(seeds=[0], rounds=2, evaluate={"every": 1})

    def exchange(experiment, seed, row):
        if row.values["round"] == 2:
            x.rename(y)
            x.mkdir()
            (x / "thesis.txt").write_text("two years")

    with pytest.raises(DirectoryError, match="was renamed or replaced"):
        fedsim.run(scenario, out=x, watch=exchange)
    assert [path.name for path in x.iterdir()] == ["thesis.txt"] and not (y / LOCK).exists()
    again = fedsim.run(scenario, out=y, resume=True)
    assert again.rounds.equals(fedsim.run(scenario).rounds)


# What is put before -o FOLDER, of every command that writes files into a folder.
INTO_FOLDERS = {
    "run": "run {scenario} --force",
    "compare": "compare {scenario} --methods fedavg --seeds 1 --force",
    "suite run": "suite run {task}",
    "suite report": "suite report {suite} --force",
    "verify --against RUN": "verify --against {run}",  # takes only new folders
    "data partition": "data partition {scenario} --force",
    "fork": "fork {run} --round 1 --force",
    "fork --unlearn": "fork --unlearn {run} --client 3 --force",
    "report --contributions": "report --contributions {run} --force",
    "doctor --bench": "doctor --bench {scenario} --force",
}
INTO_FOLDERS = {name: line for name, line in INTO_FOLDERS.items() if name in every_command()}

# Commands whose -o FILE is replaced as a whole or not at all; nothing else is written there.
INTO_FILES = ("report", "export", "export --format zip", "new --schema")


def commands() -> dict[str, click.Command]:
    """Every command with an option --out, by name."""
    found = {}
    for words, command in every_command().items():
        if any("--out" in option.opts for option in command.params):
            found[words] = command
    return found


def test_every_command_that_writes_is_tried():
    assert {*commands()} <= {*INTO_FOLDERS, *INTO_FILES}


# Those whose files may lie beside somebody's own.
OF_FILES = ("report --contributions", "suite report", "data partition", "doctor --bench")


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> dict[str, Path]:
    """A scenario, a run of it, and a task of a suite with its comparison."""
    folder = tmp_path_factory.mktemp("desk")
    scenario = tiny(seeds=[0], rounds=2, method="fedavg", evaluate={"every": 1})
    task = {**scenario, "compare": {"methods": ["fedavg", "fedprox"], "suite": 1}}
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
@pytest.mark.parametrize(
    "name", [n for n in INTO_FOLDERS if n in commands() and n != "verify --against RUN"]
)
def test_whatever_writes_into_a_folder_holds_its_lock(name, desk, tmp_path):
    """The command ends with 6 where another holds it, and touches nothing."""
    out = tmp_path / "out"
    with held(out):
        before = contents(out)
        said = refused(f"{INTO_FOLDERS[name].format(**desk)} -o {out}", 6)
        assert "in use by process" in said and contents(out) == before


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in OF_FILES if name in commands()])
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


CLAIM = """
import sys
from pathlib import Path
from fedsim.errors import DirectoryError, LockedError
from fedsim.runs.directory import open_run_directory

print("ready", flush=True)
for out in map(str.strip, sys.stdin):
    try:
        with open_run_directory(Path(out), force=False, resume=len(out) % 2 > 0):
            print("won", flush=True)
            sys.stdin.readline()
            (Path(out) / "run.json").write_text("mine")
        print("left", flush=True)
    except LockedError as error:
        print("locked" if "in use by process" in str(error) else error, flush=True)
    except DirectoryError as error:
        print(error, flush=True)
"""
WRITERS = 2


@pytest.mark.long
def test_one_writer_wins_each_of_fifty_races(tmp_path):
    """Processes that want one new directory: one gets it, and the others are told so."""
    pipe, words = subprocess.PIPE, [sys.executable, "-c", CLAIM]
    processes = [
        subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) for _ in range(WRITERS)
    ]
    streams = [(process.stdin, process.stdout) for process in processes]
    assert [answers.readline().strip() for _, answers in streams] == ["ready"] * WRITERS
    for n in range(50):
        out = tmp_path / f"race{n}"
        for orders, _ in random.sample(streams, WRITERS):
            orders.write(f"{out}\n")
            orders.flush()
        said = [answers.readline().strip() for _, answers in streams]
        assert sorted(said) == ["locked"] * (WRITERS - 1) + ["won"], said
        orders, answers = streams[said.index("won")]
        orders.write("\n")
        orders.flush()
        assert answers.readline().strip() == "left"
        assert [path.name for path in out.iterdir()] == ["run.json"]
    for process in processes:
        process.communicate("")


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
