"""State that is no float: counters, masks and indices travel, and are never averaged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim import tree
from fedsim.clients import sgd
from fedsim.compose.chains import plain_updates
from fedsim.engine import sections
from fedsim.engine.moments import about_mean, about_zero
from fedsim.types import Model

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:(flax|equinox|orbax|tensorstore|treescope)"
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(48, 5)).astype(np.float32)
Y = np.arange(48) % 3
CLIENTS = 4
SIZES = (16, 8, 12, 12)  # of clients, so that they count differently
DATA = fedsim.Arrays(X, Y, client=np.repeat(np.arange(CLIENTS), SIZES))
MASK = [True, True, False, True, True]
PERMUTATION = [4, 3, 2, 1, 0]


def own():
    def init(key):
        stats = {
            "count": 0,  # of the type of Python's numbers
            "mask": np.array(MASK),
            "order": np.array(PERMUTATION, np.uint8),
            "mean": np.zeros(5, np.float32),
        }
        return {"params": {"W": np.linspace(-0.1, 0.1, 15).reshape(5, 3)}, "stats": stats}

    def apply(variables, x, *, mask=None, key=None, train=False):
        stats = variables["stats"]
        outputs = (x * stats["mask"])[:, stats["order"]] @ variables["params"]["W"]
        if not train:
            return outputs, stats
        mean = jnp.sum(x * mask[:, None], 0) / jnp.sum(mask)
        moved = 0.5 * stats["mean"] + 0.5 * mean
        return outputs, {**stats, "count": stats["count"] + 1, "mean": moved}

    return Model(init, apply)


def linen():
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train: bool):
            count = self.variable("batch_stats", "count", lambda: jnp.zeros((), jnp.int32))
            mask = self.variable("buffers", "mask", lambda: jnp.array(MASK))
            order = self.variable("buffers", "order", lambda: jnp.array(PERMUTATION, jnp.uint8))
            if train:
                count.value += 1
            return nn.Dense(3)((x * mask.value)[:, order.value])

    return Net()


def nnx():
    library = pytest.importorskip("flax.nnx")

    class Net(library.Module):
        def __init__(self, key):
            self.last = library.Linear(5, 3, rngs=library.Rngs(key))
            self.count = library.BatchStat(jnp.zeros((), jnp.int32))
            self.mask = library.Variable(jnp.array(MASK))
            self.order = library.Variable(jnp.array(PERMUTATION, jnp.uint8))

        def __call__(self, x, train: bool):
            if train:
                self.count[...] = self.count[...] + 1
            return self.last((x * self.mask[...])[:, self.order[...]])

    return lambda key: Net(key)


def equinox():
    eqx = pytest.importorskip("equinox")

    class Net(eqx.Module):
        last: eqx.nn.Linear
        count: eqx.nn.StateIndex
        mask: eqx.nn.StateIndex
        order: jax.Array  # fixed, as a module has it

        def __init__(self, key):
            self.last = eqx.nn.Linear(5, 3, key=key)
            self.count = eqx.nn.StateIndex(jnp.array(0))
            self.mask = eqx.nn.StateIndex(jnp.array(MASK))
            self.order = jnp.array(PERMUTATION, jnp.uint8)

        def __call__(self, x, state):
            count = state.get(self.count) + 1
            x = (x * state.get(self.mask))[self.order]
            return self.last(x), state.set(self.count, count)

    return eqx.nn.make_with_state(Net)(jax.random.key(0))


NETWORKS = {"own": own, "linen": linen, "nnx": nnx, "equinox": equinox}
FORMS = [name if name == "own" else pytest.param(name, marks=pytest.mark.long) for name in NETWORKS]
SCENARIO = {
    "name": "state",
    "rounds": 3,
    "data": {"test": 0.0},
    "cohort": {"kind": "uniform", "size": 2},
    "client": {"batch": 4, "lr": 0.1},
    "numerics": {"lanes": 2},
}


def state_of(folder) -> dict[str, np.ndarray]:
    state = fedsim.load_model(folder)["state"]
    names = tree.leaf_names(state)
    return dict(zip(names, jax.tree.leaves(state), strict=True))


@pytest.mark.parametrize("form", FORMS)
def test_it_is_that_of_the_first_client_in_every_form(tmp_path, form):
    """Two of four clients take part in a round, and differ in their steps."""
    network = NETWORKS[form]()
    folder = tmp_path / "run"
    result = fedsim.run(SCENARIO, data=DATA, model=network, out=folder)
    assert result.rounds.train_loss.iloc[-1] < result.rounds.train_loss.iloc[1]
    state = state_of(folder)

    # The counter has the local steps of the first client of every round.
    expected = 0
    for number in range(1, 4):
        cohort, _ = result.experiment.plans[0].round(number)
        expected += SIZES[cohort.ids[0]] // 4
    counters = [leaf for leaf in state.values() if leaf.dtype == np.int32]
    assert [counter.tolist() for counter in counters] == [expected]
    (mask,) = [leaf for leaf in state.values() if leaf.dtype == bool]
    assert mask.tolist() == MASK

    # What travels is counted: bool and uint8 in bytes, as they are.
    shared = result.experiment.shared[0]
    sent = tree.payload_bytes({"params": shared["params"], "stats": shared["stats"]})
    assert result.rounds.bytes_up.iloc[-1] == result.rounds.bytes_down.iloc[-1] == 6 * sent


@pytest.mark.long
def test_blocks_add_up_and_absent_rows_do_not_count():
    client = sgd()
    stats = {
        "count": jnp.array([7, 3, 5, 9], jnp.int32),
        "flag": jnp.array([True, False, False, True]),
        "mean": jnp.array([jnp.nan, 1.0, 2.0, 4.0]),
    }
    before = {"count": jnp.int32(1), "flag": jnp.array(True), "mean": jnp.array(8.0)}

    add_rows = jax.jit(sections.add_rows)

    def after(arrived, weights, cuts):
        rows = plain_updates(jnp.zeros((4, 1)), jnp.array(arrived), jnp.array(weights))
        rows = rows._replace(stats=stats)
        sums = sections.zero(rows, client)
        for part in np.split(np.arange(4), cuts):
            block = tree.take(rows, part)
            of_block = jnp.where(block.arrived, block.samples, 0.0)
            sums = add_rows(sums, block, block, of_block, jnp.zeros(len(part)))
        skipped = jnp.array(not any(arrived))
        return jax.tree.map(np.asarray, sections.stats_after(sums, before, skipped, client))

    for cuts in ([], [1, 3]):
        some = after([False, True, True, False], [1.0, 1.0, 3.0, 1.0], cuts)
        assert some == {"count": 3, "flag": False, "mean": 1.75}
        assert some["count"].dtype == np.int32 and some["flag"].dtype == bool
    assert after([False, False, False, True], [1.0] * 4, cuts)["count"] == 9
    assert after([False] * 4, [1.0] * 4, cuts) == {"count": 1, "flag": True, "mean": 8.0}


def test_a_schedule_that_mixes_models_takes_the_client_s():
    before = {"n": jnp.int32(4), "m": jnp.array(2.0)}
    mixed = sections.mixed_stats(before, {"n": jnp.int32(6), "m": jnp.array(4.0)}, 0.25)
    assert mixed["n"] == 6 and mixed["n"].dtype == jnp.int32 and mixed["m"] == 2.5


def test_pooled_variances_have_counters_beside_them():
    layer = {"mean": 3.0, "var": 1.0, "count": 7}
    assert about_zero(layer) == {"mean": 3.0, "var": 10.0, "count": 7}
    assert about_mean(about_zero(layer))["var"] == 1.0


@pytest.mark.long
def test_a_counter_does_not_mix_rows_and_a_mask_is_offered():
    nn = pytest.importorskip("flax.linen")
    assert not fedsim.as_model(linen(), shape=(5,)).mixes_rows

    class Normalised(nn.Module):
        @nn.compact
        def __call__(self, x, train: bool):
            return nn.Dense(3)(nn.BatchNorm(use_running_average=not train)(x))

    with pytest.raises(fedsim.ScenarioError, match=r"give it an argument mask \[B\] and pass"):
        fedsim.run({**SCENARIO, "client": {"batch": 7}}, data=DATA, model=Normalised())


@pytest.mark.long
@pytest.mark.parametrize("mode", ["batch", "ema"])
def test_batch_norm_of_equinox(mode):
    """Its counter says how far its mean is from zero, and its flag whether there is one."""
    eqx = pytest.importorskip("equinox")

    class Net(eqx.Module):
        norm: eqx.nn.BatchNorm
        last: eqx.nn.Linear

        def __init__(self, key):
            self.norm = eqx.nn.BatchNorm(5, "any name", mode=mode, momentum=0.9)
            self.last = eqx.nn.Linear(5, 3, key=key)

        def __call__(self, x, state):
            x, state = self.norm(x, state)
            return self.last(x), state

    make = lambda key: eqx.nn.make_with_state(Net)(key)
    assert fedsim.as_model(make, shape=(5,)).mixes_rows
    result = fedsim.run(SCENARIO, data=DATA, model=make)
    assert result.rounds.train_loss.iloc[-1] < result.rounds.train_loss.iloc[1]
    np.testing.assert_allclose(result.predict(X).mean(), 0, atol=1.0)
    with pytest.raises(fedsim.ScenarioError, match="make_with_state"):
        fedsim.run(SCENARIO, data=DATA, model=make(jax.random.key(0))[0])
