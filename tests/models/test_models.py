"""Models: laws over the registry, convolutions against XLA's, and modules of real libraries."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim.compose import FAMILIES
from fedsim.models import as_model, cnn, linear, logistic, mlp
from fedsim.models.convolution import convolution, plain_convolution, pool
from fedsim.models.toom_cook import KERNELS, short, short_convolution
from fedsim.types import Model

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:(flax|equinox|orbax|tensorstore|treescope)"
)
KEY = jax.random.key(3)
BUILT_IN = sorted(
    name for name, f in FAMILIES["model"].items() if f.__module__.startswith("fedsim.models.")
)


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def numbers(*shape, seed=0, dtype=None):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def size(params) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def close(a, b, tolerance):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def training(model: Model):
    """(params, x, mask) -> the mean square of the valid rows' outputs: a loss to differentiate."""

    def loss(params, x, mask):
        outputs, _ = model.apply({"params": params, "stats": {}}, x, mask=mask, key=KEY, train=True)
        return jnp.sum(jnp.where(mask, jnp.sum((outputs - 1) ** 2, 1), 0)) / mask.sum()

    return loss


# Laws, for every model that has a name


@pytest.mark.parametrize("name", BUILT_IN)
class TestLaws:
    shape = (12, 12, 1)

    def build(self, name) -> Model:
        return FAMILIES["model"][name]()(self.shape, 10)

    @pytest.mark.long
    @pytest.mark.parametrize("train", [False, True])
    def test_batch_axis_is_kept_and_rows_are_apart(self, name, train):
        model = self.build(name)
        variables, x = model.init(KEY), numbers(6, *self.shape)
        mask = jnp.arange(6) < 4
        outputs, stats = model.apply(variables, x, mask=mask, key=KEY, train=train)
        changed, _ = model.apply(variables, x.at[4:].set(1e3), mask=mask, key=KEY, train=train)
        assert outputs.shape == (6, 10) and stats == variables["stats"]
        np.testing.assert_array_equal(outputs[:4], changed[:4])

    @pytest.mark.long
    def test_one_program_for_several_weights(self, name, x64):
        model = self.build(name)
        start = [model.init(jax.random.key(i))["params"] for i in range(3)]
        x, mask = numbers(3, 5, *self.shape), jnp.arange(5) < jnp.asarray([5, 3, 1])[:, None]
        step = jax.jit(jax.grad(training(model)))
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *start)
        together = jax.jit(jax.vmap(step))(stacked, x, mask)
        for i in range(3):
            close(
                jax.tree.map(lambda leaf: leaf[i], together), step(start[i], x[i], mask[i]), 1e-10
            )

    @pytest.mark.long
    def test_head_of_features_is_the_model(self, name, x64):
        model = self.build(name)
        variables, x = model.init(KEY), numbers(4, *self.shape)
        if model.features is None or model.head is None:
            assert name in ("linear", "logistic") and model.features is model.head is None
            return
        hidden = model.features(variables, x)
        assert hidden.ndim == 2 and len(hidden) == 4
        close(model.head(variables, hidden), model.apply(variables, x)[0], 1e-12)


# Sizes and starts


@pytest.mark.long
@pytest.mark.parametrize(
    ("build", "shape", "outputs", "count"),
    [
        (cnn(), (28, 28, 1), 10, 1_663_370),  # McMahan et al. 2017, section 3
        (cnn(), (28, 28), 10, 1_663_370),
        (cnn(hidden=2048), (28, 28, 1), 62, 6_603_710),  # LEAF's FEMNIST
        (
            cnn([64, 64], hidden=[384, 192]),
            (24, 24, 3),
            10,
            1_068_298,
        ),  # the TensorFlow tutorial's: "about 10^6"
        (cnn([64, 64], hidden=[384, 192], padding="valid"), (32, 32, 3), 10, 797_962),  # FedDyn's
        (cnn([8], 3, 16), (8, 8, 1), 10, 80 + (4 * 4 * 8 + 1) * 16 + 17 * 10),
        (cnn([4, 8], 2, 5), (9, 7, 3), 3, 52 + 136 + (2 * 1 * 8 + 1) * 5 + 6 * 3),
        (mlp([200, 200]), (28, 28, 1), 10, 199_210),  # the same paper's 2NN
        (logistic(), (60,), 10, 610),
        (linear(), (5,), 3, 18),
    ],
)
def test_parameters(build, shape, outputs, count):
    assert size(jax.eval_shape(build(shape, outputs).init, KEY)["params"]) == count


