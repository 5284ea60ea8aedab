"""The parts of a commit and their order: numbers, the log before the state, rows of clients."""

import numpy as np
import pytest

from fedsim.disk import files
from fedsim.disk.checkpoint import Snapshot
from fedsim.disk.rowfile import HEAD, RowFile
from fedsim.errors import CheckpointError
from fedsim.runs import journal
from fedsim.runs.commits import LOG, commit_files, name_of, number_of
from fedsim.runs.journal import Journal

IDENTITY = {"scenario": "this"}


def snapshot(round, status="running"):
    return Snapshot({"round": round, "status": status}, {"server": np.arange(3.0)})


def committed(folder, rounds, first=1):
    """A journal with a row and a commit for every round; the first commit has this number."""
    writer = Journal(folder, IDENTITY)
    writer.number = first - 1
    for round in rounds:
        writer.add("rounds", {"round": round})
        writer.commit(snapshot(round), [])
    return writer


def opened(folder):
    """Resume a journal -> the rounds of its rows, the round of its state, and the journal."""
    resumed = Journal(folder, IDENTITY)
    last = resumed.resume(9)
    return (
        [row["round"] for row in resumed.records.get("rounds", [])],
        last and last.values["round"],
        resumed,
    )


# ------------------------------------------------------------------------------------------ numbers


def test_the_millionth_commit_comes_after_the_one_before_it(tmp_path):
    committed(tmp_path, [1, 2, 3, 4], first=999_998)
    names = [path.name for path in commit_files(tmp_path)]
    assert names == ["state-1000000.ckpt", "state-1000001.ckpt"]
    assert opened(tmp_path)[:2] == ([1, 2, 3, 4], 4)


@pytest.mark.parametrize("first", [999_998, 999_999, 1_000_000])
def test_a_run_resumes_from_the_newest_commit_around_a_million(first, tmp_path):
    committed(tmp_path, [1, 2], first)
    assert [path.name for path in commit_files(tmp_path)] == [name_of(first), name_of(first + 1)]
    rows, round, going = opened(tmp_path)
    assert (rows, round, going.number) == ([1, 2], 2, first + 1)
    going.add("rounds", {"round": 3})
    going.commit(snapshot(3), [])
    names = [path.name for path in commit_files(tmp_path)]
    assert names == [name_of(first + 1), name_of(first + 2)]
    assert opened(tmp_path)[:2] == ([1, 2, 3], 3)


def test_the_previous_commit_is_used_when_the_millionth_is_damaged(tmp_path):
    committed(tmp_path, [1, 2], first=999_999)
    (tmp_path / name_of(1_000_000)).write_bytes(b"no commit")
    with pytest.warns(
        UserWarning,
        match=r"state-1000000\.ckpt: is not a fedsim checkpoint; resuming from the commit before",
    ):
        rows, round, going = opened(tmp_path)
    assert (rows, round, going.number) == ([1], 1, 1_000_000)


ODD = [
    "state-².ckpt",
    "state-٣٣٣٣٣٣.ckpt",
    "state-3.ckpt",
    "state-0000003.ckpt",
    "state-.ckpt",
    "state--00001.ckpt",
    "state-000001.ckpt.tmp",
    "state-1e6.ckpt",
    f"state-{'9' * 200}.ckpt",
]


def test_files_with_other_names_are_not_commits(tmp_path):
    committed(tmp_path, [1, 2])
    for name in ODD:
        (tmp_path / name).write_bytes((tmp_path / name_of(2)).read_bytes())
        assert number_of(name) == -1
    assert [path.name for path in commit_files(tmp_path)] == [name_of(1), name_of(2)]
    rows, round, going = opened(tmp_path)
    assert (rows, round, going.number) == ([1, 2], 2, 2)
    for number in (0, 1, 999_999, 10**6, 10**9):
        assert number_of(name_of(number)) == number


# ------------------------------------------------------------------------------ the order of writes


def test_the_rows_of_a_commit_are_written_before_it(tmp_path, monkeypatch):
    """A process that ends between the two leaves rows without a commit, never the reverse."""
    written = []
    append, write = files.append, files.write
    monkeypatch.setattr(
        files, "append", lambda path, *rest: (written.append(path.name), append(path, *rest))[1]
    )
    monkeypatch.setattr(
        files, "write", lambda path, *rest: (written.append(path.name), write(path, *rest))[1]
    )
    committed(tmp_path, [1, 2])
    assert written == [LOG, name_of(1), LOG, name_of(2)]


class Ended(BaseException):
    """Stands for the end of a process."""


@pytest.mark.parametrize("at", [1, 2])
def test_a_process_that_ends_during_a_commit_leaves_the_previous_one(at, tmp_path, monkeypatch):
    """The first or the second write of the third commit never happens."""
    writer = committed(tmp_path, [1, 2])
    count = 0

    def ending(real):
        def write(*arguments):
            nonlocal count
            count += 1
            if count >= at:
                raise Ended
            return real(*arguments)

        return write

    with monkeypatch.context() as patched, pytest.raises(Ended):
        patched.setattr(journal.files, "append", ending(files.append))
        patched.setattr(journal.files, "write", ending(files.write))
        writer.add("rounds", {"round": 3})
        writer.commit(snapshot(3), [])
    assert count == at
    # Without a warning: every commit on the disk has its rows.
    rows, round, going = opened(tmp_path)
    assert (rows, round) == ([1, 2], 2)
    going.add("rounds", {"round": 3})
    going.commit(snapshot(3), [])
    assert opened(tmp_path)[:2] == ([1, 2, 3], 3)


# ------------------------------------------------------------------------ rows of clients in a file

SIZE = 12


@pytest.fixture
def rows(tmp_path):
    """A file with a row of each of three clients; all rows have the same bytes."""
    file = RowFile(tmp_path, 0, SIZE, 3)
    file.append(np.arange(3), np.full((3, SIZE), 7, np.uint8))
    yield file
    file.close()


def test_rows_are_read_as_they_were_written(rows):
    assert (rows.read(np.arange(3)) == 7).all()
    assert rows.offset.tolist() == [0, HEAD + SIZE, 2 * (HEAD + SIZE)]


def test_a_row_of_another_client_is_refused(rows):
    """The same bytes at the same place, but of another client."""
    rows.offset[[0, 1]] = rows.offset[[1, 0]]
    for client in (0, 1):
        with pytest.raises(CheckpointError, match=f"the row of client {client} is damaged"):
            rows.read(np.array([client]))
    assert (rows.read(np.array([2])) == 7).all()


def test_a_row_that_was_moved_to_another_place_is_refused(rows):
    """The client's own row with its checksum, copied to where a newer one starts."""
    first = int(rows.offset[0])
    rows.append(np.array([0]), np.full((1, SIZE), 7, np.uint8))
    path = rows.folder / rows.name
    whole = bytearray(path.read_bytes())
    old, new = (slice(at, at + HEAD + SIZE) for at in (first, int(rows.offset[0])))
    whole[new] = whole[old]
    path.write_bytes(whole)
    with pytest.raises(CheckpointError, match="the row of client 0 is damaged"):
        rows.read(np.array([0]))


@pytest.mark.parametrize(
    "byte", [*range(4), *range(HEAD, HEAD + SIZE)]
)  # between them it is filled up
def test_every_byte_of_a_row_counts(byte, rows):
    path = rows.folder / rows.name
    whole = bytearray(path.read_bytes())
    whole[HEAD + SIZE + byte] ^= 1
    path.write_bytes(whole)
    with pytest.raises(CheckpointError, match="client 1"):
        rows.read(np.array([1]))
