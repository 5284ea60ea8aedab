"""Features that stay in their file: the same run on any device, never all of the file in memory."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import fedsim
from fedsim.errors import DataError
from fedsim.sources import archive, mapped


def file(folder, kind="f4", n=600, **other):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, n)
    x = rng.normal(size=(n, 6))
    x[np.arange(n), y] += 3
    x = (np.clip(20 * x + 100, 0, 255) if kind == "u1" else x).astype(kind)
    np.savez(
        folder / "data.npz", **{"x": x, "y": y, "client": np.sort(rng.integers(0, 9, n)), **other}
    )
    return str(folder / "data.npz")


def result(path, **data):
    return fedsim.run(
        {
            "name": "mapped",
            "rounds": 3,
            "data": {"kind": "npz", "path": path, "validation": 0.1, "client_test": 0.2, **data},
            "model": "logistic",
            "cohort": {"kind": "uniform", "size": 4},
            "client": {"lr": 0.01, "batch": 10, "epochs": 1},
        }
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", ["f4", "f8", "u1"])
def test_a_run_does_not_know_where_its_samples_lie(kind, tmp_path, monkeypatch):
    path = file(tmp_path, kind)
    texts = set()
    for stays, megabytes in ((1 << 40, 4096), (0, 4096), (0, 0)):
        monkeypatch.setattr(archive, "MIN_MAPPED_BYTES", stays)
        run = result(path, resident_mb=megabytes)
        texts.add((run.rounds.to_csv(), run.clients.to_csv(), run.partition.to_csv()))
    assert len(texts) == 1


def test_only_large_uncompressed_arrays_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MIN_MAPPED_BYTES", 1000)
    path = file(tmp_path)
    assert mapped.is_memmap(archive.npz(path).x)
    with np.load(path) as arrays:
        np.savez_compressed(tmp_path / "small.npz", **arrays)
        np.savez(tmp_path / "turned.npz", **{**arrays, "x": np.asfortranarray(arrays["x"])})
        expected = arrays["x"]
    for name in ("small", "turned"):
        loaded = archive.npz(str(tmp_path / f"{name}.npz")).x
        assert not mapped.is_memmap(loaded) and np.array_equal(loaded, expected)
    assert np.array_equal(archive.npz(path).x, expected)


@pytest.mark.parametrize(("value", "kind"), [(np.nan, "f4"), (np.inf, "f4"), (1e300, "f8")])
def test_a_bad_row_of_a_file_is_named(value, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MIN_MAPPED_BYTES", 0)
    monkeypatch.setattr(mapped, "CHUNK_BYTES", 1000)
    x = np.ones((600, 6), kind)
    x[417, 2] = value
    with pytest.raises(DataError, match="row 417"):
        result(file(tmp_path, x=x))


def test_a_file_that_ends_early_is_no_archive(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MIN_MAPPED_BYTES", 0)
    path = file(tmp_path)
    whole = Path(path).read_bytes()
    for cut in (100, len(whole) // 2, len(whole) - 10):
        Path(path).write_bytes(whole[:cut])
        with pytest.raises(DataError, match="not a sound npz"):
            archive.npz(path)


def test_rows_are_read_when_they_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MIN_MAPPED_BYTES", 0)
    n = 100_000
    path = file(tmp_path, n=n, x=np.zeros((n, 200), "f4"))  # 80 MB
    lying = mapped.Mapped(archive.npz(path).x, None, "f4")
    tracemalloc.start()
    some = lying.select(np.arange(0, n, 2))[np.arange(100)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert some.shape == (100, 200) and len(lying) == n and lying.nbytes == 80_000_000
    assert peak < 4_000_000