@pytest.mark.parametrize(
    ("build", "shape", "says"),
    [
        (cnn(), (64,), "height, width"),
        (cnn(), (2, 8, 1), "halved 2 times; give fewer `channels`"),
        (cnn(padding="valid"), (12, 15, 1), "halved 2 times inside 5×5 convolutions"),
        (cnn(kernel=24), (8, 12), "`kernel` at most 23"),
    ],
)
def test_cnn_refuses_what_is_no_image(build, shape, says):
    with pytest.raises(ValueError, match=says):
        build(shape, 10)


# The convolution

# batch, height, width, channels, out, kernel, stride, padding
CONVOLUTIONS = {
    "a first layer": (2, 28, 28, 1, 32, 5, 1, "SAME"),
    "wide layers": (2, 14, 14, 32, 64, 5, 1, "SAME"),
    "few channels": (3, 8, 8, 3, 4, 3, 1, "SAME"),
    "an even kernel": (2, 7, 9, 4, 2, 4, 1, "SAME"),
    "a kernel of two": (1, 5, 6, 2, 7, 2, 1, "SAME"),
    "a kernel larger than the image": (2, 3, 2, 8, 4, 5, 1, "SAME"),
    "a kernel of one": (2, 4, 4, 3, 5, 1, 1, "SAME"),
    "inside": (2, 8, 9, 3, 4, 5, 1, "VALID"),
    "inside, a large kernel": (2, 9, 10, 3, 4, 7, 1, "VALID"),
    "strides": (2, 8, 9, 3, 4, 3, 2, "SAME"),
    "strides from an odd side": (2, 7, 8, 2, 5, 3, 2, "SAME"),
    "strides inside": (2, 7, 8, 2, 5, 3, 2, "VALID"),
    "strides over pixels": (2, 9, 10, 4, 2, 1, 2, "SAME"),
    "torch's zeros": (2, 6, 5, 3, 4, 3, 2, 1),
    "torch's zeros, no strides": (2, 7, 4, 3, 4, 3, 1, 1),
    "torch's zeros, no further pixel": (2, 8, 7, 3, 4, 3, 3, 1),
    "torch's zeros, an even kernel": (2, 6, 6, 3, 4, 2, 2, 1),
}
FAST = ("few channels", "a kernel larger than the image", "torch's zeros")


@pytest.mark.parametrize(
    "case",
    [case if case in FAST else pytest.param(case, marks=pytest.mark.long) for case in CONVOLUTIONS],
)
def test_convolution_is_xlas(case, x64):
    """Values, and gradients by the images and by the kernel."""
    B, H, W, C, out, k, stride, padding = CONVOLUTIONS[case]
    x, kernel = numbers(C, H, W, B), numbers(k, k, C, out, seed=1)

    def both(f):
        total = lambda x, kernel: jnp.sum(jnp.sin(f(x, kernel, stride, padding)))
        return jax.jit(jax.value_and_grad(total, (0, 1)))(x, kernel)

    close(both(convolution), both(plain_convolution), 1e-10)


@pytest.mark.parametrize(("m", "k"), [(m, k) for m in (2, 3, 4) for k in KERNELS if m + k <= 9])
def test_short_convolutions(m, k):
    """A [(G w) ⊙ (D x)] is the plain sum Σ_j w_j x_{i+j}, entry by entry, for any x and w."""
    A, G, D = short(m, k)
    trilinear = np.einsum("ip,pj,pr->ijr", A, G, D)
    plain = np.equal.outer(np.add.outer(np.arange(m), np.arange(k)), np.arange(m + k - 1))
    np.testing.assert_allclose(trilinear, plain, atol=1e-12)


@pytest.mark.long
def test_short_convolutions_are_accurate():
    """In float32, to about two bits more than a plain sum of the same numbers."""
    x, kernel = (
        numbers(32, 14, 14, 20).astype(np.float32),
        numbers(5, 5, 32, 64, seed=1).astype(np.float32),
    )
    exact = plain_convolution(x, kernel)
    largest = float(jnp.abs(exact).max())
    assert 1e-8 < float(jnp.abs(short_convolution(x, kernel, 4, 2) - exact).max()) / largest < 4e-6


