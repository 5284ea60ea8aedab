"""Run directories under real processes: killed, racing, and on disks that are full or gone."""

import shutil
import subprocess
import sys

import pytest
from conftest import TESTS
from directories import started, tiny, wait_for_commit, written

sys.path.insert(0, str(TESTS / "deep"))
from races import quick_races

pytestmark = pytest.mark.long


def test_one_writer_wins_each_of_fifty_races(tmp_path):
    assert quick_races(tmp_path, 50, writers=3) == 50


def demand_line(done, *parts):
    """Exit code 4, and one line on stderr that says what happened where."""
    assert done.returncode == 4, (done.returncode, done.stderr)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("fedsim: error: "), done.stderr
    assert all(part in done.stderr for part in parts), done.stderr


@pytest.mark.long
def test_a_run_whose_directory_is_removed_ends_with_one_line(tmp_path):
    out = tmp_path / "run"
    process = started(written(tiny(rounds=2000), tmp_path / "scenario.yaml"), out)
    assert wait_for_commit(process, out, set())
    while out.exists():
        shutil.rmtree(out, ignore_errors=True)
    errors = process.communicate(timeout=30)[1]
    demand_line(subprocess.CompletedProcess("", process.returncode, "", errors), str(out), "")
    assert not out.exists()
    assert (
        "was renamed or replaced while this run wrote there" in errors
        or "No such file or directory" in errors
    )
