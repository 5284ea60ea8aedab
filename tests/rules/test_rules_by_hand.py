"""Every rule by hand or in NumPy, with absent clients and counts; its bounds, defaults and ties."""

import inspect
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

import fedsim
from fedsim.assemble.wire import sums_rows
from fedsim.compose import FAMILIES
from fedsim.fleet import selection
from fedsim.rules import sorting
from fedsim.rules.divide_and_conquer import drawn
from fedsim.rules.krum import krum_scores
from fedsim.rules.sorting import ascending, middle
from fedsim.rules.subsets import MAX_SUBSETS, most_rows
from fedsim.types import Context, by_samples, reported
from tests.cohorts import cohort_of

pytestmark = pytest.mark.usefixtures("quickly_compiled")

K, D, N = 6, 3, 11
RNG = np.random.default_rng(24)
DELTA = RNG.normal(size=(K, D)).astype(np.float32)
WEIGHT = np.array([3.0, 0.0, 5.0, 2.0, 7.0, 4.0])
COUNT = np.array([1.0, 2.0, 3.0, 1.0, 1.0, 2.0])
LOSS = np.array([0.3, 9.0, 1.2, 0.7, 2.0, 0.1])
EFFORT = np.array([2.0, 3.0, 5.0, 4.0, 1.0, 0.5])
IDS = np.array([0, 2, 3, 5, 7, 9])
HERE = (WEIGHT > 0) * COUNT
BY_SAMPLES = WEIGHT * COUNT


def played(kind: str, rounds: int = 1, samples: float = 0.0, client_lr: float = 0.5, **link):
    """Run a rule alone for rounds of the same updates -> the last step, the server's state."""
    rule = FAMILIES["rule"][kind](**link)
    f = lambda values: jnp.asarray(values, jnp.float32)
    updates = cohort_of(
        {"w": f(DELTA)},
        f(WEIGHT) > 0,
        f(WEIGHT),
        count=f(COUNT),
        loss=f(LOSS),
        steps=f(EFFORT),
        effort=f(EFFORT),
    )
    shared = {"params": {"w": jnp.ones(D)}}
    context = Context(
        jax.random.key(0),
        jnp.int32(1),
        f(N),
        f(client_lr),
        shared,
        jnp.asarray(IDS),
        jnp.zeros(K, bool),
        None,
        f(samples),
    )
    carry, step, apply = rule.init(shared["params"], jnp.arange(12) < N), None, jax.jit(rule.apply)
    for _ in range(rounds):
        step, carry, _ = apply(updates, carry, context)
    return np.asarray(step["w"]), carry


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=3e-5, atol=1e-6)


def weighted(weights):
    return weights @ DELTA / weights.sum()


@pytest.mark.parametrize(
    ("weights", "w"), [("samples", BY_SAMPLES), ("uniform", HERE), ("steps", HERE * EFFORT)]
)
def test_mean(weights, w):
    close(played("mean", weights=weights)[0], weighted(w))


def test_nova_divides_by_the_effort_and_multiplies_by_the_mean_one():
    effort = (BY_SAMPLES @ EFFORT) / BY_SAMPLES.sum()
    close(played("nova")[0], effort * (BY_SAMPLES / EFFORT) @ DELTA / BY_SAMPLES.sum())


def test_nova_of_weights_below_one_is_nova_of_their_multiples():
    step = lambda w: fedsim.aggregate("nova", DELTA, weights=w)
    assert (
        np.allclose(step(BY_SAMPLES / 32), step(BY_SAMPLES), rtol=1e-6)
        and np.abs(step(BY_SAMPLES)).max() > 0
    )


def test_nova_takes_no_step_from_clients_without_effort():
    samples, count, loss, steps, effort = (
        jnp.asarray(v, jnp.float32) for v in ([2, 2], [1, 1], [0, 0], [4, 0], [4, 0])
    )
    updates = cohort_of(
        {"w": jnp.ones((2, 1))}, samples=samples, count=count, loss=loss, steps=steps, effort=effort
    )
    context = Context(
        jax.random.key(0),
        *(jnp.float32(v) for v in (1, 2, 0.5)),
        {},
        jnp.arange(2),
        jnp.zeros(2, bool),
        None,
        4.0,
    )
    step, _, _ = FAMILIES["rule"]["nova"]().apply(updates, (), context)
    assert np.asarray(step["w"]) == pytest.approx((2 / 4) * (2 * 4 + 2 * 0) / 4 / 4)


