"""FedPAC and FedAS: their passes, and FedPAC's quadratic program."""

import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim.fields.personal.fedpac import shares_of_least_risk

DATA = {"kind": "digits", "clients": 6, "client_test": 0.3}


def run(client, clients=6, **sections):
    return fedsim.run(
        {
            "name": "heads",
            "rounds": 3,
            "data": {**DATA, "clients": clients},
            "model": {"kind": "mlp", "hidden": [6]},
            "client": {"lr": 0.1, "batch": "full", "steps": 2, **client},
            **sections,
        }
    )


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
    result = run({"kind": kind, "batch": 16, "steps": 4}, rounds=1, clients=3)
    plan = result.experiment.plans[0]
    holders = plan.federation.holders
    for client in range(3):
        index, valid = plan.work.batches(1, client)
        rows = [set(batch[:n].tolist()) for batch, n in zip(index, valid, strict=True)]
        own = holders.of(client)
        of_pass = -(-len(own) // 16)
        assert len(rows) == 3 * of_pass + 4
        for first in (0, of_pass, len(rows) - of_pass):
            assert set.union(*rows[first : first + of_pass]) == set(own.tolist())
    assert result.rounds["virtual_seconds"].iloc[-1] == max(plan.steps)
