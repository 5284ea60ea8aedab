"""The log of a run and its commits: written, read back, taken back and refused."""

import contextlib
import itertools
import json
import re
import time

import numpy as np
import pytest
from directories import contents
from faulty import Disk, Killed

from fedsim.disk.checkpoint import Snapshot, encode
from fedsim.errors import CheckpointError
from fedsim.runs import commits
from fedsim.runs.commits import LOG, commit_files, committed, name_of, number_of, read_commit
from fedsim.runs.journal import Journal, Pace


def snapshot(round, status="running"):
    return Snapshot({"round": round, "status": status}, {"w": np.arange(3)})


def written(folder, rounds, status="running", first=1):
    """A journal with a row and a commit for every round.

    The last commit has this status, with a row after the mark unless it is `running`; the first one
    has this number.
    """
    journal = Journal(folder, {"seed": 1})
    journal.number = first - 1
    for round in rounds:
        journal.add("rounds", {"round": round})
        journal.mark()
        is_end = round == rounds[-1] and status != "running"
        if is_end:
            journal.add("summary", {"final": 0.5})
        journal.commit(snapshot(round, status if is_end else "running"), [])
    return journal


def resumed(folder, rounds=9):
    """A journal that resumes -> the rounds of its rows, the round of its state, and the journal."""
    journal = Journal(folder, {"seed": 1})
    last = journal.resume(rounds)
    rows = [row["round"] for row in journal.records.get("rounds", [])]
    return rows, last and last.values["round"], journal


def shown(folder, rounds=9):
    """What others read meanwhile: rows, round and status."""
    progress = committed(folder, rounds)
    return [row["round"] for row in progress.tables["rounds"]], progress.round, progress.status


def names(folder):
    return [path.name for path in commit_files(folder)]


# ------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize("first", [1, 999_998, 999_999, 1_000_000])
def test_a_run_resumes_from_the_newest_commit(first, tmp_path):
    written(tmp_path, [1, 2], first=first)
    assert names(tmp_path) == [name_of(first), name_of(first + 1)]
    rows, round, journal = resumed(tmp_path)
    assert (rows, round, journal.number, journal.status) == ([1, 2], 2, first + 1, "running")
    journal.add("rounds", {"round": 3})
    journal.commit(snapshot(3), [])
    assert names(tmp_path) == [name_of(first + 1), name_of(first + 2)]
    assert resumed(tmp_path)[:2] == ([1, 2, 3], 3)


ODD = [
    *("state-².ckpt", "state-٣٣٣٣٣٣.ckpt", "state-3.ckpt", "state-0000003.ckpt", "state-.ckpt"),
    *("state--00001.ckpt", "state-000001.ckpt.tmp", "state-1e6.ckpt", f"state-{'9' * 200}.ckpt"),
]


def test_files_with_other_names_are_not_commits(tmp_path):
    written(tmp_path, [1, 2])
    for name in ODD:
        (tmp_path / name).write_bytes((tmp_path / name_of(2)).read_bytes())
    assert {number_of(name) for name in (*ODD, LOG)} == {-1}
    assert names(tmp_path) == [name_of(1), name_of(2)] and resumed(tmp_path)[:2] == ([1, 2], 2)
    for number in (0, 1, 999_999, 10**6, 10**9):
        assert number_of(name_of(number)) == number


# ------------------------------------------------------------------------------ what is on the disk


def test_a_journal_keeps_two_commits_and_their_files(tmp_path):
    journal = Journal(tmp_path, {"seed": 1})
    for round in (1, 2, 3):
        (tmp_path / f"rows-{round}").write_text("x")
        journal.add("rounds", {"round": round})
        journal.commit(snapshot(round), [f"rows-{round}"])
        assert (journal.number, journal.round, bytes(journal.pending)) == (round, round, b"")
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {LOG, name_of(2), name_of(3), "rows-2", "rows-3"}
    assert (tmp_path / LOG).stat().st_size == journal.length

    with (tmp_path / LOG).open("ab") as log:
        log.write(b"never committed")
    rows, round, again = resumed(tmp_path)
    assert (rows, round, again.length) == ([1, 2, 3], 3, journal.length)
    again.add("rounds", {"round": 4})
    again.commit(snapshot(4), [])
    lines = (tmp_path / LOG).read_bytes().splitlines()
    assert [json.loads(line)[1]["round"] for line in lines] == [1, 2, 3, 4]
    with pytest.raises(CheckpointError, match="seed: 1, now 2"):
        Journal(tmp_path, {"seed": 2}).resume(9)