def test_fedexp_steps_as_far_as_the_updates_disagree():
    mean, squares = weighted(HERE), HERE @ (DELTA**2).sum(1)
    wanted = squares / (2 * HERE.sum() * (mean @ mean + 0.01))
    assert wanted > 1
    close(played("fedexp", eps=0.01)[0], wanted * mean)
    close(played("fedexp", eps=100.0)[0], mean)
    close(played("fedexp")[1].before["w"], np.ones(D))
    assert played("fedexp", average=False)[1] == ()


def test_means_over_the_population():
    close(played("mean_over_all")[0], HERE @ DELTA / N)
    m, total = HERE.sum(), BY_SAMPLES @ DELTA
    for samples in (200.0, 1.0):
        close(played("horvitz_thompson", samples=samples)[0], N / m * total / samples)
    close(played("horvitz_thompson")[0], N / m * total / (N * BY_SAMPLES.sum() / m))


def test_dyn_remembers_the_drift():
    h = np.zeros(D)
    for rounds in (1, 2):
        h = h - 0.5 / N * HERE @ DELTA
        step, carry = played("dyn", rounds, alpha=0.5)
        close(step, weighted(HERE) - h / 0.5)
        close(carry.h["w"], h)


@pytest.mark.parametrize(("q", "L", "lr"), [(2.0, None, 0.5), (0.5, 3.0, 0.5), (1.0, 3.0, 0.0)])
def test_q_fair_weighs_by_losses(q, L, lr):
    smooth = 1 / lr if L is None else L
    h = q * LOSS ** (q - 1) * ((smooth * DELTA) ** 2).sum(1) + smooth * LOSS**q
    close(
        played("q_fair", q=q, L=L, client_lr=lr)[0],
        (HERE * LOSS**q) @ (smooth * DELTA) / (HERE @ h),
    )


def test_q_fair_without_a_learning_rate_takes_no_step():
    close(played("q_fair", q=1.0, client_lr=0.0)[0], np.zeros(D))


def test_agnostic_climbs_and_projects():
    weights, steps = np.where(np.arange(12) < N, 1 / N, 0), []
    for _ in range(2):
        w = HERE * weights[IDS]
        steps.append(weighted(w))
        weights[IDS] += np.where(HERE > 0, 0.4 * (LOSS - HERE @ LOSS / HERE.sum()), 0)
        falling = np.sort(weights)[::-1]
        over = (np.cumsum(falling) - 1) / np.arange(1, 13)
        weights = np.maximum(weights - over[np.flatnonzero(falling > over)[-1]], 0)
    step, carry = played("agnostic", 2, lr=0.4)
    close(step, steps[-1])
    close(carry.lambda_, weights)
    assert (weights == 0).any() and weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("iterations", [None, 3])
@pytest.mark.parametrize("weights", [[1, 1, 1, 1], [3, 3, 2, 2]])
def test_the_geometric_median_of_rows_far_apart_is_weiszfelds_in_float64(iterations, weights):
    link = {
        "kind": "geometric_median",
        "smoothing": 1e-6,
        "iterations": iterations,
        "weights": "samples",
    }
    rows = np.eye(4)
    shares = np.array(weights) / sum(weights)
    point = shares @ rows
    for _ in range(iterations or 500):
        beta = shares / np.maximum(1e-6, np.linalg.norm(rows - point, axis=1))
        point = beta @ rows / beta.sum()
    close(fedsim.aggregate(link, rows.astype(np.float32), weights=weights), point)


def scores_of_krum(neighbours):
    there = np.flatnonzero(WEIGHT)
    apart = ((DELTA[there][:, None] - DELTA[there][None]) ** 2).sum(2)
    return there, np.sort(apart, 1)[:, 1 : 1 + neighbours].sum(1)


@pytest.mark.parametrize(
    ("link", "neighbours"),
    [
        ({"f": 1}, 2),
        pytest.param({"f": 1, "neighbours": 3}, 3, marks=pytest.mark.long),
        pytest.param({"f": 0}, 3, marks=pytest.mark.long),
    ],
)
def test_krum_is_its_definition(link, neighbours):
    there, scores = scores_of_krum(neighbours)
    close(played("krum", **link)[0], DELTA[there[scores.argmin()]])
    order = there[scores.argsort(kind="stable")]
    close(played("multi_krum", **link)[0], DELTA[order[: len(there) - link["f"]]].mean(0))
    close(played("multi_krum", **link, select=2)[0], DELTA[order[:2]].mean(0))


