"""Rows of clients in a file: written, read back, compacted and refused, and equal on a device."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedsim.disk.checkpoint import digest
from fedsim.disk.rowfile import HEAD, RowFile
from fedsim.engine import store
from fedsim.engine.memory import Memories, Memory
from fedsim.errors import CheckpointError, CorruptError

RNG = np.random.default_rng(24)
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
