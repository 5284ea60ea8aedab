"""Files are written whole or left unchanged; errors of the system name the path and the space."""

import errno
import os
from types import SimpleNamespace

import pytest

from fedsim.disk import files
from fedsim.disk.rowfile import RowFile
from fedsim.errors import DirectoryError


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
