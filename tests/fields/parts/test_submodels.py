"""Clients that train parts of the model: against small networks of their own, cut out in NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import if_whole
from reference.scenarios import consecutive

import fedsim
from fedsim import tree
from fedsim.fields.parts import levels
from fedsim.fields.parts.submodels import Widths, part_of
from fedsim.models import cnn, lenet, mlp
from fedsim.types import Work

RNG = np.random.default_rng(3)
FEATURES, HIDDEN, CLASSES = 5, [5, 4], 3
SIZES = (8, 6, 0, 4, 2, 7)  # the third has no samples
X = RNG.normal(size=(sum(SIZES), FEATURES))
Y = RNG.integers(CLASSES, size=sum(SIZES))
OWNER = np.repeat(range(len(SIZES)), SIZES)
WIDTHS = [1.0, 0.5, 0.5, 0.25, 0.25, 0.5]
NARROW = [0.5, 0.5, 0.5, 0.25, 0.25, 0.5]  # units that nobody has
COHORTS = [[0, 1, 3], [5], [1, 3, 4], [0, 1, 2, 3, 4], [1, 4]]
BROKEN = 5  # a client whose messages are not finite: nobody is left of the second round
LR, STEPS, SERVER_LR = 0.3, 3, 0.5


def written(width: dict | None, **sections) -> dict:
    client = {"lr": LR, "batch": "full", "steps": STEPS}
    return {
        "name": "parts",
        "rounds": len(COHORTS),
        "data": {"clients": len(SIZES), "test": 0.0},
        "model": {"kind": "mlp", "hidden": HIDDEN},
        "cohort": {"kind": "listed", "rounds": COHORTS},
        "wire": ["nonfinite"],
        "fleet": {"malicious": [BROKEN]},
        "server": ["mean", {"kind": "sgd", "lr": SERVER_LR}],
        "evaluate": {"every": 1},
        "numerics": {"dtype": "float64"},
        **sections,
        "client": {**client, **sections.get("client", {}), **({"width": width} if width else {})},
    }


def run(width: dict | None, **sections) -> fedsim.Result:
    data = fedsim.Arrays(X, Y)
    return fedsim.run(written(width, **sections), data=data, partition=consecutive(SIZES))


def listed(widths=WIDTHS, window="first") -> dict:
    return {"kind": "listed", "widths": widths, "window": window}


# ----------------------------------------------------------------------------- the small networks


def units_of(width: float, r: int, window: str) -> list[np.ndarray]:
    """The units of every layer that a client has in round r, from 1: inputs, hidden, outputs."""
    chosen = [np.arange(FEATURES)]
    for K in HIDDEN:
        first = (r - 1) % K if window == "rolling" else 0
        chosen.append((first + np.arange(int(np.ceil(width * K)))) % K)
    return [*chosen, np.arange(CLASSES)]


def gradient(layers: list, x: np.ndarray, y: np.ndarray, scale=1.0, masked=False) -> list:
    """Backpropagation through ReLUs and the mean cross-entropy.

    `scale` is what hidden values are divided by (HeteroFL's scaler), and `masked` whether outputs
    of classes that are not in y are 0.
    """
    inputs = [x]
    for W, b in layers[:-1]:
        inputs.append(np.maximum((inputs[-1] @ W + b) / scale, 0))
    outputs = inputs[-1] @ layers[-1][0] + layers[-1][1]
    known = np.isin(np.arange(CLASSES), y) | (not masked)
    outputs = np.where(known, outputs, 0)
    probabilities = np.exp(outputs - outputs.max(1, keepdims=True))
    probabilities /= probabilities.sum(1, keepdims=True)
    delta = (probabilities - np.eye(CLASSES)[y]) / len(x) * known
    gradients = []
    for (W, _), h in zip(layers[::-1], inputs[::-1], strict=True):
        gradients.append((h.T @ delta, delta.sum(0)))
        delta = (delta @ W.T) * (h > 0) / scale
    return gradients[::-1]


def trained_alone(layers: list, client: int, **pieces) -> list:
    x, y = X[OWNER == client], Y[OWNER == client]
    for _ in range(STEPS):
        steps = gradient(layers, x, y, **pieces)
        layers = [(W - LR * dW, b - LR * db) for (W, b), (dW, db) in zip(layers, steps)]
    return layers


def by_hand(layers: list, widths: list[float], window: str, pieces: bool = False) -> list:
    """A loop over rounds and clients: cut out a small network, train it, put it back.

    With `pieces`, it has HeteroFL's scaler and masked loss, and of the outputs a client puts back
    those of its classes.
    """
    for r, cohort in enumerate(COHORTS, start=1):
        sums = [(np.zeros_like(W), np.zeros_like(b)) for W, b in layers]
        weights = [(np.zeros_like(W), np.zeros_like(b)) for W, b in layers]
        for client in cohort:
            if client == BROKEN or not SIZES[client]:
                continue
            units = units_of(widths[client], r, window)
            places = [(np.ix_(i, o), o) for i, o in itertools.pairwise(units)]
            small = [(W[w], b[o]) for (W, b), (w, o) in zip(layers, places)]
            more = {"scale": widths[client], "masked": True} if pieces else {}
            trained = trained_alone(small, client, **more)
            held = np.unique(Y[OWNER == client]) if pieces else np.arange(CLASSES)
            for number, after in enumerate(trained):
                counted = held if number == len(HIDDEN) else np.arange(len(units[number + 1]))
                for part in (0, 1):
                    has = np.zeros_like(after[part])
                    has[..., counted] = SIZES[client]
                    place = places[number][part]
                    sums[number][part][place] += has * (after[part] - small[number][part])
                    weights[number][part][place] += has
        layers = [
            tuple(
                leaf + SERVER_LR * np.where(n > 0, total / np.maximum(n, 1), 0)
                for leaf, total, n in zip(layer, total_of_layer, n_of_layer)
            )
            for layer, total_of_layer, n_of_layer in zip(layers, sums, weights)
        ]
    return layers


def layers_of(params) -> list:
    return [(np.asarray(p["W"]), np.asarray(p["b"])) for p in params.values()]


def check(widths: list[float], window: str, pieces: bool = False) -> fedsim.Result:
    more = {"scaler": True, "masked_loss": True} if pieces else {}
    result = run({**listed(widths, window), **more})
    start = layers_of(result.experiment.shared[0]["params"])
    for ours, theirs in zip(layers_of(result.model()), by_hand(start, widths, window, pieces)):
        for leaf, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(leaf, expected, rtol=1e-12, atol=1e-12)
    return result


def numbers_of(width: float) -> int:
    """How many parameters a small network has."""
    sizes = [len(units) for units in units_of(width, 1, "first")]
    return sum((i + 1) * o for i, o in itertools.pairwise(sizes))


@pytest.mark.long
def test_runs_are_those_of_small_networks_and_bytes_are_their_sizes():
    """FedRolex: some of the clients, one without samples, a round of nobody, half a server step."""
    result = check(WIDTHS, "rolling")
    sent = [4 * sum(numbers_of(WIDTHS[client]) for client in cohort) for cohort in COHORTS]
    for column in ("bytes_up", "bytes_down"):
        assert np.diff(result.rounds[column]).tolist() == sent


@pytest.mark.long
def test_heterofl_is_the_mean_over_those_who_have_a_number():
    """With its scaler and its masked loss; units that nobody has stay."""
    assert any(len(set(Y[OWNER == i])) < CLASSES for i in (0, 1, 3, 4))  # who lacks a class
    result = check(NARROW, "first", pieces=True)
    start = layers_of(result.experiment.shared[0]["params"])
    moved = layers_of(result.model())[1][0] != start[1][0]
    assert moved[:3].any() and not moved[3:].any()


# ------------------------------------------------------------------------------- what clients have


def work_of(level: int, r: int = 1) -> Work:
    known = dict.fromkeys(Work._fields, ())
    return Work(**{**known, "level": jnp.int32(level), "round": jnp.int32(r - 1)})


@if_whole
@pytest.mark.long
@pytest.mark.parametrize(("rolls", "r"), [(False, 1), (True, 6)])
def test_a_part_of_a_convolutional_network_is_the_small_network(rolls, r):
    """The hidden layer reads pixels of the channels that are there."""
    large = cnn(channels=[4, 6], kernel=3, hidden=8)((8, 8, 2), 3)
    small = cnn(channels=[2, 3], kernel=3, hidden=4)((8, 8, 2), 3)
    params = large.init(jax.random.key(0))["params"]
    params = jax.tree.map(lambda leaf: leaf + 0.05, params)
    has = part_of(Widths((1.0, 0.5), rolls), dict(large.hidden)).trains(params, work_of(1, r))

    def cut(leaf, has):
        """The numbers that are there; a rolled window begins where the small one does."""
        for axis in range(leaf.ndim):
            kept = np.asarray(has).any(axis=tuple({*range(leaf.ndim)} - {axis}))
            leaf = np.compress(kept, leaf, axis)
        return leaf

    small_params = jax.tree.map(cut, params, has)
    shapes = jax.eval_shape(small.init, jax.random.key(0))["params"]
    shape_of = lambda leaf: leaf.shape
    assert jax.tree.map(shape_of, small_params) == jax.tree.map(shape_of, shapes)
    masked = jax.tree.map(lambda leaf, has: jnp.where(has, leaf, 0), params, has)
    x = jax.random.normal(jax.random.key(1), (5, 8, 8, 2))
    given, _ = large.apply({"params": masked, "stats": {}}, x)
    expected, _ = small.apply({"params": small_params, "stats": {}}, x)
    np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (mlp([5, 4]), (5,)),
        pytest.param(cnn([3], 3, [7, 2]), (6, 6), marks=pytest.mark.long),
        pytest.param(lenet(), (12, 12, 3), marks=pytest.mark.long),
    ],
    ids=["mlp", "cnn", "lenet"],
)
def test_what_a_client_keeps_is_what_it_trains(model, shape):
    """In every round; all of it at width 1; inputs and outputs are whole."""
    made = model(shape, 3)
    params = jax.eval_shape(made.init, jax.random.key(0))["params"]
    part = part_of(Widths((1.0, 0.4), rolls=True), dict(made.hidden))
    kept = jax.tree.leaves(part.kept(params))
    for level in (0, 1):
        for r in (1, 4):
            has = jax.tree.leaves(part.trains(params, work_of(level, r)))
            assert [int(leaf.sum()) for leaf in has] == [leaf[level] for leaf in kept]
    sizes = [leaf.size for leaf in jax.tree.leaves(params)]
    assert [leaf[0] for leaf in kept] == sizes
    last = dict(zip(tree.leaf_names(params), kept, strict=True))[made.hidden[-1][0]]
    assert last[1] == 3  # the biases of the outputs
    assert sum(leaf[1] for leaf in kept) < sum(sizes) / 2


def test_under_a_masked_loss_a_client_trains_the_outputs_of_its_classes():
    made = mlp([4])((5,), 3)
    params = jax.eval_shape(made.init, jax.random.key(0))["params"]
    part = part_of(Widths((0.5,), masked_loss=True), dict(made.hidden))
    has = part.trains(params, work_of(0)._replace(labels=jnp.array([3.0, 0, 1])))
    np.testing.assert_array_equal(has["layer1"]["b"], [True, False, True])
    np.testing.assert_array_equal(has["layer1"]["W"].sum(1), [2, 2, 0, 0])
    assert np.asarray(has["layer0"]["W"])[:, :2].all()


def test_who_has_which_width():
    seconds = np.array([2.0, 1, 3, 3, 1, 4, 9])
    rng = np.random.default_rng(0)
    assert levels.sizes_of([0.25, 1, 0.5, 1]) == (1, 0.5, 0.25)
    # The order is 1, 4, 0, 2, 3, 5, 6 with 3, 2 and 2 clients in a group.
    assert levels.by_speed([0.25, 1, 0.5])(seconds, rng).tolist() == [0, 0, 1, 1, 0, 2, 2]
    assert levels.listed([0.25, 1, 1])(seconds[:3], rng).tolist() == [1, 0, 0]
    drawn = levels.uniform([1, 0.5, 0.5])(np.ones(3000), rng)
    assert abs(drawn.mean() - 2 / 3) < 0.05


@pytest.mark.long
def test_seconds_and_bytes_follow_and_the_table_says_the_width():
    """A step takes the share of the parameters; a message, that of its bytes."""
    fleet = {
        "speed": {"kind": "classes", "seconds": [1.0, 2.0]},
        "links": {"kind": "constant", "up": 10.0, "down": 20.0},
        "malicious": [BROKEN],
    }
    width = {"kind": "by_speed", "widths": [0.25, 1.0]}
    result = run(width, fleet=fleet, rounds=1, cohort="all")
    plan = result.experiment.plans[0]
    speed = run(None, fleet=fleet, rounds=0, cohort="all").experiment.plans[0].machines.speed.step
    share = np.where(plan.level == 0, 1, numbers_of(0.25) / numbers_of(1.0))
    assert set(plan.level) == {0, 1}
    assert (plan.level[speed == 1] == 0).sum() == min(3, (speed == 1).sum())
    steps = np.where(np.array(SIZES) > 0, STEPS, 0)
    expected = 0.15 * 4 * numbers_of(1.0) * share + steps * speed * share
    np.testing.assert_allclose(plan.seconds, expected, rtol=1e-12)
    assert result.clients["width"].tolist() == [[1.0, 0.25][level] for level in plan.level]
