"""pFedHN against NumPy."""

import jax
import numpy as np
import pytest
from near_points import ALL, NEAR, SIZES, D, local, means, played

COHORTS = [[0, 3, 4], [1, 2, 5], [6], [0, 1, 3, 5], ALL]
E, H = 3, [4, 5]
ALPHA, STEP = 0.2, 0.7


def run(**sections):
    """Run on the points -> the server's parameters after every round, and the result."""
    client = {"kind": "pfedhn", "embedding": E, "hidden": H, "hyper_lr": ALPHA}
    server = [{"kind": "mean", "weights": "uniform"}, {"kind": "sgd", "lr": STEP}]
    return played(COHORTS, client=client, server=server, **sections)


def forward(phi, v):
    """θ, and the values before each layer."""
    first = v @ phi["layer0"]["W"] + phi["layer0"]["b"]
    rectified = np.maximum(first, 0)
    second = rectified @ phi["layer1"]["W"] + phi["layer1"]["b"]
    theta = second @ phi["last"]["W"] + phi["last"]["b"]
    return theta, (v, first, rectified, second)


def backward(phi, values, d):
    """The products of d with the derivatives of θ: by φ, and by v."""
    v, first, rectified, second = values
    of_second = phi["last"]["W"] @ d
    of_first = (phi["layer1"]["W"] @ of_second) * (first > 0)
    by_phi = {
        "last": {"W": np.outer(second, d), "b": d},
        "layer1": {"W": np.outer(rectified, of_second), "b": of_second},
        "layer0": {"W": np.outer(v, of_first), "b": of_first},
    }
    return by_phi, phi["layer0"]["W"] @ of_first


@pytest.mark.long
def test_pfedhn_is_that_of_the_paper():
    """With partial cohorts, an empty client, a round of nobody, and a server step.

    A model travels, and no hypernetwork.
    """
    v = np.array(run(rounds=0)[1].state()["client"]["v"])
    seen, result = run()
    end = seen[-1]
    phi = jax.tree.map(np.array, result.experiment.shared[0]["params"])
    embedding = phi.pop("embedding")
    for cohort in COHORTS:
        able = [i for i in cohort if SIZES[i]]
        pulls = []
        for i in able:
            theta, values = forward(phi, v[i])
            by_phi, by_v = backward(phi, values, local(theta, means()[i]))
            v[i] = v[i] + ALPHA * by_v
            pulls.append(by_phi)
        for layer in phi if able else ():
            for name in phi[layer]:
                mean = np.mean([pull[layer][name] for pull in pulls], axis=0)
                phi[layer][name] = phi[layer][name] + STEP * ALPHA * mean
    np.testing.assert_array_equal(end.pop("embedding"), embedding)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **NEAR), end, phi)
    np.testing.assert_allclose(result.state()["client"]["v"][ALL], v[ALL], **NEAR)
    assert abs(v[ALL]).max() > 0 and abs(phi["last"]["W"]).max() > 0
    messages = sum(map(len, COHORTS))
    for column in ("bytes_up", "bytes_down"):
        assert result.rounds[column].iloc[-1] == 4 * D * messages
