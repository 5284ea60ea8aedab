"""Commits, logs, row files and whole files: what is written, read back, taken back and refused."""

import contextlib
import errno
import itertools
import json
import os
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from faulty import Disk, Killed

import fedsim
from fedsim.disk import files
from fedsim.disk.checkpoint import (
    Snapshot,
    decode,
    digest,
    encode,
    leaves_by_name,
    restore_tree,
    row_bytes,
    rows_from,
)
from fedsim.disk.rowfile import HEAD, RowFile
from fedsim.engine import store
from fedsim.engine.memory import Memories, Memory
from fedsim.errors import CheckpointError, CorruptError, DirectoryError
from fedsim.runs import commits, directory
from fedsim.runs.commits import committed
from fedsim.runs.differences import differences
from fedsim.runs.journal import Journal, Pace
from fedsim.runs.lock import _holder

pytestmark = pytest.mark.usefixtures("quickly_compiled")
RNG = np.random.default_rng(24)


def test_a_snapshot_reads_back_with_every_shape_and_type():
    arrays = {
        "a": np.arange(6, dtype=np.int16).reshape(2, 3),
        "empty": np.zeros((0, 4), np.float32),
        "number": np.array(2.5),
        "bits": np.array([True, False]),
        "last": np.array([1 + 2j]),
    }
    blob = b"".join(encode(Snapshot({"round": 3}, arrays)))
    values, read_back = decode(blob)
    assert values == {"round": 3} and list(read_back) == list(arrays)
    for name, array in arrays.items():
        assert read_back[name].dtype == array.dtype and np.array_equal(read_back[name], array), name
    assert blob.startswith(b"fedsim-checkpoint 2 %s\n" % fedsim.__version__.encode())


def test_arrays_are_fitted_to_a_tree_leaf_by_leaf():
    variables = {"w": np.ones((2, 2), np.float32), "b": [np.zeros(3)]}
    arrays = leaves_by_name("x", variables)
    assert sorted(arrays) == ["x['b'][0]", "x['w']"]
    back = restore_tree("x", arrays, variables)
    assert back["w"] is arrays["x['w']"] and back["b"][0] is arrays["x['b'][0]"]
    for wrong, reason in [
        (
            {**arrays, "x['w']": np.ones(4, np.float32)},
            r"x\['w'\]: float32\[4\]; expected float32\[2, 2\]",
        ),
        ({**arrays, "x['w']": np.ones((2, 2))}, r"x\['w'\]: float64\[2, 2\]; expected float32"),
        ({"x['w']": arrays["x['w']"]}, r"x\['b'\]\[0\]: missing; expected float64\[3\]"),
    ]:
        with pytest.raises(CheckpointError, match=reason):
            restore_tree("x", wrong, variables)


def test_a_digest_depends_on_names_types_shapes_and_bits():
    trees = [
        {"w": np.zeros(4, np.float32)},
        {"v": np.zeros(4, np.float32)},
        {"w": np.zeros(4, np.int32)},
        {"w": np.zeros((2, 2), np.float32)},
        {"w": np.array([0, 0, 0, -0.0], np.float32)},
    ]
    assert len({digest(tree) for tree in trees}) == len(trees) and digest(trees[0]) == digest(
        dict(trees[0])
    )


def test_rows_are_restored_from_their_bytes():
    rows = {
        "a": RNG.normal(size=(3, 2, 2)).astype(np.float32),
        "b": np.arange(3, dtype=np.int64),
        "c": np.ones((3, 0)),
    }
    raw = row_bytes(rows)
    assert raw.shape == (3, 16 + 8) and raw.dtype == np.uint8
    like = jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), rows)
    back = rows_from(raw, like)
    for name in rows:
        assert back[name].dtype == rows[name].dtype and np.array_equal(back[name], rows[name]), name