@pytest.mark.long
@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (cnn([8, 16, 32], 3, 8), (8, 8, 1)),
        (cnn([4, 8], 3, [16, 8], "valid"), (13, 12, 2)),
    ],
)
def test_training_and_evaluation_see_one_network(build, shape, x64, monkeypatch):
    """Where evaluation takes XLA's convolution, as on an accelerator."""
    monkeypatch.setattr("fedsim.models.convolution.platform", lambda: "gpu")
    model = build(shape, 10)
    variables, x = model.init(KEY), numbers(3, *shape)

    def both(train):
        apply = lambda p: model.apply({"params": p, "stats": {}}, x, train=train)[0]
        loss = lambda p: jnp.sum(apply(p) ** 2)
        return jax.jit(jax.value_and_grad(loss))(variables["params"])

    close(both(True), both(False), 1e-10)


@pytest.mark.long
def test_no_grouped_convolution_in_training():
    model = cnn()((8, 8, 1), 10)
    params = jax.vmap(lambda key: model.init(key)["params"])(jax.random.split(KEY, 2))
    step = jax.vmap(jax.grad(training(model)))
    assert "conv_general_dilated" not in str(
        jax.make_jaxpr(step)(params, numbers(2, 3, 8, 8, 1), jnp.ones((2, 3), bool))
    )


@pytest.mark.long
def test_pool(x64):
    x = numbers(2, 5, 7, 3)
    squares = [x[:, i:4:2, j:6:2] for i, j in itertools.product((0, 1), repeat=2)]
    np.testing.assert_array_equal(pool(x), np.max(squares, 0))
    gradient = jax.grad(lambda x: pool(x).sum())
    assert gradient(x).sum() == 2 * 2 * 3 * 3 and set(np.unique(gradient(x))) == {0, 1}
    flat = gradient(jnp.zeros((1, 4, 4, 1)))[0, :, :, 0]
    np.testing.assert_array_equal(
        flat, [[1, 0, 1, 0], [0, 0, 0, 0]] * 2
    )  # the first of equals, once


# Other people's models

ROWS = np.random.default_rng(5).normal(size=(60, 6))
DATA = fedsim.Arrays(ROWS, (ROWS[:, 0] > 0) + 2 * (ROWS[:, 1] > 0), client=np.arange(60) % 3)
SCENARIO = {"name": "own", "rounds": 2, "client": {"lr": 0.1, "batch": 8, "epochs": 2}}


def train(model, **door) -> "fedsim.Result":
    return fedsim.run(
        {**SCENARIO, "numerics": {"dtype": "float64"}}, data=DATA, model=model, **door
    )


def learns(model) -> "fedsim.Result":
    result = train(model)
    losses = result.rounds["train_loss"].dropna()
    assert len(losses) == 2 and losses.iloc[1] < losses.iloc[0]
    return result


@functools.cache
def plain_mlp():
    """Our mlp, and what training in float64 makes of its start: the trajectory to meet."""
    model = mlp([7])((6,), 4)
    with jax.enable_x64(True):
        start = model.init(KEY)["params"]
    return start, train(model, params=start).model()


@pytest.mark.long
def test_plain_functions():
    start, end = plain_mlp()

    def apply(params, x):
        return jax.nn.relu(x @ params[0] + params[1]) @ params[2] + params[3]

    flat = [start["layer0"]["W"], start["layer0"]["b"], start["layer1"]["W"], start["layer1"]["b"]]
    mine = train(as_model(lambda key: flat, apply, classes=4)).model()
    close(
        mine,
        [end["layer0"]["W"], end["layer0"]["b"], end["layer1"]["W"], end["layer1"]["b"]],
        1e-12,
    )


def test_plain_functions_get_what_they_ask_for():
    seen = {}

    def apply(params, x, *, mask, deterministic, key=None):
        seen.update(mask=mask, deterministic=deterministic, key=key)
        return x * params

    model = as_model(lambda key, x: jnp.ones(x.shape[1:]), apply, shape=(3,))
    variables = model.init(KEY)
    assert variables["params"].shape == (3,)
    mask = jnp.ones(2, bool)
    model.apply(variables, jnp.ones((2, 3)), mask=mask, key=KEY, train=True)
    assert seen["mask"] is mask and seen["key"] is KEY and seen["deterministic"] is False


def test_a_pair_an_object_and_a_model_are_one():
    class Net:
        def init(self, key):
            return jnp.ones(2)

        def apply(self, params, x):
            return x * params

    net = Net()
    for model in (as_model(net), as_model((net.init, net.apply)), as_model(as_model(net))):
        assert jnp.all(model.apply(model.init(KEY), jnp.ones((3, 2)))[0] == 1)