def test_commits_are_whole_and_kept_ones_there_whenever_the_process_is_killed(tmp_path):
    """Five commits of which those of rounds 1 and 3 stay, with their files, at every operation."""
    pace = Pace(keep=frozenset({1, 3}))

    def commit_all(folder):
        journal = Journal(folder, {}, pace)
        last = journal.resume(5)  # without a warning: every commit on the disk has its rows
        for round in range(1 if last is None else last.values["round"] + 1, 6):
            (folder / f"rows-{round}").write_text("x")
            journal.add("rounds", {"round": round})
            journal.commit(snapshot(round), [f"rows-{round}"])

    for n in itertools.count(1, 2):
        folder = tmp_path / str(n)
        folder.mkdir()
        with contextlib.suppress(Killed), Disk(folder, at=n) as disk:
            commit_all(folder)
        commit_all(folder)
        kept = [read_commit(path) for path in commit_files(folder)]
        assert [commit.round for commit in kept] == [1, 3, 4, 5]
        assert {path.name for path in folder.glob("rows-*")} == {f"rows-{k}" for k in (1, 3, 4, 5)}
        rows = commits.read_log(kept[1], kept[1].full).tables["rounds"]
        assert [row["round"] for row in rows] == [1, 2, 3]
        if not disk.struck:
            break
    assert n > 40

    last = Journal(folder, {}, Pace(keep=frozenset({3})))
    last.resume(6)
    last.commit(snapshot(6), [])
    assert [read_commit(path).round for path in commit_files(folder)] == [3, 5, 6]
    assert Journal(None, {}, pace).due(1) is False
    assert Journal(tmp_path, {}, pace).due(3) and not Journal(tmp_path, {}, pace).due(2)


def test_commits_are_due_by_rounds_or_seconds_within_their_cost(tmp_path, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    rounds = Journal(tmp_path, {}, Pace(10.0, 3))
    seconds = Journal(tmp_path, {})
    assert [round for round in range(1, 8) if rounds.due(round)] == [3, 6] and not seconds.due(3)
    clock[0] += 9.9
    assert not seconds.due(1)
    clock[0] += 0.1
    assert seconds.due(1) and rounds.due(1)
    seconds.cost = 1.0  # expensive: at most 2 % of the time
    assert not seconds.due(1)
    clock[0] += 40.0
    assert seconds.due(1)
    assert not Journal(None, {}, Pace(0.0, 1)).due(1)
    seconds.commit(snapshot(1), [])
    assert seconds.committed == clock[0] and seconds.cost == 0.0 and not seconds.due(1)


# ---------------------------------------------------------------------------- rounds that are added

ALL = {"rounds", "summary"}
ENDS = [  # how a run of two rounds ended, its rounds now -> its tables, and whether it has ended
    ("done", 2, ALL, "done"),
    ("done", 5, {"rounds"}, "running"),
    ("diverged", 5, ALL, "diverged"),
]


@pytest.mark.parametrize(("status", "rounds", "tables", "now"), ENDS)
def test_rows_after_the_mark_are_those_of_a_run_that_gets_no_more_rounds(
    status, rounds, tables, now, tmp_path
):
    written(tmp_path, [1, 2], status)
    assert shown(tmp_path, rounds) == ([1, 2], 2, now)
    rows, round, journal = resumed(tmp_path, rounds)
    assert (rows, round) == ([1, 2], 2)
    assert set(committed(tmp_path, rounds).tables) == set(journal.records) == tables


def test_added_rounds_replace_the_rows_after_the_mark(tmp_path):
    length = written(tmp_path, [1], "done").length
    _, _, longer = resumed(tmp_path, 2)
    assert longer.length < length
    longer.add("rounds", {"round": 2})
    longer.commit(snapshot(2), [])
    rows, round, journal = resumed(tmp_path, 2)
    assert (rows, round) == ([1, 2], 2) and "summary" not in journal.records


# ------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("first", [1, 999_999])
def test_a_damaged_commit_is_skipped_and_two_are_refused(first, tmp_path):
    """The warning points at the caller's line, and the number of the damaged one is not used."""
    written(tmp_path, [1, 2], first=first)
    damaged = name_of(first + 1)
    (tmp_path / damaged).write_bytes(b"no commit")
    assert shown(tmp_path) == ([1], 1, "running")
    text = f"{damaged}: is not a fedsim checkpoint; resuming from the commit before"
    with pytest.warns(UserWarning, match=re.escape(text)) as caught:
        rows, round, journal = resumed(tmp_path)
    assert (rows, round, journal.number) == ([1], 1, first + 1)
    assert caught[0].filename == __file__
    journal.commit(snapshot(3), [])
    assert names(tmp_path) == [name_of(first), name_of(first + 2)]

    for path in commit_files(tmp_path):
        path.write_bytes(b"no commit")
    with pytest.raises(CheckpointError, match=r"no intact commit to resume from; --force starts"):
        resumed(tmp_path)
    with pytest.raises(CheckpointError, match=r"is not a fedsim checkpoint\n.*is not a fedsim"):
        committed(tmp_path, 9)


SPOILED = [  # what of a log of two rounds is replaced; whether the first commit can be read then
    (b'"round": 2', b'"round": 7', True),
    (b'"round": 1', b'"round": 7', False),
    (b"2}]\n", b"2}]", True),
]


@pytest.mark.parametrize(("status", "rounds"), [("running", 9), ("done", 2), ("done", 9)])
@pytest.mark.parametrize(("old", "new", "is_known"), SPOILED)
def test_rows_that_do_not_match_a_commit_are_never_used(
    old, new, is_known, status, rounds, tmp_path
):
    """Mostly with as many bytes: only the hashes in the commit tell."""
    written(tmp_path, [1, 2], status)
    (tmp_path / LOG).write_bytes((tmp_path / LOG).read_bytes().replace(old, new))
    if is_known:
        assert shown(tmp_path, rounds) == ([1], 1, "running")
        with pytest.warns(UserWarning, match=r"does not match log\.jsonl.*the commit before"):
            assert resumed(tmp_path, rounds)[:2] == ([1], 1)
        (tmp_path / LOG).unlink()
    for read in (committed, resumed):
        with pytest.raises(CheckpointError, match=r"000001\.ckpt: does not match log\.jsonl"):
            read(tmp_path, rounds)


@pytest.mark.parametrize("round", [-1, 3])
def test_a_commit_of_an_impossible_round_is_damaged(round, tmp_path):
    written(tmp_path, [round])
    with pytest.raises(CheckpointError, match=f"is of round {round}, but the run has 2"):
        resumed(tmp_path, 2)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"identity": {}}, "KeyError: 'log'"),
        ({"identity": {}, "log": 3, "files": [], "run": {"round": 1}}, "KeyError"),
        ({"identity": {}, "log": 3, "files": [], "run": {"round": None}}, "TypeError"),
        ({"identity": {}, "log": {}, "files": [], "run": {"round": "x"}}, "ValueError"),
    ],
)
def test_an_intact_commit_with_invalid_values_is_damaged(values, reason, tmp_path):
    (tmp_path / name_of(1)).write_bytes(b"".join(encode(Snapshot(values, {}))))
    for read in (committed, resumed):
        with pytest.raises(CheckpointError, match=rf"{name_of(1)}: is damaged: {reason}"):
            read(tmp_path, 2)