def test_a_row_file_appends_compacts_and_ignores_uncommitted_rows(tmp_path):
    file, rows = RowFile(tmp_path, 0, 5, 10), RNG.integers(0, 256, (3, 5)).astype(np.uint8)
    assert (
        file.name == "memory-0.rows"
        and not file.read(np.array([1])).any()
        and not (tmp_path / file.name).exists()
    )
    file.append(np.array([], int), rows[:0])
    assert file.length == 0 and file.file is None
    file.append(np.array([4, 0, 9]), rows)
    assert file.length == 3 * 13 == (tmp_path / file.name).stat().st_size and file.offset[
        [4, 0, 9, 1]
    ].tolist() == [
        0,
        13,
        26,
        -1,
    ]
    assert np.array_equal(
        file.read(np.array([9, 1, 4, 0])), np.stack([rows[2], np.zeros(5), rows[0], rows[1]])
    )
    assert not file.needs_compaction(0)
    for _ in range(3):
        file.append(np.array([0]), rows[:1])
    assert file.length == 6 * 13 and not file.needs_compaction(0)  # half of the rows are in use
    file.append(np.array([0]), rows[2:])
    assert file.needs_compaction(0) and file.needs_compaction(12) and not file.needs_compaction(13)
    fresh = file.compacted()
    assert (fresh.name, fresh.length, file.file) == ("memory-1.rows", 3 * 13, None)
    assert np.array_equal(fresh.read(np.array([0, 4, 9])), np.stack([rows[2], rows[0], rows[2]]))
    assert np.array_equal(file.read(np.array([0])), rows[2:])  # opened again
    again = RowFile(tmp_path, 1, 5, 10)
    again.length, again.offset[:] = 13, fresh.offset
    again.open()
    assert (
        tmp_path / again.name
    ).stat().st_size == 13  # what lies beyond the length was never committed
    longer = RowFile(tmp_path, 1, 5, 10)
    longer.length = 14
    with pytest.raises(CorruptError, match="is shorter than the 14 bytes it had"):
        longer.open()
    with pytest.raises(CheckpointError, match="the row of client 9 is damaged"):
        again.read(np.array([9]))
    for one in (file, fresh, again, longer):
        one.close()


def test_a_row_that_was_moved_is_damaged(tmp_path):
    file = RowFile(tmp_path, 0, 4, 3)
    file.append(np.array([0, 1]), np.full((2, 4), 7, np.uint8))
    file.offset[[0, 1]] = file.offset[[1, 0]]
    with pytest.raises(CheckpointError, match="client 0"):
        file.read(np.array([0]))
    file.close()


def snapshot(round=1, status="running"):
    return Snapshot({"round": round, "status": status}, {"w": np.arange(3)})


def test_a_journal_keeps_two_commits_and_their_files(tmp_path):
    journal = Journal(tmp_path, {"seed": 1})
    for round in (1, 2, 3):
        (tmp_path / f"rows-{round}").write_text("x")
        journal.add("rounds", {"round": round})
        assert journal.pending
        journal.commit(snapshot(round), [f"rows-{round}"])
        assert (journal.number, journal.round, journal.status, bytes(journal.pending)) == (
            round,
            round,
            "running",
            b"",
        )
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {"log.jsonl", "state-000002.ckpt", "state-000003.ckpt", "rows-2", "rows-3"}
    assert (tmp_path / "log.jsonl").stat().st_size == journal.length
    with open(tmp_path / "log.jsonl", "ab") as log:
        log.write(b"never committed")
    back = Journal(tmp_path, {"seed": 1})
    loaded = back.resume(9)
    assert loaded.values["round"] == 3 and np.array_equal(loaded.arrays["w"], np.arange(3))
    assert (
        back.records == {"rounds": [{"round": n} for n in (1, 2, 3)]}
        and back.length == journal.length
    )
    assert (back.number, back.status, back.round) == (3, "running", 3)
    back.add("rounds", {"round": 4})
    back.commit(snapshot(4), [])
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines()
    assert [json.loads(line)[1]["round"] for line in lines] == [1, 2, 3, 4]
    assert Journal(tmp_path, {"seed": 1}).resume(9).values["round"] == 4
    with pytest.raises(CheckpointError, match="seed: 1, now 2"):
        Journal(tmp_path, {"seed": 2}).resume(9)


