"""Models: laws over the registry, convolutions against XLA's, and modules of real libraries."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim import tree
from fedsim.compose import FAMILIES
from fedsim.models import (
    Tokens,
    as_model,
    char_gru,
    char_lstm,
    cnn,
    lenet,
    linear,
    logistic,
    mlp,
    resnet,
    transformer,
)
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


SHAPE = (12, 12, 1)
each_model = pytest.mark.parametrize("name", BUILT_IN)


def built(name) -> Model:
    return FAMILIES["model"][name]()(SHAPE, 10)


@pytest.mark.long
@each_model
@pytest.mark.parametrize("train", [False, True])
def test_batch_axis_is_kept_and_rows_are_apart(name, train):
    model = built(name)
    variables, x = jax.jit(model.init)(KEY), numbers(6, *SHAPE)
    mask = jnp.arange(6) < 4
    apply = jax.jit(lambda x: model.apply(variables, x, mask=mask, key=KEY, train=train))
    outputs, stats = apply(x)
    changed, _ = apply(x.at[4:].set(1e3))
    assert outputs.shape == (6, 10)
    close(stats, variables["stats"], 0)
    np.testing.assert_array_equal(outputs[:4], changed[:4])


@pytest.mark.long
@each_model
def test_one_program_for_several_weights(name, x64):
    model = built(name)
    init = jax.jit(model.init)
    start = [init(jax.random.key(i))["params"] for i in range(3)]
    x, mask = numbers(3, 5, *SHAPE), jnp.arange(5) < jnp.asarray([5, 3, 1])[:, None]
    step = jax.jit(jax.grad(training(model)))
    together = jax.jit(jax.vmap(step))(tree.stack(start), x, mask)
    for i in range(3):
        close(tree.take(together, i), step(start[i], x[i], mask[i]), 1e-10)


@pytest.mark.long
@each_model
def test_head_of_features_is_the_model(name, x64):
    model = built(name)
    variables, x = jax.jit(model.init)(KEY), numbers(4, *SHAPE)
    if name in ("linear", "logistic"):
        assert model.features is model.head is None
        return
    assert model.features is not None and model.head is not None
    hidden = jax.jit(model.features)(variables, x)
    assert hidden.ndim == 2 and len(hidden) == 4
    outputs, _ = jax.jit(model.apply)(variables, x)
    close(jax.jit(model.head)(variables, hidden), outputs, 1e-12)


# Sizes and starts

TEXT, CODES = Tokens(80, every=False), Tokens(90, every=True)
# what it is -> model, parameters
SIZES = {
    "McMahan et al. 2017, section 3": (cnn()((28, 28, 1), 10), 1_663_370),
    "images without an axis of channels": (cnn()((28, 28), 10), 1_663_370),
    "LEAF's FEMNIST": (cnn(hidden=2048)((28, 28, 1), 62), 6_603_710),
    'the TensorFlow tutorial\'s: "about 10^6"': (
        cnn([64, 64], hidden=[384, 192])((24, 24, 3), 10), 1_068_298,
    ),
    "FedDyn's": (cnn([64, 64], hidden=[384, 192], padding="valid")((32, 32, 3), 10), 797_962),
    "a small kernel": (cnn([8], 3, 16)((8, 8), 10), 80 + (4 * 4 * 8 + 1) * 16 + 17 * 10),
    "odd sides": (cnn([4, 8], 2, 5)((9, 7, 3), 3), 52 + 136 + (2 * 1 * 8 + 1) * 5 + 6 * 3),
    "McMahan's 2NN": (mlp([200, 200])((28, 28, 1), 10), 199_210),
    "logistic": (logistic()((60,), 10), 610),
    "linear": (linear()((5,), 3), 18),
    "LeNet: 6 and 16 kernels, layers of 120 and 84": (lenet()((28, 28), 10), 61_706),
    "He et al.: 0.27 M": (resnet(20, "batch")((32, 32, 3), 10), 269_722),
    "Reddi et al.: 11.2 M": (resnet(18, "group")((32, 32, 3), 10), 11_173_962),
    "without norm: biases alone, and a kernel for one channel": (
        resnet(8, "none")((16, 16, 1), 10), 75_050 - 2 * 16 * 9,
    ),
    "LEAF: 80 characters": (char_lstm()((80,), 80, TEXT), 817_872),
    "86 characters and four marks, as TFF encodes them": (char_lstm()((80,), 90, CODES), 820_522),
    "no embedding": (char_lstm(3, 1, 5)((9, 4), 2), 4 * 5 * (4 + 5 + 1) + 2 * 6),
    "GRU": (char_gru()((80,), 80, TEXT), 619_216),
    "transformer": (transformer()((80,), 80, Tokens(80, every=True)), 427_600),
    "a transformer of numbers": (
        transformer(1, 2, 4)((9, 3, 2), 2), 4 * 7 + 9 * 4 + 12 * 4**2 + 13 * 4 + 2 * 4 + 2 * 5,
    ),
}  # fmt: skip


@pytest.mark.quick(5)
@pytest.mark.parametrize("name", SIZES)
def test_parameters(name):
    model, count = SIZES[name]
    params = jax.eval_shape(model.init, KEY)["params"]
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == count


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: cnn()((64,), 10), "height, width"),
        (lambda: cnn()((2, 8, 1), 10), "halved 2 times; give fewer `channels`"),
        (lambda: cnn(padding="valid")((12, 15, 1), 10), "halved 2 times inside 5×5 convolutions"),
        (lambda: cnn(kernel=24)((8, 12), 10), "`kernel` at most 23"),
        (lambda: resnet(20, groups=3), "3 do not divide the 16 channels"),
        (lambda: resnet()((64,), 10), "resnet needs images"),
        (lambda: lenet()((28,), 10), "lenet needs images"),
        (lambda: lenet()((8, 8), 10), "at least 12×12"),
        (lambda: char_lstm()((64,), 10), "char_lstm needs sequences"),
        (lambda: transformer()((64,), 10), "transformer needs sequences"),
        (lambda: transformer(heads=3), "3 do not divide the width of 128"),
    ],
)
def test_samples_and_sizes_that_do_not_fit_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


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
    x = numbers(32, 14, 14, 20).astype(np.float32)
    kernel = numbers(5, 5, 32, 64, seed=1).astype(np.float32)
    exact = jax.jit(plain_convolution)(x, kernel)
    got = jax.jit(lambda x, kernel: short_convolution(x, kernel, 4, 2))(x, kernel)
    assert 1e-8 < jnp.abs(got - exact).max() / jnp.abs(exact).max() < 4e-6


@pytest.mark.long
def test_training_and_evaluation_see_one_network(x64, monkeypatch):
    """Where evaluation takes XLA's convolution, as on an accelerator."""
    monkeypatch.setattr("fedsim.models.convolution.platform", lambda: "gpu")
    model = cnn([4, 8], 3, [16, 8], "valid")((13, 12, 2), 10)
    variables, x = model.init(KEY), numbers(3, 13, 12, 2)

    def both(train):
        apply = lambda p: model.apply({"params": p, "stats": {}}, x, train=train)[0]
        loss = lambda p: jnp.sum(apply(p) ** 2)
        return jax.jit(jax.value_and_grad(loss))(variables["params"])

    close(both(True), both(False), 1e-10)


