"""Cached data: always those that were read, whatever happened to the files in the meantime."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner

from fedsim.cli import cli
from fedsim.errors import DeviceError
from fedsim.sources import archive, cache, cache_folder
from fedsim.sources.mapped import is_memmap

KEY = f"leaf-{'0' * 64}-25"
ARRAYS = {
    "x": np.arange(600.0).reshape(60, 10),
    "y": np.arange(60) % 3,
    "labels": np.array(["ä", "b", "c"]),
}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(cache_folder.VARIABLE, raising=False)
    return tmp_path / "home" / "fedsim" / "data"


def key_of(number: int) -> str:
    return f"leaf-{number:064x}-25"


def made() -> dict[str, np.ndarray]:
    return dict(ARRAYS)


def not_made():
    raise AssertionError("it should have been kept")


def same(arrays) -> bool:
    return list(arrays) == list(ARRAYS) and all(
        np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS
    )


def test_a_set_is_kept_and_found_again(place):
    assert same(cache.cached(KEY, made)) and same(cache.cached(KEY, not_made))
    assert [file.name for file in place.iterdir()] == [f"{cache.VERSION}-{KEY}.npz"]
    assert place.stat().st_mode & 0o077 == 0


def flipped(file, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at % len(content)] ^= 1 << (at % 8)
    file.write_bytes(content)


def cut(file, at: int) -> None:
    file.write_bytes(file.read_bytes()[: at % file.stat().st_size])


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("damage", [flipped, cut])
def test_damage_of_arrays_is_noticed_and_mended(place, monkeypatch, damage, large):
    """At places drawn from the first array; in memory and in the file alike."""
    monkeypatch.setattr(archive, "MIN_MAPPED_BYTES", 0 if large else 1 << 30)
    rng = random.Random(17)
    assert is_memmap(cache.cached(KEY, made)["x"]) == large
    (file,) = place.iterdir()
    for _ in range(4):
        damage(file, 200 + rng.randrange(4000))
        with pytest.warns(UserWarning, match=r"damaged|not a sound"):
            assert same(cache.cached(KEY, made))
        assert same(cache.cached(KEY, not_made))


def test_least_recently_used_sets_go_first(place, monkeypatch):
    large = {"x": np.zeros(300_000, np.uint8)}  # three of them fit into a megabyte
    monkeypatch.setenv(cache_folder.VARIABLE, "1")
    for number in range(3):
        cache.cached(key_of(number), lambda: large)
        os.utime(place / f"{cache.VERSION}-{key_of(number)}.npz", (number, number))
    cache.cached(key_of(0), not_made)  # used now
    cache.cached(key_of(3), lambda: large)
    assert {folder.name for folder in place.iterdir()} == {
        f"{cache.VERSION}-{key_of(number)}.npz" for number in (0, 2, 3)
    }


def test_what_is_larger_than_all_that_may_be_kept_is_not(place, monkeypatch):
    cache.cached(KEY, made)
    monkeypatch.setenv(cache_folder.VARIABLE, "1")
    assert len(cache.cached(key_of(1), lambda: {"x": np.zeros(2 << 20, np.uint8)})["x"]) == 2 << 20
    assert len(list(place.iterdir())) == 1
    monkeypatch.setenv(cache_folder.VARIABLE, "0")
    with pytest.raises(AssertionError):
        cache.cached(KEY, not_made)


@pytest.mark.parametrize("written", ["", "-1", "4 GB", "1e3", "٣"])
def test_a_bound_that_is_none_is_refused(monkeypatch, written):
    monkeypatch.setenv(cache_folder.VARIABLE, written)
    with pytest.raises(
        DeviceError, match=r"FEDSIM_CACHE_MB: should be a whole number of megabytes"
    ):
        cache.cached(KEY, made)


def test_a_folder_that_cannot_be_written_is_no_failure(place):
    place.parent.mkdir(parents=True)
    place.write_text("")
    assert same(cache.cached(KEY, made)) and cache_folder.cached_sets() == []


def test_only_what_is_ours_is_removed(place):
    cache.cached(KEY, made)
    (place / "mine").mkdir()
    (place / "mine" / "x.npy").write_text("")
    (place / f"{cache.VERSION}-{key_of(2)}.npz").symlink_to(place / "mine")
    done = CliRunner().invoke(cli, ["doctor", "--clear-cache"])
    assert done.exit_code == 0 and done.output.startswith(f"{place}: 1 set removed, ")
    assert sorted(path.name for path in place.rglob("*")) == sorted(
        ["mine", "x.npy", f"{cache.VERSION}-{key_of(2)}.npz"]
    )


def test_the_doctor_says_what_is_kept_and_clears_it(place):
    cache.cached(KEY, made)
    from fedsim.cli.doctor import examine

    shown = examine()["settings"]["read data"]
    assert shown == f"{place}: 1 set, 0.0 of at most 4,096.0 MB (FEDSIM_CACHE_MB)"
    done = CliRunner().invoke(cli, ["doctor", "--clear-cache", "--json"])
    assert json.loads(done.output)["sets"] == 1 and list(place.iterdir()) == []


def many_times(start, failures) -> None:
    """Reads, damages and evicts the same sets as other processes do."""
    rng = random.Random(os.getpid())
    start.wait()
    for _ in range(40):
        number = rng.randrange(3)
        if not same(cache.cached(key_of(number), made)):
            failures.put(number)
        if rng.random() < 0.3:
            name = f"{cache.VERSION}-{key_of(number)}.npz"
            cache_folder.remove_set(cache_folder.cache_path() / name)


@pytest.mark.long
def test_processes_that_read_write_and_remove_the_same_sets():
    """Every answer is right, no process fails, and nothing half written is left."""
    context = multiprocessing.get_context("spawn")
    start, failures = context.Barrier(3), context.Queue()
    processes = [context.Process(target=many_times, args=(start, failures)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0] and failures.empty()
    assert not any(map(cache_folder.is_unfinished, cache_folder.cached_sets()))


WRITER = """
import sys
import numpy as np
from fedsim.sources import cache
print("ready", flush=True)
arrays = {f"x{i}": np.full(200_000, i) for i in range(40)}
cache.cached(sys.argv[1], lambda: arrays)
print("done", flush=True)
"""


@pytest.mark.long
@pytest.mark.parametrize("milliseconds", [0, 20, 60, 150])
def test_killed_while_it_writes(place, milliseconds):
    """What is there is whole or nothing, and what was left half written goes in time."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, KEY], stdout=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(milliseconds / 1000)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    arrays = cache.cached(KEY, lambda: {f"x{i}": np.full(200_000, i) for i in range(40)})
    assert [int(arrays[f"x{i}"].sum()) for i in range(40)] == [200_000 * i for i in range(40)]
    for path in cache_folder.cached_sets():
        if cache_folder.is_unfinished(path):
            os.utime(path, (0, 0))
    cache.cached(key_of(9), made)
    assert sorted(path.name for path in place.iterdir()) == sorted(
        f"{cache.VERSION}-{key}.npz" for key in (KEY, key_of(9))
    )