@pytest.mark.parametrize(
    ("kind", "link"), [("krum", {"f": 1}), ("multi_krum", {"f": 1}), ("median", {})]
)
def test_of_messages_that_are_all_absent_nothing_is_taken(kind, link, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "WEIGHT", np.zeros(K))
    np.testing.assert_array_equal(played(kind, **link)[0], np.zeros(D))


def test_rules_say_how_many_they_need():
    made = {name: FAMILIES["rule"][name] for name in ("krum", "multi_krum", "trimmed_mean", "mean")}
    assert made["krum"](2).least == 7 and made["krum"](1, neighbours=8).least == 9
    assert made["multi_krum"](2).least == 7 and made["multi_krum"](1, select=6).least == 6
    assert made["multi_krum"](1, neighbours=8).least == 9
    assert made["trimmed_mean"](3).least == 7 and made["mean"]().least == 1


@pytest.mark.parametrize("m", range(1, 7))
def test_the_median_of_the_first_values_of_ordered_columns(m):
    ordered = np.sort(DELTA, axis=0)
    close(middle(jnp.asarray(ordered), jnp.int32(m)), np.median(ordered[:m], axis=0))


@pytest.mark.quick(2)
@pytest.mark.parametrize("rows", [3, 8, 20, 40])
def test_order_statistics_of_columns_in_ascending_order(rows):
    columns = np.random.default_rng(rows).normal(size=(rows, 7)).astype(np.float32)
    ordered = np.asarray(ascending(jnp.asarray(columns)))
    np.testing.assert_array_equal(ordered[:rows], np.sort(columns, axis=0))
    assert np.isposinf(ordered[rows:]).all()


def test_order_statistics_of_those_who_report():
    there = DELTA[WEIGHT > 0]
    close(played("median")[0], np.median(there, 0))
    close(played("trimmed_mean", trim=2)[0], np.sort(there, 0)[2:3].mean(0))
    close(played("trimmed_mean", trim=1)[0], np.sort(there, 0)[1:4].mean(0))


def test_clipping_around_the_last_aggregate():
    there, v = DELTA[WEIGHT > 0].astype(float), np.zeros(D)
    for _ in range(2 * 3):
        away = there - v
        v = v + (away * np.minimum(1, 0.7 / np.linalg.norm(away, axis=1))[:, None]).mean(0)
    step, carry = played("centered_clipping", 2, radius=0.7, iterations=3)
    close(step, v)
    close(carry["w"], v)


@pytest.mark.parametrize("smoothing", [1e-3, pytest.param(1.3, marks=pytest.mark.long)])
def test_rfa_takes_its_three_steps(smoothing):
    w = WEIGHT / WEIGHT.sum()
    v = w @ DELTA
    for _ in range(3):
        beta = w / np.maximum(smoothing, np.linalg.norm(DELTA - v, axis=1))
        v = beta @ DELTA / beta.sum()
    close(played("rfa", smoothing=smoothing)[0], v)
    assert (
        played("geometric_median", smoothing=smoothing, iterations=3, weights="samples")[0]
        == played("rfa", smoothing=smoothing)[0]
    ).all()


GRADIENTS = [np.array([0.5, -2.0, 0.0]), np.array([0.1, 1.0, -3.0]), np.array([-0.7, 0.2, 0.4])]


def stepped(kind, **link):
    optimizer = FAMILIES["optimizer"][kind](**link)
    params = jnp.zeros(3)
    state, moves = optimizer.init(params), []
    for g in GRADIENTS:
        move, state = optimizer.update(jnp.asarray(g, jnp.float32), state, params)
        moves.append(np.asarray(move))
    return np.stack(moves)


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_of_the_server(nesterov):
    v, wanted = np.zeros(3), []
    for g in GRADIENTS:
        v = 0.8 * v + 0.7 * g
        wanted.append(-0.3 * (g + 0.8 * v if nesterov else v))
    close(stepped("fedavgm", lr=0.3, momentum=0.8, dampening=0.3, nesterov=nesterov), wanted)