@pytest.mark.parametrize("half", [jnp.bfloat16, jnp.float16])
def test_a_model_of_half_precision_starts_in_the_float_type_of_the_run(half):
    variables = {"params": jnp.ones(2, half), "stats": {"seen": jnp.zeros((), jnp.int32)}}
    own = Model(lambda key: variables, lambda variables, x, **options: (x, variables["stats"]))
    for model in (as_model(own), as_model(lambda key: variables["params"], lambda params, x: x)):
        assert model.init(KEY)["params"].dtype == jnp.float32
    assert as_model(own).init(KEY)["stats"]["seen"].dtype == jnp.int32


def test_a_class_in_place_of_its_object_is_named():
    class Net:
        def init(self, key):
            return jnp.ones(2)

        def apply(self, params, x):
            return x * params

    with pytest.raises(
        TypeError, match=r"model: Net is a class; give an object of it, model=Net\(\.\.\.\)$"
    ):
        as_model(Net)
    data = fedsim.Arrays(np.ones((8, 2), np.float32), np.arange(8) % 2)
    for params in (None, {"W": jnp.ones(2)}):
        with pytest.raises(fedsim.ScenarioError, match="model: Net is a class"):
            fedsim.run(
                {"name": "x", "data": {"clients": 2}, "rounds": 1},
                data=data,
                model=Net,
                params=params,
            )


@pytest.mark.parametrize("thing", [3, "mlp", None, lambda a, b: a, lambda key: 1, (1, 2)])
def test_what_is_no_model_is_named(thing):
    with pytest.raises(TypeError, match=r"model: .* is neither a Model nor a pair \(init, apply\)"):
        as_model(thing)


@pytest.mark.parametrize(
    ("apply", "demand", "says"),
    [
        (lambda p, x: x.sum(), {}, r"outputs \(\) for a batch of 5"),
        (lambda p, x: x[:2], {}, r"outputs \(2, 3\) for a batch of 5"),
        (lambda p, x: (x, x), {}, "returned tuple"),
        (lambda p, x: x, {"classes": 4}, "the data have 4 classes"),
        (lambda p, x: x[:, 0], {"classes": 2}, "the data have 2 classes"),
        (lambda p, x: x, {"targets": 1}, "a target of the data has 1 number"),
    ],
)
def test_outputs_that_do_not_fit_are_named(apply, demand, says):
    model = as_model(lambda key: jnp.ones(1), apply, **demand)
    with pytest.raises(ValueError, match=says):
        jax.jit(model.apply)(model.init(KEY), jnp.ones((5, 3)))


def test_a_sample_is_asked_for():
    with pytest.raises(ValueError, match="shape="):
        as_model(lambda key, x: x, lambda params, x: x)


def linen_mlp(start):
    nn = pytest.importorskip("flax.linen")
    names = {"layers_0": "layer0", "layers_2": "layer1"}
    rows = {name: {"kernel": start[of]["W"], "bias": start[of]["b"]} for name, of in names.items()}
    return nn.Sequential([nn.Dense(7), nn.relu, nn.Dense(4)]), rows


def nnx_mlp(start):
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, key):
            rngs = nnx.Rngs(key)
            self.first, self.last = nnx.Linear(6, 7, rngs=rngs), nnx.Linear(7, 4, rngs=rngs)

        def __call__(self, x):
            return self.last(nnx.relu(self.first(x)))

    names = {"first": "layer0", "last": "layer1"}
    rows = {name: {"kernel": start[of]["W"], "bias": start[of]["b"]} for name, of in names.items()}
    return Net(KEY), rows


def equinox_mlp(start):
    eqx = pytest.importorskip("equinox")
    module = eqx.nn.MLP(6, 4, 7, 1, key=KEY)
    where = lambda m: [getattr(m.layers[i], name) for i in (0, 1) for name in ("weight", "bias")]
    layers = [start[f"layer{i}"] for i in (0, 1)]
    values = [value for layer in layers for value in (layer["W"].T, layer["b"])]
    with jax.enable_x64(True):
        return module, eqx.tree_at(where, module, values)


