"""FedPAC and FedAS: their passes, and FedPAC's quadratic program."""

import jax.numpy as jnp
import numpy as np
import pytest
from building import built

from fedsim.fields.personal.fedpac import shares_of_least_risk


@pytest.mark.long
def test_a_client_without_any_risk_keeps_to_its_own_head():
    P = jnp.diag(jnp.array([0.0, 1.0, 0.5]))
    got = shares_of_least_risk(P, jnp.ones(3, bool))
    np.testing.assert_allclose(got, [1, 0, 0], atol=1e-6)
    got = shares_of_least_risk(0 * P, jnp.ones(3, bool))
    np.testing.assert_allclose(got, [1 / 3, 1 / 3, 1 / 3], atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["fedpac", "fedas"])
def test_passes_are_over_all_samples_of_a_client(kind):
    scenario = {
        "name": "heads",
        "rounds": 1,
        "data": {"kind": "digits", "clients": 3},
        "model": {"kind": "mlp", "hidden": [6]},
        "client": {"kind": kind, "lr": 0.1, "batch": 16, "steps": 4},
    }
    plan = built(scenario).plans[0]
    holders = plan.federation.holders
    for client in range(3):
        index, valid = plan.work.batches(1, client)
        rows = [set(batch[:n].tolist()) for batch, n in zip(index, valid, strict=True)]
        own = holders.of(client)
        of_pass = -(-len(own) // 16)
        assert len(rows) == 3 * of_pass + 4
        for first in (0, of_pass, len(rows) - of_pass):
            assert set.union(*rows[first : first + of_pass]) == set(own.tolist())
    assert plan.round(1)[0].seconds == max(plan.steps)
