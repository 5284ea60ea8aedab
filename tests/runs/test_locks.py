"""A directory that is renamed or replaced while a run holds it: others' files are left alone."""

import os
import threading

import pytest
from directories import tiny

import fedsim
from fedsim.cli import interrupts
from fedsim.disk import files
from fedsim.errors import DirectoryError, LockedError
from fedsim.runs.directory import claimed
from fedsim.runs.lock import LOCK


def test_a_lock_is_freed_in_a_renamed_directory(tmp_path):
    """A holds x; x becomes y, and B begins a new x: A's end frees y, and B still holds x."""
    x, y = tmp_path / "x", tmp_path / "y"
    a, b = claimed(x, False, False), claimed(x, False, False)
    a.__enter__()
    x.rename(y)
    b.__enter__()
    a.__exit__(None, None, None)
    assert (x / LOCK).exists() and not (y / LOCK).exists()
    with pytest.raises(LockedError), claimed(x, False, False):
        pass
    b.__exit__(None, None, None)
    assert not x.exists() and y.is_dir() and files.CLAIMS == set()


def test_a_created_folder_is_removed_only_if_it_is_still_the_same(tmp_path):
    """Another run has just created the same folders, which are still empty."""
    out = tmp_path / "reports" / "x"
    with claimed(out, False, False):
        (tmp_path / "reports").rename(tmp_path / "elsewhere")
        out.mkdir(parents=True)
    assert out.is_dir() and (tmp_path / "elsewhere").is_dir()
    with claimed(tmp_path / "other" / "x", False, False):
        pass
    assert not (tmp_path / "other").exists()


def test_a_lock_of_another_process_stays(tmp_path):
    with claimed(tmp_path / "x", False, False):
        (tmp_path / "x" / LOCK).unlink()
        (tmp_path / "x" / LOCK).write_text("of somebody else")
    assert (tmp_path / "x" / LOCK).read_text() == "of somebody else"


def test_an_interrupt_frees_the_lock_in_a_renamed_directory(tmp_path, monkeypatch):
    """The second signal, which ends the process at once, frees it as well."""
    x, y = tmp_path / "x", tmp_path / "y"
    ended = []
    monkeypatch.setattr(interrupts.os, "_exit", ended.append)
    monkeypatch.setattr(interrupts, "WRITING", threading.RLock())  # whose owner would be gone
    with claimed(x, False, False):
        x.rename(y)
        x.mkdir()
        (x / LOCK).write_text("of somebody else")
        assert (y / LOCK).exists()
        interrupts.Interrupts("bye")._end(15)
        assert ended == [143] and not (y / LOCK).exists()
    assert (x / LOCK).read_text() == "of somebody else"


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
    with claimed(x, False, False):
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