def test_kept_commits_are_there_whenever_the_process_is_killed(tmp_path):
    """Five commits of which those of rounds 1 and 3 stay, with their files, at every operation."""
    pace = Pace(keep=frozenset({1, 3}))

    def commit_all(folder):
        journal = Journal(folder, {}, pace)
        resumed = journal.resume(5)
        for round in range(1 if resumed is None else resumed.values["round"] + 1, 6):
            (folder / f"rows-{round}").write_text("x")
            journal.add("rounds", {"round": round})
            journal.commit(snapshot(round), [f"rows-{round}"])

    for n in itertools.count(1):
        folder = tmp_path / str(n)
        folder.mkdir()
        with contextlib.suppress(Killed), Disk(folder, at=n) as disk:
            commit_all(folder)
        commit_all(folder)
        paths = commits.commit_files(folder)
        assert [commits.read_commit(path).round for path in paths] == [1, 3, 4, 5]
        assert {path.name for path in folder.glob("rows-*")} == {f"rows-{k}" for k in (1, 3, 4, 5)}
        log = commits.read_log(commits.read_commit(paths[1]), commits.read_commit(paths[1]).full)
        assert [row["round"] for row in log.tables["rounds"]] == [1, 2, 3]
        if not disk.struck:
            break
    assert n > 40

    last = Journal(tmp_path / str(n), {}, Pace(keep=frozenset({3})))
    last.resume(6)
    last.commit(snapshot(6), [])
    paths = commits.commit_files(tmp_path / str(n))
    assert [commits.read_commit(path).round for path in paths] == [3, 5, 6]
    assert Journal(None, {}, pace).due(1) is False
    assert Journal(tmp_path, {}, pace).due(3) and not Journal(tmp_path, {}, pace).due(2)


def test_rows_after_the_mark_are_removed_when_rounds_are_added(tmp_path):
    journal = Journal(tmp_path, {})
    journal.add("rounds", {"round": 1})
    journal.mark()
    journal.add("summary", {"final": 0.5})
    journal.commit(snapshot(1, "done"), [])
    assert set(Journal(tmp_path, {}).records) == set()
    same, longer = Journal(tmp_path, {}), Journal(tmp_path, {})
    assert same.resume(1) and set(same.records) == {"rounds", "summary"}
    assert longer.resume(2) and set(longer.records) == {"rounds"} and longer.length < same.length
    longer.add("rounds", {"round": 2})
    longer.commit(snapshot(2), [])
    assert Journal(tmp_path, {}).resume(2).values["round"] == 2
    end = Journal(tmp_path, {})
    end.resume(2)
    assert [row["round"] for row in end.records["rounds"]] == [
        1,
        2,
    ] and "summary" not in end.records