@pytest.mark.long
def test_no_grouped_convolution_in_training():
    model = cnn([4], 3, 8)((8, 8, 1), 10)
    params = jax.vmap(lambda key: model.init(key)["params"])(jax.random.split(KEY, 2))
    step = jax.vmap(jax.grad(training(model)))
    program = jax.make_jaxpr(step)(params, numbers(2, 3, 8, 8, 1), jnp.ones((2, 3), bool))
    assert "conv_general_dilated" not in str(program)


@pytest.mark.long
def test_pool(x64):
    x = numbers(2, 5, 7, 3)
    squares = [x[:, i:4:2, j:6:2] for i, j in itertools.product((0, 1), repeat=2)]
    np.testing.assert_array_equal(pool(x), np.max(squares, 0))
    gradient = jax.jit(jax.grad(lambda x: pool(x).sum()))
    assert gradient(x).sum() == 2 * 2 * 3 * 3 and set(np.unique(gradient(x))) == {0, 1}
    of_equals = gradient(jnp.zeros((1, 4, 4, 1)))[0, :, :, 0]  # the first, once
    np.testing.assert_array_equal(of_equals, [[1, 0, 1, 0], [0, 0, 0, 0]] * 2)


# Other people's models

ROWS = np.random.default_rng(5).normal(size=(60, 6))
DATA = fedsim.Arrays(ROWS, (ROWS[:, 0] > 0) + 2 * (ROWS[:, 1] > 0), client=np.arange(60) % 3)
SCENARIO = {"name": "own", "rounds": 2, "client": {"lr": 0.1}}


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


