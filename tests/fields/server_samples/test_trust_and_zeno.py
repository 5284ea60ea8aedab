"""`trust` and `zeno` on arrays: whom they keep, what they ask for, and the loss of `zeno`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim.engine.task import task
from fedsim.fields.server_samples.loss import ServerSamples, server_loss
from fedsim.losses import squared
from fedsim.models import as_model


def test_nobody_points_where_the_server_does():
    trusted = lambda rows, own: fedsim.aggregate("trust", rows, reference=own).tolist()
    assert trusted([[-1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [2.0, 0.0]) == [0, 0]
    for own in ([0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]):
        assert trusted([[1.0, 1.0], [2.0, 0.0], [0.0, 0.0]], own) == [0, 0]


def test_zeno_keeps_the_first_of_those_that_are_as_good():
    rows = [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    given = {"weights": [0, 1, 1, 1], "server_loss": lambda x: ((x - 1) ** 2).sum()}
    assert fedsim.aggregate("zeno(f=2)", rows, **given).tolist() == [1.0, 1.0]
    assert fedsim.aggregate("zeno(f=1)", rows, **given).tolist() == [1.0, 0.5]


@pytest.mark.parametrize(
    ("rule", "rows", "given", "says"),
    [
        ("trust", [[1.0]], {}, "server: .* the server's own update; pass reference="),
        ("zeno(f=0)", [[1.0]], {}, "server: .* own samples; pass server_loss="),
        ("trust", [[1.0]], {"reference": [1.0, 2.0]}, r"reference: .* \[1\]; found \[2\]"),
        ("zeno(f=0)", [[1.0]], {"server_loss": lambda x: x}, "server_loss: must return a number"),
    ],
)
def test_what_a_rule_asks_for_is_demanded(rule, rows, given, says):
    with pytest.raises(fedsim.ScenarioError, match=says):
        fedsim.aggregate(rule, rows, **given)


def test_an_attack_on_a_rule_asks_for_what_that_needs():
    with pytest.raises(fedsim.ScenarioError, match=r"defence: .* pass reference="):
        fedsim.transmit("optimised", [[1.0], [2.0]], malicious=[0], defence="trust")


@pytest.mark.long
@pytest.mark.parametrize("count", [10, 12])
def test_losses_are_means_over_samples_in_batches_and_over_those_that_are_drawn(count):
    model = as_model(lambda key: {"w": jnp.ones(1)}, lambda params, x: x * params["w"])
    job = task(model, squared(), lambda lr: None, lambda lr, step: lr, 0)
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4, 1)
    samples = ServerSamples(x, 0 * x, np.int32(count))
    of = server_loss(samples, job, {"params": {"w": jnp.ones(1)}, "stats": {}})
    half = 0.5 * (2 * x.ravel()) ** 2
    assert float(of({"w": jnp.full(1, 2.0)})) == pytest.approx(half[:count].mean())
    key = jax.random.key(5)
    drawn = np.asarray(jax.random.randint(key, (7,), 0, count))
    assert float(of({"w": jnp.full(1, 2.0)}, batch=7, key=key)) == pytest.approx(half[drawn].mean())