def test_commits_are_due_by_rounds_or_seconds_within_their_cost(tmp_path, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    rounds, seconds = Journal(tmp_path, {}, Pace(10.0, 3)), Journal(tmp_path, {})
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
    seconds.commit(snapshot(), [])
    assert seconds.committed == clock[0] and seconds.cost == 0.0 and not seconds.due(1)


def test_a_journal_without_a_folder_only_collects_rows():
    journal = Journal(None, {})
    journal.add("rounds", {"round": 1}, {"round": 2})
    journal.commit(snapshot(), [])
    assert (
        journal.records == {"rounds": [{"round": 1}, {"round": 2}]}
        and journal.resume(1) is None
        and journal.number == 0
    )


def test_a_damaged_commit_is_skipped_and_numbering_continues(tmp_path):
    journal = Journal(tmp_path, {})
    for round in (1, 2):
        journal.commit(snapshot(round), [])
    (tmp_path / "state-000002.ckpt").write_bytes(b"nothing")
    (tmp_path / "state-x.ckpt").write_bytes(b"foreign")
    assert [path.name for path in commits.commit_files(tmp_path)] == [
        "state-000001.ckpt",
        "state-000002.ckpt",
    ]
    back = Journal(tmp_path, {})
    with pytest.warns(UserWarning, match="resuming from the commit before"):
        assert back.resume(9).values["round"] == 1
    assert back.number == 2
    back.commit(snapshot(3), [])
    assert [path.name for path in commits.commit_files(tmp_path)] == [
        "state-000001.ckpt",
        "state-000003.ckpt",
    ]


def test_differences_are_found_at_any_depth():
    old = {"a": {"b": [1, {"c": 2}], "d": None}, "gone": 1, "same": [1, 2]}
    new = {"a": {"b": [1, {"c": 3}], "d": "x" * 80}, "same": [1, 2], "new": [1]}
    assert differences(old, new) == [
        ("a.b[1].c", "2", "3"),
        ("a.d", "nothing", '"' + "x" * 56 + "..."),
        ("gone", "1", "nothing"),
        ("new", "nothing", "[1]"),
    ]
    assert differences([1], [1, 2], "p") == [("p", "[1]", "[1, 2]")] and differences({}, {}) == []
    assert differences("y" * 58, "", "p")[0][1] == f'"{"y" * 58}"'  # sixty characters are shown


def test_a_model_file_is_read_back_as_it_was_written(tmp_path):
    weights = {
        "layer0": {
            "W": np.arange(6.0, dtype=np.float32).reshape(2, 3).T,
            "b": np.zeros(3, np.float32),
        }
    }
    directory.write_model(tmp_path / "m", {"params": weights, "stats": {"mean": np.ones(2)}})
    loaded = directory.load_model(tmp_path / "m")
    assert loaded.keys() == {
        "params",
        "state",
    }  # a model's state beside its parameters has its old name
    for name, value in weights["layer0"].items():
        read = loaded["params"]["layer0"][name]
        assert read.dtype == value.dtype and np.array_equal(read, value)
    assert np.array_equal(loaded["state"]["mean"], np.ones(2))


def test_files_hold_exactly_what_was_written(tmp_path):
    path = tmp_path / "f"
    assert (
        files.write(path, [b"ab", memoryview(b"c")])
        == files.sha256(path)
        == files.write(tmp_path / "g", "abc")
    )
    assert path.read_bytes() == b"abc" and files.write(path, b"") and path.read_bytes() == b""
    files.append(path, 0, b"hello world")
    files.append(path, 5, bytearray(b"!"))
    assert path.read_bytes() == b"hello!"
    files.make_folder(tmp_path / "a/b")
    files.make_folder(tmp_path / "a/b")
    (tmp_path / "a/b/x").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    files.remove(tmp_path / "link")
    assert (tmp_path / "a/b/x").exists()
    files.remove(tmp_path / "a")
    files.remove(tmp_path / "a")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f", "g"]


def test_errors_of_the_system_name_the_path_and_the_free_space(tmp_path, monkeypatch):
    class Usage:
        free = 99_999

    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: Usage)
    with pytest.raises(
        files.DirectoryError,
        match=rf"^{tmp_path}/x: No such file or directory \(99999 bytes free there\)$",
    ):
        files.sha256(tmp_path / "x")
    refused = pytest.raises(
        files.DirectoryError, match=rf"^{tmp_path}: Input/output error \(99999 bytes free there\)$"
    )
    with refused, files.reporting_os_errors(tmp_path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    inside, outside = tmp_path / "run", tmp_path / "elsewhere"
    for name, place in (
        (inside.name, inside),
        (str(outside), outside),
        (b"run", inside),
    ):  # the first as a descriptor gives it
        with (
            pytest.raises(files.DirectoryError, match=rf"^{place}: "),
            files.reporting_os_errors(inside),
        ):
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)
    files.require_space(tmp_path, 99_999)
    with pytest.raises(
        files.DirectoryError, match=r"99999 bytes free, this run may need 0\.1 MB; free some"
    ):
        files.require_space(tmp_path, 100_000)