class Net:
    def init(self, key):
        return jnp.ones(2)

    def apply(self, params, x):
        return x * params


def test_a_pair_an_object_and_a_model_are_one_and_a_class_is_none():
    net = Net()
    for model in (as_model(net), as_model((net.init, net.apply)), as_model(as_model(net))):
        assert jnp.all(model.apply(model.init(KEY), jnp.ones((3, 2)))[0] == 1)

    line = r"model: Net is a class; give an object of it, model=Net\(\.\.\.\)$"
    with pytest.raises(TypeError, match=line):
        as_model(Net)
    for params in (None, {"W": jnp.ones(2)}):
        with pytest.raises(fedsim.ScenarioError, match="model: Net is a class"):
            fedsim.run(SCENARIO, data=DATA, model=Net, params=params)


@pytest.mark.parametrize("half", [jnp.bfloat16, jnp.float16])
def test_a_model_of_half_precision_starts_in_the_float_type_of_the_run(half):
    variables = {"params": jnp.ones(2, half), "stats": {"seen": jnp.zeros((), jnp.int32)}}
    own = Model(lambda key: variables, lambda variables, x, **options: (x, variables["stats"]))
    for model in (as_model(own), as_model(lambda key: variables["params"], lambda params, x: x)):
        assert model.init(KEY)["params"].dtype == jnp.float32
    assert as_model(own).init(KEY)["stats"]["seen"].dtype == jnp.int32


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
    nn = pytest.importorskip("flax.linen")
    with pytest.raises(ValueError, match="linen module needs a sample"):
        as_model(nn.Dense(3))


def of_functions(start):
    def apply(params, x):
        return jax.nn.relu(x @ params[0] + params[1]) @ params[2] + params[3]

    params = [start[layer][leaf] for layer in ("layer0", "layer1") for leaf in ("W", "b")]
    return (lambda key: params, apply), params


def kernels(start, first, last):
    """The layers of our network as those of flax."""
    layers = {first: start["layer0"], last: start["layer1"]}
    return {name: {"kernel": layer["W"], "bias": layer["b"]} for name, layer in layers.items()}


def linen_mlp(start):
    nn = pytest.importorskip("flax.linen")
    net = nn.Sequential([nn.Dense(7), nn.relu, nn.Dense(4)])
    return net, kernels(start, "layers_0", "layers_2")


def nnx_mlp(start):
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, key):
            rngs = nnx.Rngs(key)
            self.first, self.last = nnx.Linear(6, 7, rngs=rngs), nnx.Linear(7, 4, rngs=rngs)

        def __call__(self, x):
            return self.last(nnx.relu(self.first(x)))

    return Net(KEY), kernels(start, "first", "last")


def equinox_mlp(start):
    eqx = pytest.importorskip("equinox")
    module = eqx.nn.MLP(6, 4, 7, 1, key=KEY)
    where = lambda m: [getattr(m.layers[i], name) for i in (0, 1) for name in ("weight", "bias")]
    layers = [start[f"layer{i}"] for i in (0, 1)]
    values = [value for layer in layers for value in (layer["W"].T, layer["b"])]
    return module, eqx.partition(eqx.tree_at(where, module, values), eqx.is_inexact_array)[0]