# ------------------------------------------------------------ reading while another process commits


def test_only_what_is_committed_is_read(tmp_path):
    assert committed(tmp_path / "none", 9) is None and committed(tmp_path, 9) is None
    written(tmp_path, [1, 2, 3])
    with (tmp_path / LOG).open("ab") as log:
        log.write(b'["rounds", {"round": 4}]\n["rounds", {"rou')
    before = contents(tmp_path)
    assert shown(tmp_path) == ([1, 2, 3], 3, "running")
    assert contents(tmp_path) == before


def test_a_commit_deleted_while_it_is_read_gives_way_to_a_newer_one(tmp_path, monkeypatch):
    journal = written(tmp_path, [1, 2])

    def late(folder):
        """Between listing the commits and opening them there are two more, and these are gone."""
        paths = commit_files(folder)
        if name_of(1) in [path.name for path in paths]:
            for round in (3, 4):
                journal.add("rounds", {"round": round})
                journal.commit(snapshot(round), [])
        return paths

    monkeypatch.setattr(commits, "commit_files", late)
    assert shown(tmp_path) == ([1, 2, 3, 4], 4, "running")


def test_an_unreadable_journal_is_read_again_as_long_as_it_changes(tmp_path, monkeypatch):
    written(tmp_path, [1], "done")
    (tmp_path / name_of(0)).write_bytes(b"nothing")
    listed = [[tmp_path / name_of(0)], [tmp_path / name_of(0), tmp_path / name_of(1)]]
    lists = iter([listed[0], listed[1], listed[1]])
    monkeypatch.setattr(commits, "commit_files", lambda folder: next(lists))
    assert shown(tmp_path, 1) == ([1], 1, "done")
    lists = iter([listed[0], listed[0]])
    with pytest.raises(CheckpointError, match="is not a fedsim checkpoint"):
        committed(tmp_path, 1)
    assert next(lists, None) is None