def test_a_failed_write_leaves_only_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "f"
    files.write(path, b"old")

    def broken(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(files.DirectoryError, match="full"):
        files.write(path, b"new")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["f"]


def test_files_have_the_permissions_of_the_umask(tmp_path):
    before = os.umask(0)
    try:
        files.write(tmp_path / "whole", b"x")
        files.append(tmp_path / "grown", 0, b"x")
        rows = RowFile(tmp_path, 0, 1, 1)
        rows.sync()
        rows.close()
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o7777 for path in tmp_path.iterdir()} == {0o666} and len(
        list(tmp_path.iterdir())
    ) == 3


def test_compaction_copies_rows_beyond_a_chunk_once_each(tmp_path):
    n = 2 * 4096 + 2
    file, values = (
        RowFile(tmp_path, 0, 2, n),
        np.arange(2 * n, dtype=np.uint16).view(np.uint8).reshape(n, 4)[:, :2],
    )
    file.append(np.arange(n), values)
    fresh = file.compacted()
    assert fresh.length == n * (HEAD + 2) and np.array_equal(fresh.read(np.arange(n)), values)
    fresh.close()


def test_files_may_be_written_only_if_their_locked_directory_is_in_place(tmp_path, monkeypatch):
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    folder = os.open(mine, os.O_RDONLY)
    try:
        monkeypatch.setattr(files, "CLAIMS", {files.Claim(mine, folder, -1, "lock")})
        files.require_claim(mine / "x")
        files.require_claim(mine / "a" / "x")
        mine.rename(tmp_path / "renamed")
        for place in (mine / "x", mine / "a" / "x"):
            with pytest.raises(DirectoryError, match="renamed or replaced"):
                files.require_claim(place)
        files.require_claim(other / "x")
        mine.mkdir()  # another one of that name
        with pytest.raises(DirectoryError, match="renamed or replaced"):
            files.require_claim(mine / "x")
    finally:
        os.close(folder)


def bare_snapshot(round: int, status: str = "running") -> Snapshot:
    return Snapshot({"round": round, "status": status}, {})


def ended(folder) -> None:
    """A journal that ended after round 1, with a row after the mark."""
    journal = Journal(folder, {}, Pace(0.0, 1))
    journal.add("rounds", {"round": 1})
    journal.mark()
    journal.add("summary", {"final": 0.5})
    journal.commit(bare_snapshot(1, "done"), [])


def test_an_ended_run_is_read_whole_unless_rounds_are_added(tmp_path):
    ended(tmp_path)
    whole, longer = committed(tmp_path, 1), committed(tmp_path, 2)
    assert whole and (set(whole.tables), whole.round, whole.status) == (
        {"rounds", "summary"},
        1,
        "done",
    )
    assert longer and (set(longer.tables), longer.round, longer.status) == (
        {"rounds"},
        1,
        "running",
    )


def test_a_damaged_or_truncated_log_is_refused(tmp_path):
    ended(tmp_path)
    log = tmp_path / commits.LOG
    text = log.read_bytes()
    for spoiled in (text.replace(b"0.5", b"0.6"), text[:-1], b""):
        log.write_bytes(spoiled)
        for read in (lambda: committed(tmp_path, 1), lambda: Journal(tmp_path, {}).resume(1)):
            with pytest.raises(
                CheckpointError, match=r"does not match log\.jsonl, which is damaged"
            ):
                read()
    log.write_bytes(text + b"never committed")
    assert committed(tmp_path, 1) and Journal(tmp_path, {}).resume(1)
    log.unlink()
    with pytest.raises(CheckpointError, match=r"state-000001\.ckpt: does not match log\.jsonl"):
        committed(tmp_path, 1)