@pytest.mark.long
@pytest.mark.parametrize("network", [of_functions, linen_mlp, nnx_mlp, equinox_mlp])
def test_another_s_network_has_our_losses_and_gradients(network, x64):
    ours = mlp([7])((6,), 4)
    start = ours.init(KEY)["params"]
    module, params = network(start)
    model = as_model(module, shape=(6,), classes=4)
    rows, mask = jnp.asarray(ROWS[:8]), jnp.arange(8) < 5
    expected, gradient = jax.jit(jax.value_and_grad(training(ours)))(start, rows, mask)
    loss, its = jax.jit(jax.value_and_grad(training(model)))(params, rows, mask)
    close(loss, expected, 1e-12)
    close(jax.tree.leaves(its), jax.tree.leaves(network(gradient)[1]), 1e-12)


@pytest.mark.long
def test_statistics_and_noise_of_linen():
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train: bool, mask):
            norm = nn.BatchNorm(use_running_average=not train, momentum=0.5)
            x = norm(nn.Dense(5)(x), mask=mask[:, None])
            return nn.Dense(4)(nn.Dropout(0.5, deterministic=not train)(x))

    model = as_model(Net(), shape=(6,))
    assert not model.mixes_rows
    with jax.enable_x64(True):
        variables = model.init(KEY)
        assert set(variables["stats"]) == {"batch_stats"}
        x, mask = jnp.asarray(ROWS[:8]), jnp.arange(8) < 5
        step = jax.jit(lambda x, key: model.apply(variables, x, mask=mask, key=key, train=True))
        outputs, stats = step(x, KEY)
        again, stats_again = step(x.at[5:].set(9.0), KEY)
        close((outputs[:5], stats), (again[:5], stats_again), 1e-12)  # padding changes nothing
        assert jnp.any(step(x, jax.random.key(9))[0] != outputs)
        moved = jax.tree.map(lambda a, b: bool(jnp.any(a != b)), stats, variables["stats"])
        assert all(jax.tree.leaves(moved))
        still = model.apply(variables, x, mask=mask, key=KEY, train=False)
        close(still[1], variables["stats"], 0)


@pytest.mark.long
def test_rows_mixed_without_a_mask_are_declared():
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train: bool):
            return nn.BatchNorm(use_running_average=not train)(nn.Dense(4)(x))

    assert as_model(Net(), shape=(6,)).mixes_rows
    clients = np.repeat([0, 1], [5, 4])
    data = fedsim.Arrays(np.zeros((9, 6)), np.arange(9) % 4, clients)
    written = {"name": "bn", "rounds": 1, "client": {"batch": 4, "epochs": 1}}
    refusal = "mixes the rows of a batch without looking at mask, and client 0"
    with pytest.raises(fedsim.ScenarioError, match=refusal):
        fedsim.run(written, data=data, model=Net())
    written |= {"client": {"batch": 4, "epochs": 1, "drop_last": True}, "rounds": 0}
    assert fedsim.run(written, data=data, model=Net()).status == "done"


@pytest.mark.long
def test_a_module_is_the_start_of_every_seed_and_a_function_draws_one():
    nnx = pytest.importorskip("flax.nnx")
    make = lambda key: nnx.Linear(6, 4, rngs=nnx.Rngs(key))
    for model, alike in ((as_model(make(KEY)), True), (as_model(make), False)):
        first, second = (model.init(jax.random.key(i))["params"]["kernel"] for i in (1, 2))
        assert bool(jnp.all(first == second)) is alike


@pytest.mark.long
def test_equinox_has_noise_only_while_training():
    eqx = pytest.importorskip("equinox")
    module = eqx.nn.Sequential([eqx.nn.Linear(6, 4, key=KEY), eqx.nn.Dropout(0.5)])
    model = as_model(module)
    variables, x = model.init(KEY), jnp.asarray(ROWS[:8], jnp.float32)
    apply = jax.jit(model.apply, static_argnames="train")
    noisy, plain = (apply(variables, x, key=KEY, train=train)[0] for train in (True, False))
    close(plain, jax.vmap(module[0])(x), 1e-6)
    assert 0 < jnp.sum(noisy == 0) < noisy.size
    assert len({tuple(row) for row in np.asarray(noisy == 0)}) > 1  # every row has its own


def test_state_of_equinox_without_its_start_is_refused():
    eqx = pytest.importorskip("equinox")

    class Net(eqx.Module):
        def __call__(self, x, stats):
            return x, stats

    with pytest.raises(TypeError, match="more than one sample"):
        as_model(Net())
