"""Data sets: generators against references and moments; files that are read or refused."""

import numpy as np
import pytest
from conftest import oracle

from fedsim.assemble.federation import federations_of, resolved_data
from fedsim.errors import DataError
from fedsim.scenario import read
from fedsim.sources import (
    csv,
    digits,
    fcube,
    gaussian_blobs,
    leaf_synthetic,
    linear_regression,
    npz,
    quadratics,
    sha256_of_data,
    synthetic,
)

F32 = np.dtype("float32")
CASES = oracle("synthetic_data")


def test_digits_are_the_real_ones():
    x, y, *_ = digits()
    assert x.shape == (1797, 8, 8, 1) and x.min() == 0 and x.max() == 1
    assert np.bincount(y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


@pytest.mark.quick(6)
@pytest.mark.parametrize(
    "case", [c for c in CASES if not c["name"].startswith("leaf")], ids=lambda c: c["name"]
)
def test_synthetic_is_the_published_generator(case):
    p, want = dict(case["params"]), case["expected"]
    p |= {"clients": p.pop("users", 30), "multiple": p.pop("mult", 1)}
    p["alpha"], p["beta"] = float(p["alpha"]), float(p["beta"])
    x, y, client, *_ = synthetic(**p)
    sizes = np.bincount(client)
    assert sizes.tolist() == want["sizes"] and len(y) == want["total"]
    # another generator would have to agree in moments only; ours draws the very numbers
    np.testing.assert_allclose(x[0, :5], want["first_row"], rtol=case["rtol"])
    assert y[:10].tolist() == want["first_labels"]
    assert np.bincount(y, minlength=10).tolist() == want["label_hist_total"]
    starts = np.cumsum(sizes) - sizes
    kinds = [len(np.unique(y[s : s + n])) for s, n in zip(starts, sizes, strict=True)]
    assert kinds == want["classes_per_client"]
    means = np.add.reduceat(x[:, 0], starts)[:5] / sizes[:5]
    np.testing.assert_allclose(
        means, want["mean_feature0_by_client"], rtol=case["rtol"], atol=case["atol"]
    )
    assert x[: sizes[0], 0].var() == pytest.approx(want["within_var_feature0_client0"], rel=1e-6)


def test_leaf_synthetic_is_the_published_data_set():
    case = next(c for c in CASES if c["name"].startswith("leaf"))
    want = case["expected"]
    _, y, client, *_ = leaf_synthetic()
    sizes = np.bincount(client)
    assert sizes[:20].tolist() == want["sizes_first20"] and len(sizes) == want["published"]["users"]
    assert len(y) == want["total"] == want["published"]["samples"]
    assert sizes.mean() == pytest.approx(want["mean"]) and sizes.std() == pytest.approx(want["std"])
    assert np.bincount(y[: sizes[:50].sum()]).tolist() == want["label_hist_first50_tasks"]


def test_blobs_have_the_moments_they_promise():
    x, y, *_ = gaussian_blobs([3, 2], classes=4, samples=40_001, spread=0.5, seed=3)
    assert x.shape == (40_001, 3, 2) and x.dtype == np.float32
    assert sorted(np.bincount(y).tolist()) == [10_000] * 3 + [10_001]
    for label in range(4):
        np.testing.assert_allclose(x[y == label].std(0), 0.5, rtol=0.04)
    centres = np.array([gaussian_blobs([1], 200, 200, 1e-6, s).x.ravel() for s in range(20)])
    assert centres.mean() == pytest.approx(0, abs=0.05)
    assert centres.std() == pytest.approx(1, rel=0.05)
    again = gaussian_blobs([3, 2], classes=4, samples=40_001, spread=0.5, seed=3)
    assert (again.x == x).all() and not (gaussian_blobs([3, 2], 4, 40_001, 0.5, 4).x == x).any()


def test_linear_regression_has_the_truth_it_promises():
    size = {"features": 4, "samples": 500, "clients": 40, "seed": 1}
    x, y, client, *_ = linear_regression(noise=0.2, heterogeneity=0.5, **size)
    assert np.bincount(client).tolist() == [500] * 40 and y.dtype == np.float64
    found = np.array([np.linalg.lstsq(x[client == k], y[client == k])[0] for k in range(40)])
    residual = y - np.einsum("nd,nd->n", x, found[client])
    assert residual.std() == pytest.approx(0.2, rel=0.03)
    assert found.std(0).mean() == pytest.approx(0.5, rel=0.2)
    same = linear_regression(features=4, samples=500, noise=0.0, clients=3)
    shared = np.linalg.lstsq(same.x[:50], same.y[:50])[0]
    np.testing.assert_allclose(same.x @ shared, same.y, atol=1e-9)


def test_quadratics_are_the_quadratics():
    size = {"features": 4, "clients": 3, "seed": 5}
    x, y, client, x_test, y_test, *_ = quadratics(smallest=0.1, largest=2.0, **size)
    w = np.array([0.3, -1.0, 2.0, 0.5])
    for k in range(3):
        A, t = x[client == k], y[client == k]
        H, a = A.T @ A / len(A), np.linalg.solve(A, t)
        np.testing.assert_allclose(np.linalg.eigvalsh(H)[[0, -1]], [0.1, 2.0], rtol=1e-10)
        assert np.mean((A @ w - t) ** 2) / 2 == pytest.approx((w - a) @ H @ (w - a) / 2)
        np.testing.assert_allclose(A.T @ (A @ w - t) / len(A), H @ (w - a), rtol=1e-9)
    assert (x_test == x).all() and (y_test == y).all()
    with pytest.raises(DataError, match="smallest"):
        quadratics(smallest=2.0)


def federation(data: dict, **more):
    scenario = read({"name": "s", "data": data, **more})
    return scenario, federations_of(scenario, None, F32)[0]


@pytest.mark.parametrize("kind", ["synthetic", "linear_regression", "quadratics"])
def test_sources_with_ids_are_dealt_by_them(kind):
    scenario, f = federation({"kind": kind, "clients": 7})
    assert f.N == 7 and f.has_client_ids and len(f.test.x)
    assert resolved_data(scenario, None, f).partition.kind == "natural"
    _, dealt = federation({"kind": kind, "clients": 7, "partition": "iid"})
    assert dealt.sizes.max() - dealt.sizes.min() <= 1


def test_the_generator_takes_the_seed_of_the_data_and_not_of_the_run():
    def of_seed(seed: int, run: int) -> np.ndarray:
        data = {"kind": "synthetic", "clients": 3, "seed": seed}
        scenario = read({"name": "s", "data": data, "seeds": [run]})
        return federations_of(scenario, None, F32)[run].train.x

    assert np.array_equal(of_seed(2, 0), of_seed(2, 1))
    assert not np.array_equal(of_seed(2, 0)[:5], of_seed(0, 0)[:5])


def test_fcube_has_two_opposite_octants_per_client():
    arrays = fcube()
    assert arrays.x.shape == (4000, 3) and arrays.x_test.shape == (1000, 3)
    assert np.abs(arrays.x).max() <= 1
    signs = [set(map(tuple, np.sign(arrays.x[arrays.client == k]).astype(int))) for k in range(4)]
    assert signs == [{(1, a, b), (-1, -a, -b)} for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
    for x, y in ((arrays.x, arrays.y), (arrays.x_test, arrays.y_test)):
        assert np.array_equal(y, (x[:, 0] < 0).astype(int))
    assert all(np.bincount(arrays.y[arrays.client == k]).tolist() == [500, 500] for k in range(4))
    _, f = federation({"kind": "fcube", "samples": 10, "test_samples": 0})
    assert f.N == 4 and len(f.test.x) == 8 and np.array_equal(fcube(5, 5, 3).x, fcube(5, 5, 3).x)


# -------------------------------------------------------------------------------------------- files

X = np.arange(24, dtype=np.float32).reshape(12, 2)
Y = np.arange(12) % 3


def test_npz_round_trip(tmp_path):
    path = tmp_path / "w.npz"
    ids = np.array(list("bbbbaaaacccc"))
    np.savez_compressed(path, x=X, y=Y, client=ids, x_test=X[:2], y_test=Y[:2])
    got = npz(str(path))
    for one, other in zip(got[:5], (X, Y, ids, X[:2], Y[:2]), strict=True):
        assert np.array_equal(one, other) and one.dtype == other.dtype
    np.savez(path, x=np.asfortranarray(X), y=Y / 2)
    assert np.array_equal(npz(str(path)).x, X) and npz(str(path)).client is None


def test_csv_round_trip(tmp_path):
    path = tmp_path / "t.csv"
    rows = ["a,who,label,b", *(f"{i},{i % 4},{label},{-i}" for i, label in enumerate(Y))]
    path.write_text("\ufeff" + "\r\n".join(rows) + "\r\n\r\n", encoding="utf-8")
    x, y, client, *_ = csv(str(path), "label", "who")
    assert np.array_equal(x, np.stack([np.arange(12), -np.arange(12)], 1)) and np.array_equal(y, Y)
    assert client.tolist() == [0, 1, 2, 3] * 3
    path.write_text('y,client,"x, quoted"\n1.5,"k, 1",1e-3\n2,k2,4\n')
    x, y, client, *_ = csv(str(path))
    assert y.tolist() == [1.5, 2.0] and client.tolist() == ["k, 1", "k2"]
    assert x.tolist() == [[1e-3], [4.0]]


def test_files_through_a_scenario(tmp_path):
    """Paths are relative to the scenario first; the resolved section has the hash and reads it."""
    folder = tmp_path / "study"
    folder.mkdir()
    np.savez(folder / "w.npz", x=X, y=Y, client=[5, 5, 5, 7, 7, 7, 7, 7, 9, 9, 9, 9])
    (folder / "s.yaml").write_text("name: s\ndata: {kind: npz, path: w.npz, test: 0}\n")
    scenario = read(folder / "s.yaml")
    f = federations_of(scenario, None, F32)[0]
    assert f.sizes.tolist() == [3, 5, 4]
    settled = resolved_data(scenario, None, f)
    assert settled.clients == 3 and settled.sha256 == sha256_of_data(folder / "w.npz")
    again = read({"name": "s", "data": settled.model_dump(mode="json")})
    g = federations_of(again, None, F32)[0]
    assert f.fingerprint() == g.fingerprint()
    assert resolved_data(again, None, g).model_dump() == settled.model_dump()
    np.savez(folder / "w.npz", x=X + 1, y=Y)
    with pytest.raises(DataError, match="not the expected file"):
        federations_of(again, None, F32)


def test_faults_found_late_name_the_file_too(tmp_path):
    np.savez(tmp_path / "big.npz", x=np.array([[1.0], [1e300], [2.0]]), y=np.array([0, 1, 0]))
    with pytest.raises(DataError, match=r"big\.npz: x: row 1 does not fit float32"):
        federation({"kind": "npz", "path": str(tmp_path / "big.npz"), "test": 0.0, "clients": 1})
