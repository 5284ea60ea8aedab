"""Rules that detect malicious clients from residuals, layers or histories, on difficult stacks."""

import jax
import numpy as np
import pytest
from reference import detectors

from fedsim.rules.gap_statistic import upper_cluster

pytestmark = pytest.mark.usefixtures("quickly_compiled")
CLUSTER = jax.jit(upper_cluster)


@pytest.mark.long
def test_two_clusters_are_found_as_numpy_finds_them():
    rng, found = np.random.default_rng(3), 0
    for trial in range(40):
        values, among = rng.random(12), rng.random(12) < 0.8
        values[: trial % 5] += trial / 10
        want = detectors.upper(values, among)
        assert np.asarray(CLUSTER(values.astype(np.float32), among)).tolist() == want.tolist()
        found += want.any()
    assert 5 < found < 35
    assert not CLUSTER(np.ones(12, np.float32), among).any()
