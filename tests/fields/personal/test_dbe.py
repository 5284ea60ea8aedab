"""DBE against NumPy."""

import numpy as np
import pytest
from reference import loop, problems, rules, scenarios, tails
from reference.conditions import EMPTY, Condition, cohorts, listed
from reference.personal import DBE

import fedsim

CLOSE = {"rtol": 1e-9, "atol": 1e-12}


@pytest.mark.long
def test_dbe_is_that_of_its_authors():
    """With partial cohorts, empty clients, a round of nobody, uneven steps and a server step."""
    condition = Condition(EMPTY, listed(EMPTY, empty_too=True), lr=0.5, uneven=True)
    samples = problems.features(EMPTY)
    client = {"kind": "dbe", "kappa": 2.0, "batch_weight": 0.3}
    server = [{"kind": "mean", "weights": "samples"}]
    written = scenarios.scenario(client, server, 0.02, "features", condition)
    params = {"model": scenarios.tree_of("features", samples.start), "bias": np.zeros(2)}
    result = fedsim.run(
        written,
        data=fedsim.Arrays(samples.x, samples.y),
        model=scenarios.MODELS["features"],
        params=params,
        partition=scenarios.consecutive(EMPTY),
    )

    setting = loop.Setting(0.02, scenarios.STEPS)
    with_bias = Biased(*samples._replace(start=np.append(np.zeros(2), samples.start)))
    step = lambda x: tails.Tail(x, lr=0.5)
    want = loop.play(with_bias, setting, cohorts(condition), DBE, rules.Samples, step)
    np.testing.assert_allclose(scenarios.flat(result.model()["model"]), want.x[2:], **CLOSE)
    bias = result.state()["client"]["bias"]
    assert any(abs(v).max() > 1e-3 for v in bias)
    for i, row in want.client.items():
        np.testing.assert_allclose(bias[i], row["v"], **CLOSE)


class Biased(problems.Problem):
    """The problem of a vector with a bias in front."""

    def loss(self, i, w):
        return super().loss(i, w[2:])
