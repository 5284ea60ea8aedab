"""Kill a run at every operation on the disk, let it fail, damage files: the bytes are the same."""

import errno
import functools
import gc
import itertools
import os
import shutil
from collections import Counter

import numpy as np
import pytest
from conftest import WHOLE
from damage import killed_run, trials
from directories import leftovers, played, tiny, whole
from faulty import Disk, Killed

import fedsim
from fedsim.engine import store
from fedsim.errors import DirectoryError

pytestmark = pytest.mark.long

# Where the clients' memory is: in the commit, or in a file beside it.
KINDS = {"resident": 256.0, "disk": 0.0}
EVERY = 1 if WHOLE else 29  # a fixed subset of the operations, unless all are asked for
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The bits of a run with these seeds."""
    return functools.cache(
        lambda kind, seeds: played(
            tiny(KINDS[kind], seeds=list(seeds)), tmp_path_factory.mktemp("run") / "out"
        )
    )


@pytest.fixture(autouse=True)
def often_compacted(monkeypatch):
    """The file of client memory is compacted as soon as possible."""
    monkeypatch.setattr(store, "SPARE", 0)


def struck(scenario, out, disk, **options):
    """Run on a disk that fails -> what ended the run, None where nothing did."""
    try:
        with disk:
            fedsim.run(scenario, out=out, **options)
    except (Killed, DirectoryError) as end:
        return end
    return None


def resumed(scenario, out, expected):
    fedsim.run(scenario, out=out, resume=True)
    whole(out, expected)
    shutil.rmtree(out)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_killed_at_any_operation_resumes_to_equal_bytes(kind, undisturbed, tmp_path):
    expected, scenario = undisturbed(kind, (0, 1)), tiny(KINDS[kind])
    for n in itertools.count(1, EVERY):
        out, disk = tmp_path / str(n), Disk(tmp_path / str(n), at=n, half=kind == "disk")
        end = struck(scenario, out, disk)
        assert (end is not None) == disk.struck, disk.trace[-1]
        if not disk.struck:
            break
        resumed(scenario, out, expected)
    assert n > 190


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_killed_while_resuming_resumes_to_equal_bytes(kind, undisturbed, tmp_path):
    expected, scenario, rng = undisturbed(kind, (0, 1)), tiny(KINDS[kind]), np.random.default_rng(0)
    kills = 0
    times = 12 if WHOLE else 2
    for trial in range(times):
        out = tmp_path / str(trial)
        while struck(
            scenario, out, Disk(out, at=int(rng.integers(1, 120)), half=trial % 2 > 0), resume=True
        ):
            kills += 1
            assert kills < 500
        whole(out, expected)
    assert kills > 2 * times


@pytest.mark.parametrize(("kind", "lasting"), [("disk", False), ("resident", True)])
def test_a_failed_operation_is_one_line_and_resumes_to_equal_bytes(
    kind, lasting, undisturbed, tmp_path
):
    expected, scenario = undisturbed(kind, (0,)), tiny(KINDS[kind], seeds=[0])
    for n in itertools.count(1, EVERY):
        out = tmp_path / str(n)
        disk = Disk(out, at=n, error=ERRORS[n % len(ERRORS)], lasting=lasting)
        end = struck(scenario, out, disk)
        if not disk.struck:
            break
        step = disk.trace[n - 1]
        if end is None:  # only the cleanup at the very end may fail silently
            assert step.name in ("unlink", "rmdir"), step
        else:
            assert isinstance(end, DirectoryError), (step, end)
            assert "\n" not in str(end) and str(tmp_path) in str(end), (step, end)
        assert lasting or step.name == "unlink" or leftovers(out) == [], step
        resumed(scenario, out, expected)
    assert n > 100


@pytest.mark.parametrize("kind", KINDS)
def test_short_writes_change_no_byte(kind, undisturbed, tmp_path):
    with Disk(tmp_path / "run", short=300) as disk:
        fedsim.run(tiny(KINDS[kind]), out=tmp_path / "run")
    assert disk.count > 250
    whole(tmp_path / "run", undisturbed(kind, (0, 1)))


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_flushed_before_they_are_renamed_or_referred_to(kind, tmp_path):
    """No file is renamed before its bytes are flushed, and no commit before its log and rows."""
    with Disk(tmp_path / "run") as disk:
        fedsim.run(tiny(KINDS[kind]), out=tmp_path / "run")
    dirty, renames = set(), 0
    for step, then in itertools.zip_longest(disk.trace, disk.trace[2:]):
        if step.name in ("write", "pwrite", "ftruncate") and not step.path.endswith(".lock"):
            dirty.add(step.path)
        if step.name == "fsync":
            dirty.discard(step.path)
        if step.name == "replace":
            renames += 1
            # Of a seed, whose commit refers to its own files, or of the whole run.
            folder = os.path.dirname(step.path)
            assert not [path for path in dirty if path.startswith(folder + os.sep)], (step, dirty)
            assert then == ("fsync", folder)
    assert renames == 16 and not dirty


@pytest.mark.parametrize("seed", range(3))
def test_damage_is_refused_or_does_no_harm(seed, tmp_path):
    expected = killed_run(tmp_path / "template")
    tried = trials(tmp_path / "template", expected, tmp_path / "copy", seed, 16)
    seen = Counter(came for _, came in tried)
    assert seen["refused"] and seen["equal, warned"] and seen["equal"], seen


def test_descriptors_are_closed(tmp_path):
    def opened():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    scenario, failing = tiny(KINDS["disk"], seeds=[0]), tmp_path / "failing"
    fedsim.run(scenario, out=tmp_path / "0")
    before = opened()
    fedsim.run(scenario, out=tmp_path / "1")
    assert struck(scenario, failing, Disk(failing, at=80, error=errno.EIO))
    assert opened() == before
