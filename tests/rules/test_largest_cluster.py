"""Rules that cluster: noise, clients that send the same, and buckets in front of a rule."""

import jax
import numpy as np
import pytest
from reference import detectors

import fedsim
from fedsim.rules.gap_statistic import upper_cluster


@pytest.mark.long
def test_flame_adds_noise_of_the_length_that_it_is_told_to():
    """To the mean of equal rows, which is that row."""
    row = np.random.default_rng(0).normal(size=20_000)
    rows = np.tile(row, (5, 1))
    got, other = (
        fedsim.aggregate({"kind": "flame", "noise": 0.01}, rows, seed=seed) - row for seed in (0, 1)
    )
    length = np.linalg.norm(row)
    np.testing.assert_allclose([got.std(), other.std()], 0.01 * length, rtol=0.05)
    assert abs(np.corrcoef(got, other)[0, 1]) < 0.05


@pytest.mark.long
def test_foolsgold_takes_the_trust_of_clients_that_send_the_same():
    rows = np.random.default_rng(3).normal(size=(8, 50))
    rows[5:] = rows[5]
    np.testing.assert_allclose(fedsim.aggregate("foolsgold", rows), rows[:5].sum(0), atol=1e-9)


def test_bucket_halves_the_rows_and_a_rule_behind_it_counts_those():
    rows = np.arange(12.0)[:, None] ** 2
    server = [{"kind": "bucket", "size": 2}, {"kind": "trimmed_mean", "trim": 2}]
    draws = {fedsim.aggregate(server, rows, seed=seed).item() for seed in range(6)}
    assert len(draws) > 1
    few = fedsim.aggregate(server, rows, weights=np.arange(12) < 8)
    assert few.tolist() == [0.0]  # of four buckets five are needed: the round is skipped


@pytest.mark.long
def test_two_clusters_are_found_as_numpy_finds_them():
    cluster = jax.jit(upper_cluster)
    rng, found = np.random.default_rng(3), 0
    for trial in range(40):
        values, among = rng.random(12), rng.random(12) < 0.8
        values[: trial % 5] += trial / 10
        want = detectors.upper(values, among)
        assert np.asarray(cluster(values.astype(np.float32), among)).tolist() == want.tolist()
        found += want.any()
    assert 5 < found < 35
    assert not cluster(np.ones(12, np.float32), among).any()
