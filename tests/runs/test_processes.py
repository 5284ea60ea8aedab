"""Run directories under real processes: killed, racing, and on disks that are full or gone."""

import random
import shutil
import subprocess
import sys

import pytest
from conftest import TESTS, WHOLE, if_whole
from directories import (
    bits,
    commits,
    finished,
    leftovers,
    started,
    tiny,
    wait_for_commit,
    whole,
    written,
)

sys.path.insert(0, str(TESTS / "deep"))
from kill_loop import kill_loop, scenario
from races import SCENARIO, quick_races, race

pytestmark = pytest.mark.long

BIG = tiny(
    0.0, seeds=[0], rounds=40, model={"kind": "mlp", "hidden": [256]}
)  # 80 kB of state, as much per client


KILLS = 10 if WHOLE else 2


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """A scenario's file that writes a megabyte, and the bits it ends with."""
    folder = tmp_path_factory.mktemp("big")
    file = written(BIG, folder / "scenario.yaml")
    assert finished(file, folder / "run").returncode == 0
    return file, bits(folder / "run")


@pytest.mark.long
@pytest.mark.parametrize("name", ["scaffold", "median"] if WHOLE else ["scaffold"])
def test_a_process_killed_at_any_moment_resumes_to_equal_bytes(name, tmp_path):
    """A fixed few moments: each takes five seconds or more."""
    file = written(scenario(name, rounds=60), tmp_path / "scenario.yaml")
    assert finished(file, tmp_path / "whole").returncode == 0
    tally = kill_loop(
        file,
        tmp_path,
        bits(tmp_path / "whole"),
        KILLS,
        random.Random(1),
        start=0.1,
        span=0.3,
        soon=2.0,
    )
    assert tally.kills == KILLS


def test_one_writer_wins_each_of_fifty_races(tmp_path):
    assert quick_races(tmp_path, 50, writers=3) == 50


@if_whole
@pytest.mark.long
def test_racing_runs_end_with_equal_bytes(tmp_path):
    file = written(SCENARIO, tmp_path / "scenario.yaml")
    assert finished(file, tmp_path / "whole").returncode == 0
    for n in range(2):
        race(file, tmp_path / str(n), bits(tmp_path / "whole"), ("--resume",) if n % 2 else ())


def demand_line(done, *parts):
    """Exit code 4, and one line on stderr that says what happened where."""
    assert done.returncode == 4, (done.returncode, done.stderr)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("fedsim: error: "), done.stderr
    assert all(part in done.stderr for part in parts), done.stderr


@pytest.fixture
def mounted(tmp_path):
    """Mount a small file system in memory."""
    places = []

    def mount(options):
        place = tmp_path / f"mount{len(places)}"
        place.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", place], check=True)


@if_whole
@pytest.mark.long
def test_a_full_disk_is_one_line_and_the_run_resumes_later(big, mounted):
    folder = mounted("size=1m")
    out = folder / "run"
    demand_line(finished(big[0], out), str(out), "No space left on device", "free there")
    assert commits(out) and leftovers(out) == []
    demand_line(finished(big[0], out, "--resume"), str(out))
    subprocess.run(["mount", "-o", "remount,size=20m", folder], check=True)
    assert finished(big[0], out, "--resume").returncode == 0
    whole(out, big[1])


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
