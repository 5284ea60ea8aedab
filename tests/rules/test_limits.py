"""Rules where hardly anything is left: no effort, no loss, one message; how few are enough."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim.compose import FAMILIES
from fedsim.rules.sorting import by_sorted_columns
from tests.cohorts import cohort_of, context_of


def test_nova_takes_no_step_from_clients_without_effort():
    worked = jnp.asarray([4.0, 0.0])
    samples = jnp.full(2, 2.0)
    updates = cohort_of({"w": jnp.ones((2, 1))}, samples=samples, steps=worked, effort=worked)
    step, _, _ = jax.jit(FAMILIES["rule"]["nova"]().apply)(updates, (), context_of(2))
    assert np.asarray(step["w"]) == pytest.approx((2 / 4) * (2 * 4 + 2 * 0) / 4 / 4)


ONE_STEP = {
    "the loss of who is absent is not read": (
        {"kind": "q_fair", "q": 1.0, "L": 1.0},
        {"weights": [1, 0], "loss": [1.0, float("nan")]},
        1 / (1 + 1),
    ),
    "updates that cancel": ({"kind": "fedexp", "eps": 0.0}, {}, 0.0),
    "a step is not shortened": ({"kind": "fedexp", "eps": 0.0}, {}, 3.0),
    "squares are added": (["mean", {"kind": "fedadagrad", "lr": 1.0, "tau": 4.0}], {}, 3 / (5 + 4)),
    "of two clients one reports": ("horvitz_thompson", {"weights": [5, 0]}, 1.0),
    "h of all clients": ({"kind": "dyn", "alpha": 0.5}, {"weights": [5, 0]}, 1 + 1 / 2),
    "weights below one": ("nova", {"weights": [0.1, 0.3]}, 4.0),
    "its own centre": ({"kind": "centered_clipping", "radius": 9.0}, {"weights": [5, 0]}, 1.0),
    "one iteration": ({"kind": "centered_clipping", "radius": 1.0}, {}, 1.0),
    "as large as v": (["mean", {"kind": "fedyogi", "lr": 1.0, "tau": 1.0, "v0": 9.0}], {}, 0.3 / 4),
    "weights decay": (
        ["mean", {"kind": "sgd", "lr": 0.5, "weight_decay": 0.1}],
        {"params": [2.0]},
        0.5 * (3 - 0.1 * 2),
    ),
    "Nesterov looks ahead": (
        ["mean", {"kind": "fedavgm", "lr": 0.5, "momentum": 0.9, "nesterov": True}],
        {},
        0.5 * (3 + 0.9 * 3),
    ),
    "with defaults": (["mean", "fedadam"], {}, 0.1 * 0.3 / ((0.99e-6 + 0.09) ** 0.5 + 1e-3)),
}


@pytest.mark.parametrize("case", ONE_STEP)
def test_one_step_along(case):
    """Of the updates 1 and 5; -1 and 1 where they cancel."""
    link, known, want = ONE_STEP[case]
    rows = [[-1.0], [1.0]] if "cancel" in case else [[1.0], [5.0]]
    np.testing.assert_allclose(fedsim.aggregate(link, rows, **known), [want], rtol=1e-6)


@pytest.mark.parametrize(
    ("lr", "shares", "second_step"),
    [
        (0.4, [1 / 3 - 0.1, 0, 1 / 3, 1 / 3 + 0.1], 3 + 0.6),
        (3.0, [0, 0, 1 / 8, 7 / 8], 5),  # back to the simplex: nobody has less than nothing
    ],
)
def test_shares_climb_towards_the_client_of_the_larger_loss(lr, shares, second_step):
    """Of four clients the second cannot take part, and the third does not report."""
    rule = FAMILIES["rule"]["agnostic"](lr)
    state = rule.init(jnp.zeros(1), jnp.asarray([True, False, True, True]))
    updates = cohort_of(jnp.asarray([[1.0], [5.0]]), loss=jnp.asarray([1.0, 1.5]))
    context = context_of(4, ids=jnp.asarray([0, 3]))
    step, state, _ = rule.apply(updates, state, context)
    assert np.asarray(step) == pytest.approx(3)
    assert np.asarray(state.lambda_) == pytest.approx(shares)
    assert np.asarray(rule.apply(updates, state, context)[0]) == pytest.approx(second_step)


LEAST = {
    **dict.fromkeys(("krum", "multi_krum"), 2 * 2 + 3),
    "bulyan": 4 * 2 + 3,
    **dict.fromkeys(("mean_around_median", "phocas", "minimum_diameter"), 2 * 2 + 1),
    **dict.fromkeys(("smallest_eigenvalue", "covariance_filter"), 2 * 2 + 1),
    **dict.fromkeys(("divide_and_conquer", "monna"), 2 * 2 + 1),
    **dict.fromkeys(("zeno", "mix_neighbours", "adaptive_robust_clip"), 2 + 1),
}
"""How many clients must report to what is told of two malicious ones."""


@pytest.mark.parametrize("kind", LEAST)
def test_how_many_clients_must_report(kind):
    family = "rule" if kind in FAMILIES["rule"] else "stage"
    assert FAMILIES[family][kind](f=2).least == LEAST[kind]


def test_more_must_report_where_more_are_looked_at():
    made = FAMILIES["rule"]
    assert made["krum"](1, neighbours=8).least == 9
    assert made["multi_krum"](1, neighbours=8).least == 9
    assert made["multi_krum"](1, select=6).least == 6
    assert made["trimmed_mean"](trim=3).least == 7
    assert made["mean"](denominator="expected").least == 0
    assert made["mean"]().least == made["median"]().least == 1


@pytest.mark.parametrize(
    ("kind", "usual", "others"),
    [
        ("geometric_median", {}, [{"weights": "samples"}, {"smoothing": 1.0}, {"iterations": 3}]),
        ("krum", {"f": 1}, [{"f": 1, "neighbours": 3}]),
    ],
)
def test_bounds_are_known_of_rules_as_they_were_proved(kind, usual, others):
    made = FAMILIES["rule"][kind]
    assert made(**usual).bound is not None
    assert [made(**other).bound for other in others] == [None] * len(others)


def test_krum_with_all_others_for_neighbours_takes_the_row_next_to_the_mean():
    link = {"kind": "krum", "f": 1, "neighbours": 4}
    rows = [[0.0], [1.0], [1.9], [3.0], [10.0]]
    assert fedsim.aggregate(link, rows).tolist() == [3.0]  # the mean is 3.18
    assert fedsim.aggregate({**link, "neighbours": 3}, rows).tolist() == [1.9]


ITS_OWN_MEDIAN = {  # rows, their weights, and which of the rows it is
    "two others at an angle just above 120°": (
        [[0, 0, 0], [0.49924406, 0.8664614, 0], [0.49924406, -0.8664614, 0]],
        [1, 1, 1],
        0,
    ),
    "half of the weight": ([[-2, 1, 2], [-3, -1, 3], [-2, 0, 3]], [2, 3, 1], 1),
}


@pytest.mark.parametrize("case", ITS_OWN_MEDIAN)
def test_a_geometric_median_that_is_a_row_is_that_row_to_the_bit(case):
    rows, weights, at = ITS_OWN_MEDIAN[case]
    link = {"kind": "geometric_median", "weights": "samples"}
    for unit in (1.0, 2.0**20):
        stacked = unit * np.float32(rows)
        assert fedsim.aggregate(link, stacked, weights=weights).tolist() == stacked[at].tolist()


@pytest.mark.long
def test_a_geometric_median_near_a_row_is_not_jumped_past_again_and_again():
    rows = np.float32([[-1, 0], [2, 0], [3, -2], [-2, -2], [-3, -3], [-2, -1], [2, -1]])
    median = fedsim.aggregate("geometric_median", rows)
    # by Weiszfeld's iteration in float64
    np.testing.assert_allclose(median, [-0.6620109, -1.09052399], atol=5e-5)


@pytest.mark.quick(2)
@pytest.mark.parametrize("shapes", [[(3,), (2, 2), ()], [(), (300_000,), (2, 2), (140_001,), (3,)]])
def test_narrow_leaves_that_stand_together_come_back_as_they_were(shapes):
    rng = np.random.default_rng(4)
    stacked = [jnp.asarray(rng.normal(size=(3, *shape)), jnp.float32) for shape in shapes]
    middle = lambda ranks: ranks.at(jnp.int32(1))
    medians = jax.jit(lambda stack: by_sorted_columns(middle, stack, jnp.ones(3, bool)))(stacked)
    for leaf, row in zip(stacked, medians, strict=True):
        np.testing.assert_array_equal(row, np.median(leaf, axis=0), strict=True)
