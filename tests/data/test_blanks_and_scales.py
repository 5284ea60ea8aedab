"""Blanks and scales of features are those of the training samples alone."""

import numpy as np
import pytest

from fedsim.data import Arrays, prepare
from fedsim.errors import DataError
from fedsim.sources import npz

F32, F64 = np.dtype("float32"), np.dtype("float64")


def test_blanks_and_scales_are_those_of_the_training_samples():
    rng = np.random.default_rng(0)
    x = np.column_stack(
        [rng.normal(5, 30, 60), np.full(60, 7.1), rng.integers(0, 2, 60), rng.normal(size=60)]
    )
    x[rng.random(60) < 0.3, 0] = np.nan
    y, split = rng.integers(0, 2, 60), {"test": 0.3, "validation": 0.2, "seed": 3, "dtype": F64}
    raw = prepare(Arrays(x, y), **split, missing="mean")[0]
    for missing, centre in (("mean", np.nanmean), ("median", np.nanmedian)):
        sets = prepare(Arrays(x, y), **split, missing=missing, standardize=True)[0]
        rows = [np.flatnonzero(x[:, 3] == value)[0] for value in raw.train.x[:, 3]]
        train = x[rows]
        known = train[~np.isnan(train[:, 0]), 0]
        for name in ("train", "test", "validation"):
            part = getattr(sets, name).x
            place = [np.flatnonzero(x[:, 3] == value)[0] for value in getattr(raw, name).x[:, 3]]
            want = np.where(np.isnan(x[place, 0]), centre(train[:, 0]), x[place, 0])
            np.testing.assert_allclose(part[:, 0], (want - known.mean()) / known.std(), rtol=1e-12)
            assert (part[:, 1] == 0).all()  # constant
            assert np.array_equal(part[:, 2], x[place, 2])  # 0 and 1


@pytest.mark.parametrize("missing", ["mean", "median"])
def test_test_and_validation_samples_never_leak(missing):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(80, 3)), rng.integers(0, 3, 80)
    x[::7, 1] = np.nan
    split = {"test": 0.25, "validation": 0.25, "server": 5, "seed": 0, "dtype": F32}
    filling = {"missing": missing, "standardize": True}
    one = prepare(Arrays(x, y), **split, **filling)[0]
    marked = prepare(Arrays(np.arange(80.0)[:, None], y), **split)[0]
    apart = np.concatenate([marked.test.x, marked.validation.x, marked.server.x])
    others = apart.ravel().astype(int)
    changed = x.copy()
    changed[others] = 1e6 * rng.normal(size=(len(others), 3))
    two = prepare(Arrays(changed, y), **split, **filling)[0]
    assert np.array_equal(one.train.x, two.train.x) and not np.array_equal(one.test.x, two.test.x)


def test_archives_and_maps_are_completed_too(tmp_path):
    x = np.array([[1.0, np.nan], [3.0, 2.0], [5.0, 4.0], [7.0, 6.0]])
    np.savez(tmp_path / "w.npz", x=x, y=np.array(["b", "a", "b", "a"]))
    with pytest.raises(DataError, match="x: row 0 is not finite"):
        npz(str(tmp_path / "w.npz"))
    got = npz(str(tmp_path / "w.npz"), missing="mean")
    x.tofile(tmp_path / "x.bin")
    mapped = got._replace(x=np.memmap(tmp_path / "x.bin", np.float64, "r", shape=(4, 2)))
    for arrays in (got, mapped):
        sets = prepare(arrays, test=0.0, seed=0, dtype=F64, missing="mean", standardize=True)[0]
        np.testing.assert_allclose(sets.train.x[:, 0], (x[:, 0] - 4) / np.sqrt(5))
        assert sets.train.x[0, 1] == 0 and sets.names.labels == ("a", "b")
        np.testing.assert_array_equal(arrays.x, x)  # a user's array is not written to


def test_a_feature_without_numbers_is_named():
    x = np.array([[1.0, np.nan], [3.0, np.nan]])
    with pytest.raises(DataError, match="feature 1: blank in all training samples"):
        prepare(Arrays(x, np.array([0, 1])), test=0.0, seed=0, dtype=F32, missing="median")


def test_rows_with_blanks_are_dropped_from_arrays_too():
    x, y = np.array([[1.0], [np.nan], [3.0]]), np.array(["b", "c", "a"])
    sets, classes = prepare(Arrays(x, y, None, x, y), test=0.0, seed=0, dtype=F32, missing="drop")
    assert sets.train.x.tolist() == sets.test.x.tolist() == [[1], [3]]
    assert sets.train.y.tolist() == [1, 0]
    assert classes == 2 and sets.names.labels == ("a", "b")
