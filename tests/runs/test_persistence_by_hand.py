"""Checkpoints, row files and whole files: what is written, read back and refused."""

import errno
import fcntl
import os
import time
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

import fedsim
from fedsim.disk import files
from fedsim.disk.checkpoint import (
    Snapshot,
    decode,
    digest,
    encode,
    leaves_by_name,
    restore_tree,
)
from fedsim.disk.rowfile import HEAD, RowFile
from fedsim.engine import store
from fedsim.engine.memory import Memories, Memory
from fedsim.errors import CheckpointError, CorruptError, DirectoryError, LockedError
from fedsim.runs import directory
from fedsim.runs.differences import differences
from fedsim.runs.lock import LOCK, demand_free

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


def test_a_tree_is_restored_leaf_by_leaf_and_a_leaf_of_another_kind_is_refused():
    tree = {"w": np.ones((2, 3), np.float32)}
    saved = leaves_by_name("params", tree)
    assert digest(restore_tree("params", saved, tree)) == digest(tree)
    with pytest.raises(CheckpointError, match=r"^params\['w'\]: .*; expected "):
        restore_tree("params", saved, {"w": np.ones((2, 3), np.float64)})
    with pytest.raises(CheckpointError, match=r"^params\['v'\]: missing; expected "):
        restore_tree("params", saved, {"v": tree["w"]})


def test_a_digest_depends_on_names_types_shapes_and_bits():
    trees = [
        {"w": np.zeros(4, np.float32)},
        {"v": np.zeros(4, np.float32)},
        {"w": np.zeros(4, np.int32)},
        {"w": np.zeros((2, 2), np.float32)},
        {"w": np.array([0, 0, 0, -0.0], np.float32)},
    ]
    assert len({digest(tree) for tree in trees}) == len(trees)
    assert digest(trees[0]) == digest(dict(trees[0]))


# ------------------------------------------------------------------------ rows of clients in a file

SIZE = 5


def ids(*numbers):
    return np.array(numbers, int)


@pytest.fixture
def rows(tmp_path):
    """A file with a row of each of three clients; all rows have the same bytes."""
    file = RowFile(tmp_path, 0, SIZE, 3)
    file.append(np.arange(3), np.full((3, SIZE), 7, np.uint8))
    yield file
    file.close()


def test_a_row_file_is_made_by_its_first_row_and_absent_rows_are_zero(tmp_path):
    file = RowFile(tmp_path, 0, SIZE, 10)
    assert not file.read(ids(1)).any()
    file.append(ids(), np.zeros((0, SIZE), np.uint8))
    assert file.length == 0 and list(tmp_path.iterdir()) == []
    values = RNG.integers(0, 256, (3, SIZE)).astype(np.uint8)
    file.append(ids(4, 0, 9), values)
    assert file.offset[[4, 0, 9, 1]].tolist() == [0, HEAD + SIZE, 2 * (HEAD + SIZE), -1]
    assert file.length == 3 * (HEAD + SIZE) == (tmp_path / file.name).stat().st_size
    expected = np.stack([values[2], np.zeros(SIZE), values[0], values[1]])
    assert np.array_equal(file.read(ids(9, 1, 4, 0)), expected)
    file.close()


def test_a_file_of_which_more_than_half_was_replaced_is_compacted(rows):
    for _ in range(3):
        assert not rows.needs_compaction(0)  # at least half of the rows are in use
        rows.append(ids(0), np.full((1, SIZE), 8, np.uint8))
    rows.append(ids(0), np.full((1, SIZE), 9, np.uint8))
    spare = rows.length - 2 * 3 * (HEAD + SIZE)
    assert rows.needs_compaction(spare - 1) and not rows.needs_compaction(spare)
    fresh = rows.compacted()
    assert (fresh.name, fresh.length, rows.file) == ("memory-1.rows", 3 * (HEAD + SIZE), None)
    for file in (fresh, rows):  # the older one is opened again
        assert file.read(ids(0, 1, 2))[:, 0].tolist() == [9, 7, 7]
    fresh.close()


def test_what_lies_beyond_the_length_of_a_row_file_was_never_committed(rows):
    again = RowFile(rows.folder, 0, SIZE, 3)
    again.length = HEAD + SIZE
    again.offset[:] = rows.offset
    again.open()
    assert (rows.folder / rows.name).stat().st_size == again.length
    with pytest.raises(CheckpointError, match="the row of client 2 is damaged"):
        again.read(ids(2))
    again.close()
    longer = RowFile(rows.folder, 0, SIZE, 3)
    longer.length = HEAD + SIZE + 1
    with pytest.raises(CorruptError, match=f"is shorter than the {longer.length} bytes it had"):
        longer.open()
    longer.close()


def test_a_row_of_another_client_or_place_is_refused(rows):
    """With its checksum, copied to where a newer one of the client starts; or read for another."""
    first = int(rows.offset[0])
    rows.append(ids(0), np.full((1, SIZE), 7, np.uint8))
    path = rows.folder / rows.name
    whole = bytearray(path.read_bytes())
    old, new = (slice(at, at + HEAD + SIZE) for at in (first, int(rows.offset[0])))
    whole[new] = whole[old]
    path.write_bytes(whole)
    rows.offset[1] = rows.offset[2]
    for client in (0, 1):
        with pytest.raises(CheckpointError, match=f"the row of client {client} is damaged"):
            rows.read(ids(client))
    assert (rows.read(ids(2)) == 7).all()