def test_a_diverged_run_keeps_its_final_tables(tmp_path):
    journal = Journal(tmp_path, {})
    journal.add("rounds", {"round": 1})
    journal.mark()
    journal.add("summary", {"final": 0.5})
    journal.commit(bare_snapshot(1, "diverged"), [])
    loaded, back = committed(tmp_path, 2), Journal(tmp_path, {})
    assert loaded and set(loaded.tables) == {"rounds", "summary"} and loaded.status == "diverged"
    assert back.resume(2) and set(back.records) == {"rounds", "summary"}


def test_an_unreadable_journal_is_refused_once_it_stops_changing(tmp_path, monkeypatch):
    ended(tmp_path)
    path, listed = tmp_path / "state-000001.ckpt", commits.commit_files
    path.write_bytes(b"nothing")
    asked = itertools.count()

    def listed_again(folder):
        assert next(asked) < 4, "it retries for ever"
        return listed(folder)

    monkeypatch.setattr(commits, "commit_files", listed_again)
    with pytest.raises(CheckpointError, match="is not a fedsim checkpoint"):
        committed(tmp_path, 1)
    assert next(asked) == 2


def test_a_journal_that_changes_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    ended(tmp_path)
    path, listed = tmp_path / "state-000001.ckpt", commits.commit_files
    seen = iter([[tmp_path / "state-000000.ckpt"]])
    (tmp_path / "state-000000.ckpt").write_bytes(b"nothing")
    monkeypatch.setattr(
        commits, "commit_files", lambda folder: next(seen, None) or listed(folder)[1:]
    )
    loaded = committed(tmp_path, 1)
    assert path.exists() and loaded and loaded.status == "done"


def test_a_warning_points_at_the_caller_s_line(tmp_path):
    journal = Journal(tmp_path, {})
    for round in (1, 2):
        journal.commit(bare_snapshot(round), [])
    (tmp_path / "state-000002.ckpt").write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="resuming from the commit before") as caught:
        Journal(tmp_path, {}).resume(9)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("round", [-1, 3])
def test_a_commit_of_an_impossible_round_is_damaged(tmp_path, round):
    journal = Journal(tmp_path, {})
    journal.commit(bare_snapshot(round), [])
    with pytest.raises(CheckpointError, match=f"is of round {round}, but the run has 2"):
        Journal(tmp_path, {}).resume(2)


def test_the_oldest_of_three_commits_is_deleted(tmp_path):
    journal = Journal(tmp_path, {})
    for round in (1, 2):
        journal.commit(bare_snapshot(round), [])
    newest = (tmp_path / "state-000002.ckpt").read_bytes()
    (tmp_path / "state-000003.ckpt").write_bytes(
        newest
    )  # as if the process had ended before its cleanup
    assert Journal(tmp_path, {}).resume(2)
    assert [path.name for path in commits.commit_files(tmp_path)] == [
        "state-000002.ckpt",
        "state-000003.ckpt",
    ]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"identity": {}}, "KeyError: 'log'"),
        ({"identity": {}, "log": 3, "files": [], "run": {"round": 1}}, "KeyError"),
        ({"identity": {}, "log": 3, "files": [], "run": {"round": None}}, "TypeError"),
        ({"identity": {}, "log": {}, "files": [], "run": {"round": "x"}}, "ValueError"),
    ],
)
def test_an_intact_commit_with_invalid_values_is_damaged(tmp_path, values, reason):
    (tmp_path / "state-000001.ckpt").write_bytes(b"".join(encode(Snapshot(values, {}))))
    with pytest.raises(CheckpointError, match=rf"state-000001\.ckpt: is damaged: {reason}"):
        Journal(tmp_path, {}).resume(2)
    with pytest.raises(CheckpointError):
        committed(tmp_path, 2)