@pytest.mark.parametrize("v0", [None, 0.25])
@pytest.mark.parametrize("kind", ["fedadagrad", "fedadam", "fedyogi"])
def test_adaptive_optimisers_of_the_server(kind, v0):
    grow = {
        "fedadagrad": lambda v, g2: v + g2,
        "fedadam": lambda v, g2: 0.9 * v + 0.1 * g2,
        "fedyogi": lambda v, g2: v - 0.1 * g2 * np.sign(v - g2),
    }[kind]
    m, v, wanted = np.zeros(3), np.full(3, 0.04 if v0 is None else v0), []
    for g in GRADIENTS:
        m, v = 0.6 * m - 0.4 * g, grow(v, g * g)
        wanted.append(0.3 * m / (np.sqrt(v) + 0.2))
    b2 = {} if kind == "fedadagrad" else {"b2": 0.9}
    close(stepped(kind, lr=0.3, b1=0.6, tau=0.2, v0=v0, **b2), wanted)
    assert FAMILIES["optimizer"][kind]().init(jnp.zeros(1)).v[0] == np.float32(1e-6)


DEFAULTS = {
    "rule": {
        "fedexp": {"eps": 1e-3, "average": True}, "dyn": {"alpha": 0.1},
        "q_fair": {"q": 1.0, "L": None}, "agnostic": {"lr": 0.1},
        "geometric_median": {"smoothing": 0.0, "iterations": None, "weights": "uniform"},
        "rfa": {"smoothing": 1e-6, "iterations": 3},
        "centered_clipping": {"iterations": 1},
        "mean": {"weights": "samples", "denominator": "actual"},
        "trimmed_mean": {"trim": 1}, "krum": {"neighbours": None},
        "multi_krum": {"select": None, "neighbours": None},
    },
    "cohort": {
        "uniform": {"size": 10}, "poisson": {"rate": 0.1},
        "weighted": {"size": 10}, "cyclic": {"size": 10},
    },
    "optimizer": {
        "fedavgm": {"lr": 1.0, "momentum": 0.9, "dampening": 0.0, "nesterov": False},
        "fedadagrad": {"lr": 0.1, "b1": 0.0, "tau": 1e-3, "v0": None},
        "fedadam": {"lr": 0.1, "b1": 0.9, "b2": 0.99, "tau": 1e-3, "v0": None},
        "fedyogi": {"lr": 0.1, "b1": 0.9, "b2": 0.99, "tau": 1e-3, "v0": None},
    },
}  # fmt: skip


@pytest.mark.parametrize("family", DEFAULTS)
def test_defaults_of_the_papers_of_the_server_and_of_cohorts(family):
    for name, wanted in DEFAULTS[family].items():
        parameters = inspect.signature(FAMILIES[family][name]).parameters.values()
        assert {p.name: p.default for p in parameters if p.default is not p.empty} == wanted, name