def test_every_byte_of_a_row_counts(rows):
    path = rows.folder / rows.name
    whole = path.read_bytes()
    for byte in (*range(4), *range(HEAD, HEAD + SIZE)):  # between them it is filled up
        spoiled = bytearray(whole)
        spoiled[HEAD + SIZE + byte] ^= 1
        path.write_bytes(spoiled)
        with pytest.raises(CheckpointError, match="client 1"):
            rows.read(ids(1))


# -------------------------------------------------------------------------------------- whole files


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
    """A model's state beside its parameters has its old name in the file."""
    W = np.arange(6.0, dtype=np.float32).reshape(2, 3).T
    model = {"params": {"layer0": {"W": W, "b": np.zeros(3)}}, "stats": {"mean": np.ones(2)}}
    directory.write_model(tmp_path / "model.fedavg.0.safetensors", model)
    loaded = fedsim.load_model(tmp_path)  # the only one in the folder
    expected = {"params": model["params"], "state": model["stats"]}
    assert digest(loaded) == digest(expected)


def test_what_is_not_a_single_model_is_refused(tmp_path):
    with pytest.raises(DirectoryError, match=r"has no model\.\*\.safetensors"):
        fedsim.load_model(tmp_path)
    for seed in (0, 1):
        file = tmp_path / f"model.fedavg.{seed}.safetensors"
        save_file({"params": np.ones(3), "params/W": np.ones(3)}, file)
    with pytest.raises(DirectoryError, match=r"has 2 models; name one, such as .*fedavg\.0"):
        fedsim.load_model(tmp_path)
    with pytest.raises(DirectoryError, match="'params/W' lies inside another tensor"):
        fedsim.load_model(file)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DirectoryError, match="pipe: is not a regular file"):
        fedsim.load_model(tmp_path / "pipe")


def test_errors_of_the_system_name_the_path_and_the_free_space(tmp_path, monkeypatch):
    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: SimpleNamespace(free=99_999))
    inside, outside = tmp_path / "run", tmp_path / "elsewhere"
    # The name in an error, of which the second is as a descriptor gives it -> the path in the line.
    named = {None: inside, inside.name: inside, str(outside): outside, b"run": inside}
    for name, place in named.items():
        line = rf"^{place}: Input/output error \(99999 bytes free there\)$"
        with pytest.raises(DirectoryError, match=line), files.reporting_os_errors(inside):
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)
    with pytest.raises(DirectoryError, match=rf"^{inside}: No such file or directory \(99999"):
        files.sha256(inside)
    files.require_space(tmp_path, 99_999)
    with pytest.raises(
        DirectoryError, match=r"99999 bytes free, this run may need 0\.1 MB; free some"
    ):
        files.require_space(tmp_path, 100_000)


def test_a_file_that_the_user_names_is_written_whole_or_left_unchanged(tmp_path, monkeypatch):
    """Through a link, into a pipe, and when the disk fills up in the middle."""
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(target)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for content, wanted in (("one", b"one"), (b"two", b"two")):
        files.write_output(link, content)
        files.write_output(pipe, content)
        assert target.read_bytes() == wanted and link.is_symlink()
        assert os.read(reader, 100) == wanted and pipe.is_fifo()
    os.close(reader)

    def unknown(path):
        raise OSError

    # The free space is not known, and not named.
    monkeypatch.setattr(files.shutil, "disk_usage", unknown)
    with pytest.raises(DirectoryError, match=r"/none/file.*: No such file or directory$"):
        files.write_output(tmp_path / "none" / "file", "x")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(DirectoryError, match=r"No space left on device$"):
        files.write_output(link, "torn")
    assert target.read_bytes() == b"two"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "target"]


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
    assert {path.stat().st_mode & 0o7777 for path in tmp_path.iterdir()} == {0o666}
    assert len(list(tmp_path.iterdir())) == 3


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
    assert arrays["memory.ids"].tolist() == [1, 4]
    assert arrays["memory.rows"].view(np.float32).tolist() == [[3, 3], [3, 3]]
    device = store.Resident(TwoNumbers(), {}, ids, 3, 6)
    assert device.arrays()["memory.ids"].tolist() == []
    device.restore({})
    device.restore(arrays)
    known, rows = device.rows(np.array([1, 5, 0]))
    assert known.tolist() == [True, False, False] and rows["w"][0].tolist() == [3, 3]
    assert digest(device.arrays()) == digest(arrays)
    again = store.OnDisk(TwoNumbers(), {}, 3, 6, tmp_path / "again")
    (tmp_path / "again").mkdir()
    again.restore(device.arrays())
    assert again.arrays(portable=True)["memory.rows"].tolist() == arrays["memory.rows"].tolist()
    # Two rows, and two that were replaced.
    assert disk.arrays()["memory.file"].tolist() == [0, 4 * (HEAD + 8)]
    monkeypatch.setattr(store, "SPARE", -1)
    assert disk.arrays()["memory.file"].tolist() == [1, 2 * (HEAD + 8)]
    assert disk.files() == ["memory-1.rows"]
    assert disk.load(ids)[0].rows["w"].tolist() == [[3, 3], [3, 3], [0, 0]]
    for one in (disk, again):
        one.file.close()


def test_a_record_must_be_a_file(tmp_path):
    os.mkfifo(tmp_path / directory.RECORD)
    with pytest.raises(DirectoryError, match="is not a regular file"):
        directory.read_record(tmp_path)


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