def test_a_file_that_the_user_names_may_be_a_link_or_a_device(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for content, wanted in (("one", b"one"), (b"two", b"two")):
        files.write_output(tmp_path / "link", content)
        files.write_output(Path(os.devnull), content)
        assert (tmp_path / "file").read_bytes() == wanted and (tmp_path / "link").is_symlink()
    assert not Path(os.devnull).is_file()

    def unknown(path):
        raise OSError

    monkeypatch.setattr(
        files.shutil, "disk_usage", unknown
    )  # the free space is not known, and not named
    with pytest.raises(
        DirectoryError, match=rf"^{tmp_path}/none/file.*: No such file or directory$"
    ):
        files.write_output(tmp_path / "none" / "file", "x")


class TwoNumbers(Memories):
    """Clients that remember two numbers."""

    def __init__(self):
        pass

    def empty(self, start, places):
        return Memory({"w": jnp.zeros((places, 2))}, jnp.zeros(places, bool))


def test_client_memory_is_the_same_in_a_file_and_on_the_device(tmp_path, monkeypatch):
    disk, ids = store.OnDisk(TwoNumbers(), {}, 3, 6, tmp_path), np.array([1, 4, 5])
    for step in (1.0, 2.0):
        memory, _ = disk.load(ids)
        rows = memory.rows["w"].at[:2].add(step)
        disk.save(ids, Memory({"w": rows}, jnp.array([True, True, False])))
    arrays = disk.arrays(portable=True)
    assert arrays["memory.ids"].tolist() == [1, 4] and arrays["memory.rows"].view(
        np.float32
    ).tolist() == [[3, 3], [3, 3]]
    device = store.Resident(TwoNumbers(), {}, ids, 3, 6)
    assert device.arrays()["memory.ids"].tolist() == []
    device.restore({})
    device.restore(arrays)
    known, rows = device.rows(np.array([1, 5, 0]))
    assert known.tolist() == [True, False, False] and rows["w"][0].tolist() == [3, 3]
    assert {name: array.tolist() for name, array in device.arrays().items()} == {
        n: a.tolist() for n, a in arrays.items()
    }
    again = store.OnDisk(TwoNumbers(), {}, 3, 6, tmp_path / "again")
    (tmp_path / "again").mkdir()
    again.restore(device.arrays())
    assert again.arrays(portable=True)["memory.rows"].tolist() == arrays["memory.rows"].tolist()
    assert disk.arrays()["memory.file"].tolist() == [
        0,
        4 * (HEAD + 8),
    ]  # two rows, and two that were replaced
    monkeypatch.setattr(store, "SPARE", -1)
    assert disk.arrays()["memory.file"].tolist() == [1, 2 * (HEAD + 8)] and disk.files() == [
        "memory-1.rows"
    ]
    assert disk.load(ids)[0].rows["w"].tolist() == [[3, 3], [3, 3], [0, 0]]
    for one in (disk, again):
        one.file.close()


def test_a_record_must_be_a_file_and_an_unreadable_lock_is_still_held(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / directory.RECORD)
    with pytest.raises(DirectoryError, match="is not a regular file"):
        directory.read_record(tmp_path)
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    lock = tmp_path / "lock"
    holder = b'{"host": "x", "pid": 7, "since": "then"}'
    for content, by in (
        (b"", "by another process"),
        (b"3", "by another process"),
        (holder, "by process 7 on another machine since then"),
    ):
        lock.write_bytes(content)
        assert f"in use {by}; wait" in _holder(tmp_path, os.open(lock, os.O_RDONLY))
    assert len(waits) == 20


def test_commits_are_numbered_by_their_names():
    assert commits.number_of("state-000012.ckpt") == 12
    assert commits.number_of("state-1000000.ckpt") == 1_000_000
    others = (
        "state-12.ckpt",
        "state-0000012.ckpt",
        "state-000012.ckpt.tmp",
        "log.jsonl",
        "state--00012.ckpt",
    )
    assert [commits.number_of(name) for name in others] == [-1] * 5


def test_commits_of_the_first_and_of_the_last_round_are_resumed_from(tmp_path):
    for round in (0, 2):
        journal = Journal(tmp_path / str(round), {})
        (tmp_path / str(round)).mkdir()
        journal.commit(bare_snapshot(round), [])
        loaded = Journal(tmp_path / str(round), {}).resume(2)
        assert loaded and loaded.values["round"] == round
