"""Run directories under real processes: killed, racing, and on disks that are full or gone."""

import re
import shutil

import pytest
from directories import started, tiny, wait_for_commit, written
from races import quick_races

pytestmark = pytest.mark.long


def test_one_writer_wins_each_of_fifty_races(tmp_path):
    assert quick_races(tmp_path, 50, writers=3) == 50


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