@pytest.mark.long
@pytest.mark.parametrize("network", [linen_mlp, nnx_mlp, equinox_mlp])
def test_a_network_of_another_library_is_trained_as_ours(network):
    start, end = plain_mlp()
    module, params = network(start)
    model = as_model(module, shape=(6,), classes=4)
    got = jax.tree.leaves(train(model, params=params).model())
    close(got, jax.tree.leaves(network(end)[1]), 1e-12)
    learns(model)


class TestLinen:
    @pytest.fixture
    def nn(self):
        return pytest.importorskip("flax.linen", reason="flax is not installed")

    @pytest.mark.long
    def test_statistics_and_noise(self, nn):
        class Net(nn.Module):
            @nn.compact
            def __call__(self, x, train: bool, mask):
                x = nn.BatchNorm(use_running_average=not train, momentum=0.5)(
                    nn.Dense(5)(x), mask=mask[:, None]
                )
                return nn.Dense(4)(nn.Dropout(0.5, deterministic=not train)(x))

        with jax.enable_x64(True):
            model = as_model(Net(), shape=(6,))
            variables = model.init(KEY)
            assert set(variables["stats"]) == {"batch_stats"}
            x, mask = jnp.asarray(ROWS[:8]), jnp.arange(8) < 5
            step = lambda x, key: model.apply(variables, x, mask=mask, key=key, train=True)
            outputs, stats = step(x, KEY)
            again, stats_again = step(x.at[5:].set(9.0), KEY)
            close((outputs[:5], stats), (again[:5], stats_again), 1e-12)  # padding changes nothing
            assert jnp.any(step(x, jax.random.key(9))[0] != outputs)
            moved = jax.tree.map(lambda a, b: bool(jnp.any(a != b)), stats, variables["stats"])
            assert all(jax.tree.leaves(moved))
            still = model.apply(variables, x, mask=mask, key=KEY, train=False)
            close(still[1], variables["stats"], 0)
        assert not model.mixes_rows
        learns(model)

    @pytest.mark.long
    def test_rows_mixed_without_a_mask_are_declared(self, nn):
        class Net(nn.Module):
            @nn.compact
            def __call__(self, x, train: bool):
                return nn.BatchNorm(use_running_average=not train)(nn.Dense(4)(x))

        assert as_model(Net(), shape=(6,)).mixes_rows
        data = fedsim.Arrays(
            np.zeros((9, 6)), np.arange(9) % 4, np.arange(9) // 5
        )  # clients of 5 and 4 samples
        written = {"name": "bn", "rounds": 1, "client": {"batch": 4, "epochs": 1}}
        with pytest.raises(
            fedsim.ScenarioError,
            match="mixes the rows of a batch without looking at mask, and client 0",
        ):
            fedsim.run(written, data=data, model=Net())
        written["client"]["drop_last"] = True
        assert fedsim.run(written, data=data, model=Net()).status == "done"

    def test_a_sample_is_asked_for(self, nn):
        with pytest.raises(ValueError, match="linen module needs a sample"):
            as_model(nn.Dense(3))


@pytest.mark.long
def test_a_module_is_the_start_of_every_seed_and_a_function_draws_one():
    nnx = pytest.importorskip("flax.nnx")
    make = lambda key: nnx.Linear(6, 4, rngs=nnx.Rngs(key))
    for model, alike in ((as_model(make(KEY)), True), (as_model(make), False)):
        first, second = (model.init(jax.random.key(i))["params"]["kernel"] for i in (1, 2))
        assert bool(jnp.all(first == second)) is alike


class TestEquinox:
    @pytest.fixture
    def eqx(self):
        return pytest.importorskip("equinox", reason="equinox is not installed")

    @pytest.mark.long
    def test_noise_only_while_training(self, eqx):
        module = eqx.nn.Sequential([eqx.nn.Linear(6, 4, key=KEY), eqx.nn.Dropout(0.5)])
        model = as_model(module)
        variables, x = model.init(KEY), jnp.asarray(ROWS[:8], jnp.float32)
        noisy, plain = (model.apply(variables, x, key=KEY, train=t)[0] for t in (True, False))
        close(plain, jax.vmap(module[0])(x), 1e-6)
        assert 0 < jnp.sum(noisy == 0) < noisy.size  # every row has its own noise
        assert len({tuple(row) for row in np.asarray(noisy == 0)}) > 1

    def test_state_is_refused(self, eqx):
        class Net(eqx.Module):
            def __call__(self, x, stats):
                return x, stats

        with pytest.raises(TypeError, match="more than one sample"):
            as_model(Net())