FROM_0, ABOVE_0, FROM_1, DECAY = (
    ((0,), (-0.5,)),
    ((0.5,), (0.0,)),
    ((1,), (0,)),
    ((0.0, 0.5), (-0.1, 1.0)),
)
ABOVE_0_TO_1, SHARE = ((0.1, 1.0), (0.0, 1.1)), ((0.0, 1.0), (-0.1, 1.1))
ITERATIONS = ((1, 100_000), (0, 100_001))
# Of every parameter: values that are accepted, and some that are not.
ALLOWED: dict[str, dict[str, dict[str, tuple]]] = {
    "rule": {
        "agnostic": {"lr": FROM_0},
        "centered_clipping": {"radius": ABOVE_0, "iterations": ITERATIONS},
        "dyn": {"alpha": ABOVE_0},
        "fedexp": {"eps": FROM_0},
        "geometric_median": {"smoothing": FROM_0, "iterations": ITERATIONS},
        "rfa": {"smoothing": ABOVE_0, "iterations": ITERATIONS},
        "krum": {"f": ((0,), (-1,)), "neighbours": FROM_1},
        "multi_krum": {"f": ((0,), (-1,)), "select": FROM_1, "neighbours": FROM_1},
        "q_fair": {"q": FROM_0, "L": ABOVE_0},
        "trimmed_mean": {"trim": ((0,), (-1,))},
    },
    "optimizer": {
        "fedavgm": {"lr": FROM_0, "momentum": DECAY, "dampening": DECAY},
        "fedadagrad": {"lr": FROM_0, "b1": DECAY, "tau": ABOVE_0, "v0": FROM_0},
        "fedadam": {"lr": FROM_0, "b1": DECAY, "b2": DECAY, "tau": ABOVE_0, "v0": FROM_0},
        "fedyogi": {"lr": FROM_0, "b1": DECAY, "b2": DECAY, "tau": ABOVE_0, "v0": FROM_0},
    },
    "cohort": {
        "uniform": {"size": FROM_1}, "weighted": {"size": FROM_1}, "cyclic": {"size": FROM_1},
        "poisson": {"rate": ((0.5, 1.0), (0.0, 1.5))},
        "listed": {"rounds": (([[0]], [[0, 0], [1]]), ([], [[]], [[-1]]))},
        "power_of_choice": {"size": FROM_1, "candidates": FROM_1},
        "divfl": {"size": FROM_1, "candidates": FROM_1},
        "clustered": {"size": FROM_1}, "round_robin_by_class": {"size": FROM_1},
        "least_participated": {"size": FROM_1},
        "separated": {"size": FROM_1, "gap": FROM_1, "most": FROM_1},
        "cyclic_poisson": {"groups": FROM_1, "rate": ABOVE_0_TO_1},
        "importance": {"size": FROM_1, "floor": ABOVE_0_TO_1},
        "fedcs": {"seconds": ABOVE_0, "candidates": FROM_1, "size": FROM_1},
        "tifl": {"size": FROM_1, "tiers": FROM_1, "weights": (([0.0], [1.0, 0.0]), ([], [-0.1]))},
        "oort": {
            "size": FROM_1, "explore": SHARE, "decay": ABOVE_0_TO_1, "least": SHARE,
            "preferred": ABOVE_0_TO_1, "alpha": FROM_0,
            "cutoff": ABOVE_0_TO_1, "clip": ABOVE_0_TO_1, "most": FROM_1,
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("family", ALLOWED)
def test_what_is_allowed_beside_defaults_of_parameters(family):
    for kind, parameters in ALLOWED[family].items():
        signature = inspect.signature(FAMILIES[family][kind])
        for name, (allowed, refused) in parameters.items():
            adapter: Any = TypeAdapter(signature.parameters[name].annotation)
            for value in allowed:
                assert adapter.validate_python(value) == value, (kind, name)
            for value in refused:
                with pytest.raises(ValidationError):
                    adapter.validate_python(value)


def test_of_power_of_choice_every_candidate_is_another():
    cohort = selection.power_of_choice(4, 4)
    population = selection.Population(np.arange(4), np.array([1, 1, 1, 40]), np.full(4, np.nan))
    for seed in range(5):
        assert cohort.draw(population, 1, np.random.default_rng(seed)).tolist() == [0, 1, 2, 3]


def test_defaults_of_rules_weigh_by_what_they_say():
    made = FAMILIES["rule"]
    assert made["geometric_median"]().weights is reported and made["rfa"]().weights is by_samples
    assert made["geometric_median"](weights="samples").weights is by_samples
    assert (
        made["geometric_median"]().bound and made["geometric_median"](smoothing=0.1).bound is None
    )
    assert (
        made["geometric_median"](iterations=5).bound is None
        and made["krum"](1, neighbours=2).bound is None
    )


def test_defaults_of_rules_that_are_linear_and_of_their_least():
    made = FAMILIES["rule"]
    assert all(
        sums_rows(made[kind]()) for kind in ("mean", "mean_over_all", "horvitz_thompson")
    ) and not sums_rows(made["median"]())
    expected = made["mean"](denominator="expected")
    assert (
        (made["mean"]().least, expected.least) == (1, 0)
        and expected.needs == {"expected"}
        and not made["mean"]().needs
    )
    updates, one = cohort_of({"w": jnp.array([[2.0], [4.0]])}), jnp.float32(1)
    context = Context(
        jax.random.key(0), jnp.int32(1), one, one, {}, jnp.arange(2), jnp.zeros(2, bool), None, 4.0
    )
    context = context._replace(expected=4 * one, expected_samples=8 * one)
    for weights, wanted in (("samples", 6 / 8), ("uniform", 6 / 4)):
        step, _, _ = made["mean"](weights=weights, denominator="expected").apply(
            updates, (), context
        )
        assert step["w"].tolist() == [wanted]
    with pytest.raises(ValueError, match="denominator: actual"):
        made["mean"](weights="steps", denominator="expected")


def test_divide_and_conquer_draws_different_coordinates_for_every_iteration():
    rows = {"a": jnp.zeros((3, 4)), "b": jnp.zeros((3, 2, 3))}
    some = np.asarray(drawn(jax.random.key(0), rows, 3, 5, 4))
    assert (
        some.shape == (5, 4)
        and all(len(set(chosen)) == 4 for chosen in some.tolist())
        and len(set(map(tuple, some))) > 1
    )
    assert (
        set(some.ravel()) <= set(range(10))
        and drawn(jax.random.key(0), rows, 3, 2, 99).tolist() == [[*range(10)]] * 2
    )
    assert most_rows(0) is None and most_rows(1) == MAX_SUBSETS and most_rows(5) == 31


def test_how_often_a_round_draws_each_client():
    population = selection.Population(np.array([0, 2, 5]), np.array([1, 1, 2]))
    share = lambda cohort: np.broadcast_to(cohort.share(population), 3).tolist()
    assert share(selection.all()) == [1.0] * 3 and share(selection.poisson(0.25)) == [0.25] * 3
    assert share(selection.uniform(2)) == share(selection.cyclic(2)) == [2 / 3] * 3
    assert share(selection.weighted(3)) == [0.75, 0.75, 1.5]
    assert share(selection.listed([[0, 0], [2, 0]])) == [1.5, 0.5, 0.0] and share(
        selection.listed([[5]])
    ) == [0, 0, 1]
    assert share(selection.listed([[0]])) == [1, 0, 0]
    assert selection.power_of_choice(2, 3).share is None and selection.power_of_choice(
        2, 3
    ).needs == {"loss"}
    assert selection.power_of_choice(2, 3).nominal(9) == 2 and selection.power_of_choice(2, 2)
    with pytest.raises(ValueError, match="2 candidates for a cohort of 3"):
        selection.power_of_choice(3, 2)


def test_of_power_of_choice_unknown_losses_come_first_and_infinite_ones_last():
    population = selection.Population(
        np.arange(5, 10), np.ones(5), np.array([0.5, np.inf, 2.0, np.nan, 2.0])
    )
    chosen = [
        selection.power_of_choice(k, 5).draw(population, 1, np.random.default_rng(0)).tolist()
        for k in range(1, 6)
    ]
    assert chosen[4] == [8, 7, 9, 5, 6] and all(part == chosen[4][: len(part)] for part in chosen)


def test_q_fair_looks_at_no_loss_of_who_is_absent():
    loss, rows = [0.5, float("nan")], [[1.0], [5.0]]
    alone = fedsim.aggregate({"kind": "q_fair", "q": 1.0}, rows, weights=[1, 0], loss=[0.5, 0.5])
    assert (
        fedsim.aggregate({"kind": "q_fair", "q": 1.0}, rows, weights=[1, 0], loss=loss)
        == alone
        != 0
    )


def test_fedexp_of_updates_that_cancel_stays_where_it_is():
    assert fedsim.aggregate({"kind": "fedexp", "eps": 0.0}, [[1.0], [-1.0]]).tolist() == [0.0]


def test_horvitz_thompson_of_one_message():
    for samples in (1.0, 5.0):
        assert fedsim.aggregate(
            "horvitz_thompson", [[2.0], [4.0]], weights=[samples, 0.0]
        ).tolist() == [2.0]


def test_krum_measures_all_others_where_there_are_fewer_than_neighbours():
    rows = {"w": jnp.array([[9.0], [0.0], [1.0], [3.0], [50.0]])}
    updates = cohort_of(rows, jnp.array([True, True, True, True, False]))
    wanted = [81 + 64 + 36, 81 + 1 + 9, 64 + 1 + 4, 36 + 9 + 4, np.inf]
    for neighbours in (3, 9):
        np.testing.assert_allclose(
            jax.jit(lambda u, k=neighbours: krum_scores(u, 0, k))(updates), wanted, rtol=1e-6
        )


def test_multi_krum_of_equal_rows_takes_the_lowest_indices():
    first = jnp.arange(64) < 5
    context = Context(
        jax.random.key(0),
        jnp.int32(1),
        jnp.float32(64),
        jnp.float32(0.5),
        {},
        jnp.arange(64),
        first,
        None,
        64.0,
    )
    _, _, info = jax.jit(FAMILIES["rule"]["multi_krum"](1, select=5).apply)(
        cohort_of({"w": jnp.zeros((64, 1))}), (), context
    )
    assert info["malicious_kept"] == 5 and info["recall"] == 0.0


def test_agnostic_starts_with_equal_weights_of_those_who_can_take_part():
    present = jnp.array([True, False, True, True, True])
    rule = FAMILIES["rule"]["agnostic"]()
    assert rule.init({"w": jnp.ones(2)}, present).lambda_.tolist() == [0.25, 0, 0.25, 0.25, 0.25]
    assert rule.init({"w": jnp.ones(2)}, present & False).lambda_.tolist() == [0] * 5


@pytest.mark.parametrize("unit", [1.0, 2.0**20])
@pytest.mark.parametrize(
    ("rows", "weights", "at"),
    [
        (
            [
                [0, 0, 0],
                [0.4992440640926361, 0.8664613962173462, 0],
                [0.4992440640926361, -0.8664613962173462, 0],
            ],
            [1, 1, 1],
            0,
        ),
        ([[-2, 1, 2], [-3, -1, 3], [-2, 0, 3]], [2, 3, 1], 1),
    ],
)
def test_a_geometric_median_that_is_a_row_is_that_row_to_the_bit(rows, weights, at, unit):
    """A row that sees two others at an angle just above 120°, and one with half of the weight."""
    stacked = unit * np.float32(rows)
    found = fedsim.aggregate(
        {"kind": "geometric_median", "weights": "samples"}, stacked, weights=weights
    )
    assert found.tolist() == stacked[at].tolist()


@pytest.mark.long
def test_a_geometric_median_near_a_row_is_not_jumped_past_again_and_again():
    rows = np.float32([[-1, 0], [2, 0], [3, -2], [-2, -2], [-3, -3], [-2, -1], [2, -1]])
    median = fedsim.aggregate("geometric_median", rows)
    # by Weiszfeld's iteration in float64
    np.testing.assert_allclose(median, [-0.6620109, -1.09052399], atol=5e-5)


@pytest.mark.long
def test_order_statistics_of_leaves_that_take_several_blocks_and_one(monkeypatch):
    """The last block of a wide leaf overlaps the one before; the last leaf is narrower."""
    rng = np.random.default_rng(3)
    stacked = [jnp.asarray(rng.normal(size=(2, D)), jnp.float32) for D in (2**18 + 77, 140_001, 5)]
    stacked[2] = jnp.float32([[0, -1, -0.0, 2, jnp.nan], [0, 1, 3, -2, 4]])
    stacked += [jnp.float16([[3, -4, 0], [2, 7, 0]]), jnp.zeros((2, 0))]
    ends = lambda ranks: ranks.at(jnp.int32(0)) + ranks.sum(1, jnp.int32(1))
    for longest in (128, 1):  # by a network, and by layers as for many rows
        monkeypatch.setattr(sorting, "NETWORK", longest)
        monkeypatch.setattr(sorting, "FEW", longest)
        both = jax.jit(lambda stack: sorting.by_sorted_columns(ends, stack, jnp.ones(2, bool)))(
            stacked
        )
        for leaf, row in zip(stacked, both, strict=True):
            there = jnp.where(jnp.isnan(leaf), jnp.inf, leaf)
            np.testing.assert_array_equal(
                row, there[0] + there[1] if leaf.size else leaf[0], strict=True
            )


@pytest.mark.parametrize("shapes", [[(3,), (2, 2), ()], [(), (300_000,), (2, 2), (140_001,), (3,)]])
def test_narrow_leaves_that_stand_together_come_back_as_they_were(shapes):
    rng = np.random.default_rng(4)
    stacked = [jnp.asarray(rng.normal(size=(3, *shape)), jnp.float32) for shape in shapes]
    middle = lambda ranks: ranks.at(jnp.int32(1))
    medians = jax.jit(lambda stack: sorting.by_sorted_columns(middle, stack, jnp.ones(3, bool)))(
        stacked
    )
    for leaf, row in zip(stacked, medians, strict=True):
        np.testing.assert_array_equal(row, np.median(leaf, axis=0), strict=True)
