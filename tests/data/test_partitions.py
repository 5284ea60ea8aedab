"""Partitions: nothing lost, nothing twice, reproducible, minimums met or refused, no hang."""

import numpy as np
import pytest
from conftest import own_kinds_of
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.compose import FAMILIES
from fedsim.data import (
    Pool,
    dirichlet,
    dirichlet_client,
    domains,
    extended_dirichlet,
    iid,
    long_tail,
    mixed,
    natural,
    pathological,
    quantity,
    semantic,
    shards,
    similarity,
)
from fedsim.data.apportionment import apportion
from fedsim.data.draws import dirichlet_draw
from fedsim.errors import PartitionError

# parameters to try, and the minimum that every client must then hold; `file` has tests of its own
TABLE = {
    "iid": [({}, 1)],
    "natural": [({}, 0)],
    "dirichlet": [
        ({"alpha": 0.01, "min_samples": 3}, 3),
        ({"alpha": 100.0}, 1),
        ({"min_samples": 0}, 0),
    ],
    "dirichlet_client": [({"alpha": 0.01, "min_samples": 5}, 5), ({"alpha": 100.0}, 1)],
    "shards": [({"per_client": 1}, 1), ({"per_client": 3}, 3)],
    "pathological": [({"classes": 1}, 1), ({"classes": 3}, 3)],
    "extended_dirichlet": [({"alpha": 0.01, "classes": 1}, 1), ({"classes": 3}, 3)],
    "similarity": [({"gamma": 0.0}, 1), ({"gamma": 0.3}, 1), ({"gamma": 1.0}, 1)],
    "mixed": [({"share": 0.0}, 1), ({"share": 0.4, "alpha": 0.05}, 1), ({"share": 1.0}, 1)],
    "long_tail": [({"ratio": 1.0}, 0), ({"ratio": 5.0, "alpha": 0.3}, 0)],
    "domains": [({"column": "place"}, 1), ({"column": "place", "values": 2}, 2)],
    "semantic": [({"clusters": 1}, 1), ({"clusters": 3}, 1)],
    "quantity": [
        ({"sigma": 2.0, "min_samples": 4}, 4),
        ({"distribution": "powerlaw", "exponent": 1.5}, 1),
        ({"distribution": "dirichlet", "alpha": 0.01, "min_samples": 2}, 2),
        ({"min_samples": 0, "sigma": 5.0}, 0),
    ],
}
SLOW = {"semantic"}  # scikit-learn takes seconds to import
CASES = [
    pytest.param(kind, parameters, least, marks=[pytest.mark.long] * (kind in SLOW))
    for kind, rows in TABLE.items()
    for parameters, least in rows
]
BOUNDS = {  # of kinds that need more than a minimum of samples
    "pathological": "classes at",
    "extended_dirichlet": "classes at",
    "domains": "values at",
    "semantic": "clusters at",
    "long_tail": "at most",
}


def pool(n: int, classes: int, seed: int = 0, owners: int = 0) -> Pool:
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)]).astype(np.int32)
    owner = rng.integers(0, owners, n).astype(np.int32) if owners else None
    places = np.concatenate([np.arange(3), rng.integers(0, 3, n - 3)])
    place = np.array(["north", "south", "west"])[places]
    x = rng.normal(size=(n, 2)).astype(np.float32)
    return Pool(rng.permutation(y), classes, owner, owners, x=x, columns={"place": place})


def shuffled(of_each: int) -> Pool:
    """Samples of ten classes, so many of each, in any order."""
    y = np.repeat(np.arange(10, dtype=np.int32), of_each)
    return Pool(np.random.default_rng(1).permutation(y), 10)


def lists(parts) -> list[np.ndarray]:
    return np.split(parts.indices, parts.offsets[1:-1])


def check(parts, n: int, clients: int, least: int = 0, all_dealt: bool = True) -> None:
    assert parts.indices.dtype == np.int32 and parts.offsets.dtype == np.int64
    if all_dealt:
        assert np.array_equal(np.sort(parts.indices), np.arange(n))
    assert len(np.unique(parts.indices)) == len(parts.indices)
    assert set(parts.indices) <= set(range(n))
    assert len(parts.offsets) == clients + 1
    assert parts.offsets[0] == 0 and parts.offsets[-1] == len(parts.indices)
    assert np.diff(parts.offsets).min() >= least


def same(one, other) -> bool:
    return np.array_equal(one.indices, other.indices) and np.array_equal(one.offsets, other.offsets)


def test_every_partition_is_in_the_table():
    assert {*TABLE, "file"} == own_kinds_of("partition").keys()


@pytest.mark.parametrize(("kind", "parameters", "least"), CASES)
@settings(deadline=None, max_examples=8)
@given(st.integers(1, 30), st.integers(4, 9), st.integers(0, 200), st.integers(0, 5))
def test_every_sample_is_dealt_once_and_the_same_again(
    kind, parameters, least, clients, classes, more, seed
):
    # room for every minimum, and for every class a holder
    n = max(clients * max(least, 1), classes) * 2 + more
    samples = pool(n, classes, seed, clients)
    assign = FAMILIES["partition"][kind](**parameters)
    deal = lambda s: assign(samples, clients, np.random.default_rng(s))
    try:
        parts = deal(seed)
    except PartitionError as error:
        assert BOUNDS[kind] in str(error)
        return
    check(parts, n, clients, least, all_dealt=kind != "long_tail")
    assert same(parts, deal(seed))


@pytest.mark.parametrize(
    ("kind", "parameters", "least"), [case for case in CASES if case.values[0] != "natural"]
)
def test_another_seed_deals_otherwise(kind, parameters, least):
    samples, assign = pool(600, 6), FAMILIES["partition"][kind](**parameters)
    one, other = (assign(samples, 20, np.random.default_rng(seed)) for seed in (1, 2))
    assert not np.array_equal(one.indices, other.indices)


@pytest.mark.parametrize("make", [dirichlet, dirichlet_client])
def test_500_clients_at_a_hundredth_have_the_least_number_of_samples(make):
    """To draw until everybody has five would not end."""
    samples = Pool(np.repeat(np.arange(100, dtype=np.int32), 50), 100)
    check(make(0.01, 5)(samples, 500, np.random.default_rng(0)), 5000, 500, 5)


def test_iid_sizes_differ_by_one():
    sizes = np.diff(iid()(pool(103, 3), 10, np.random.default_rng(0)).offsets)
    assert sorted(set(sizes.tolist())) == [10, 11]


def test_natural_follows_the_ids_and_keeps_clients_without_samples():
    owner = np.array([1, 0, 1, 3], np.int32)
    parts = natural()(Pool(np.zeros(4, np.int32), 1, owner, 5), 99, np.random.default_rng(0))
    assert [p.tolist() for p in lists(parts)] == [[1], [0, 2], [], [3], []]


@pytest.mark.parametrize("make", [dirichlet, dirichlet_client])
def test_small_alpha_is_skewed_and_large_alpha_is_not(make):
    samples = shuffled(1000)

    def largest_share(alpha: float) -> float:
        dealt = lists(make(alpha, 10)(samples, 50, np.random.default_rng(0)))
        return np.median([np.bincount(samples.y[p]).max() / len(p) for p in dealt])

    assert largest_share(0.05) > 0.6 > 0.16 > largest_share(10_000.0)


def test_dirichlet_client_keeps_sizes_equal_and_follows_the_wishes():
    samples = Pool(np.repeat(np.arange(4, dtype=np.int32), 5000), 4)
    parts = dirichlet_client(4.0)(samples, 1000, np.random.default_rng(0))
    assert set(np.diff(parts.offsets).tolist()) == {20}
    share = np.array([np.mean(samples.y[p] == 0) for p in lists(parts)])
    # Dirichlet-multinomial: q(1−q)·(1/n)·(n + α)/(1 + α), a little less because the margins are
    # exact
    assert share.mean() == pytest.approx(0.25)
    assert share.var() == pytest.approx(0.1875 / 20 * 24 / 5, rel=0.15)


def test_shards_are_cut_from_sorted_labels():
    samples = Pool(np.repeat(np.arange(10, dtype=np.int32), 60), 10)
    parts = shards(2)(samples, 30, np.random.default_rng(0))
    assert set(np.diff(parts.offsets).tolist()) == {20}
    # Shards of 10 never straddle classes of 60.
    assert max(len(np.unique(samples.y[p])) for p in lists(parts)) == 2


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 30), st.integers(2, 8), st.integers(1, 8), st.integers(0, 5))
def test_pathological_holds_exactly_so_many_classes(clients, classes, k, seed):
    samples = pool(60 * classes, classes, seed)
    assign = lambda: pathological(k)(samples, clients, np.random.default_rng(seed))
    if k > classes or clients * k < classes:
        with pytest.raises(PartitionError, match=r"classes at (most|least)"):
            assign()
        return
    parts = assign()
    check(parts, len(samples.y), clients, k)
    assert {len(np.unique(samples.y[p])) for p in lists(parts)} == {k}


def test_extended_dirichlet_holds_so_many_classes_in_uneven_parts():
    samples = pool(4000, 10)
    few, many = (
        extended_dirichlet(alpha, 3)(samples, 40, np.random.default_rng(0)) for alpha in (0.1, 1e6)
    )
    assert {len(np.unique(samples.y[p])) for parts in (few, many) for p in lists(parts)} == {3}
    spread = [np.diff(parts.offsets).std() for parts in (few, many)]
    assert spread[0] > 60 and spread[1] < 20  # of 100 samples each


@pytest.mark.parametrize(
    ("gamma", "least", "most"), [(0.0, 1.0, 2.0), (0.5, 5.0, 9.0), (1.0, 9.5, 10.0)]
)
def test_similarity_is_a_share_of_the_global_mix(gamma, least, most):
    samples = shuffled(400)
    parts = similarity(gamma)(samples, 100, np.random.default_rng(0))
    assert set(np.diff(parts.offsets).tolist()) == {40}
    held = [np.bincount(samples.y[p], minlength=10) for p in lists(parts)]
    assert least <= np.mean([(counts > 0).sum() for counts in held]) <= most
    largest = np.mean([counts.max() for counts in held])
    assert largest == pytest.approx(40 * (1 - gamma) + 4 * gamma, abs=5)


def test_mixed_has_a_share_of_clients_of_the_global_mix():
    samples = shuffled(1000)
    parts = mixed(0.3, 0.01)(samples, 40, np.random.default_rng(0))
    assert set(np.diff(parts.offsets).tolist()) == {250}
    largest = np.array([np.bincount(samples.y[p]).max() / len(p) for p in lists(parts)])
    assert (largest < 0.2).sum() == 12 and (largest > 0.3).sum() == 28
    first = np.flatnonzero(largest < 0.2)
    assert not np.array_equal(first, np.arange(12))  # drawn


@pytest.mark.parametrize("ratio", [1.0, 10.0, 100.0])
def test_long_tail_keeps_an_exponential_number_of_every_class(ratio):
    samples = shuffled(500)
    parts = long_tail(ratio)(samples, 20, np.random.default_rng(0))
    kept = np.bincount(samples.y[parts.indices])
    assert kept.tolist() == [int(500 * ratio ** (-c / 9) * (1 + 1e-12)) for c in range(10)]
    assert np.ptp(np.diff(parts.offsets)) <= 1
    skewed = np.diff(long_tail(ratio, alpha=0.1)(samples, 20, np.random.default_rng(0)).offsets)
    assert skewed.sum() == kept.sum() and skewed.std() > 10


def test_long_tail_has_its_ratio_where_classes_are_uneven():
    y = np.repeat(np.arange(3), [50, 1000, 40]).astype(np.int32)
    parts = long_tail(4.0)(Pool(y, 3), 2, np.random.default_rng(0))
    assert np.bincount(y[parts.indices]).tolist() == [50, 25, 12]


def test_domains_hold_one_value_each_in_proportion():
    rng = np.random.default_rng(0)
    place = rng.permutation(np.repeat(["a", "b", "c"], [600, 300, 100]))
    samples = Pool(rng.integers(0, 4, 1000).astype(np.int32), 4, columns={"place": place})
    parts = domains("place")(samples, 10, np.random.default_rng(0))
    held = [np.unique(place[p]) for p in lists(parts)]
    assert {len(values) for values in held} == {1} and set(np.diff(parts.offsets).tolist()) == {100}
    assert sorted(values[0] for values in held) == ["a"] * 6 + ["b"] * 3 + ["c"]
    both = domains("place", 2)(samples, 10, np.random.default_rng(0))
    assert {len(np.unique(place[p])) for p in lists(both)} == {2}


@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_semantic_finds_the_styles_within_every_class(dtype):
    rng = np.random.default_rng(0)
    y, style = rng.integers(0, 4, 1200).astype(np.int32), rng.integers(0, 3, 1200)
    x = np.zeros((1200, 6, 6))
    x[np.arange(1200), y] = 120  # the class is a line
    x[np.arange(1200), 5, style] += 60  # and the style a corner, the same in every class
    x = np.clip(x + rng.normal(0, 4, x.shape) + 20, 0, 255).astype(dtype)
    samples = Pool(y, 4, x=x, scale=1 / 255)
    assign = semantic(3)
    parts = assign(samples, 12, np.random.default_rng(0))
    held = [style[p] for p in lists(parts)]
    assert all(len(np.unique(one)) == 1 for one in held)
    assert all(len(np.unique(y[p])) == 4 for p in lists(parts))
    again = assign(samples, 12, np.random.default_rng(1))  # another deal of the same domains
    assert not np.array_equal(parts.indices, again.indices)
    assert all(len(np.unique(style[p])) == 1 for p in lists(again))


def test_pathological_mixes_the_sets_and_balances_the_sizes():
    samples = Pool(np.repeat(np.arange(10, dtype=np.int32), 400), 10)
    parts = pathological(2)(samples, 100, np.random.default_rng(0))
    pairs = {tuple(np.unique(samples.y[p])) for p in lists(parts)}
    assert len(pairs) > 30 and set(np.diff(parts.offsets).tolist()) == {40}


@pytest.mark.parametrize(
    ("parameters", "spread"),
    [
        ({"sigma": 1.0}, 1.0),
        ({"distribution": "powerlaw", "exponent": 0.5}, 0.5),
        ({"distribution": "dirichlet"}, 2.0),
    ],
)
def test_quantity_skews_sizes_and_not_labels(parameters, spread):
    samples = Pool(np.repeat(np.arange(2, dtype=np.int32), 50_000), 2)
    parts = quantity(min_samples=0, **parameters)(samples, 200, np.random.default_rng(0))
    sizes = np.diff(parts.offsets)
    logarithm = np.log(sizes[sizes > 0])
    assert logarithm.std() == pytest.approx(spread, rel=0.25)
    large = [p for p in lists(parts) if len(p) > 500]
    assert large and all(abs(samples.y[p].mean() - 0.5) < 0.1 for p in large)


def test_powerlaw_sizes_follow_the_ranks():
    sizes = np.diff(
        quantity("powerlaw", exponent=1.0)(pool(10_000, 2), 4, np.random.default_rng(0)).offsets
    )
    np.testing.assert_allclose(np.sort(sizes)[::-1], 10_000 / (25 / 12) / np.arange(1, 5), atol=1)


FEW, TINY = pool(25, 2), pool(5, 2)
UNEVEN = Pool(np.repeat([0, 1], [30, 2]).astype(np.int32), 2)
RARE = Pool(np.repeat(np.arange(10), [2, *[100] * 9]), 10)
TOKENS = Pool(np.zeros(4, np.int32), 1, x=np.zeros((4, 3), np.int32))


@pytest.mark.parametrize(
    ("make", "samples", "clients", "said"),
    [
        (lambda: dirichlet(0.3, 3), FEW, 10, "min_samples at most 2"),
        (lambda: dirichlet_client(0.3, 3), FEW, 10, "min_samples at most 2"),
        (lambda: quantity(min_samples=9), FEW, 10, "min_samples at most 2"),
        (lambda: shards(3), FEW, 10, "per_client at most 2"),
        (iid, TINY, 6, "clients at most 5"),
        (natural, FEW, 3, "have none"),
        (lambda: pathological(3), FEW, 10, "samples have only 2; classes at most 2"),
        (lambda: pathological(2), UNEVEN, 20, "classes at most 1"),
        (lambda: domains("place", 4), FEW, 10, "samples have only 3; values at most 3"),
        (lambda: domains("place"), FEW, 2, "some of the 3 values to nobody; values at least 2"),
        (lambda: domains("plaice"), FEW, 10, "no column 'plaice'; did you mean 'place'"),
        (lambda: semantic(4), FEW, 3, "clusters at most 3"),
        (lambda: semantic(1), TOKENS, 2, "tokens"),
        (mixed, TINY, 6, "clients at most 5"),
        (long_tail, RARE, 20, "long_tail with ratio 100 keeps 11 of 902 samples"),
        (long_tail, Pool(np.zeros(30), 0), 3, "targets are numbers; use iid or quantity"),
        (lambda: quantity("powerlaw", sigma=1.0), FEW, 10, "sigma belongs to the distribution log"),
    ],
)
def test_what_cannot_be_is_refused_with_the_bound(make, samples, clients, said):
    with pytest.raises(PartitionError, match=said):
        make()(samples, clients, np.random.default_rng(0))


BY_CLASS = [dirichlet, dirichlet_client, pathological, extended_dirichlet, mixed]


@pytest.mark.parametrize("make", BY_CLASS)
def test_numbers_need_bins(make):
    numbers = Pool(np.arange(30.0), 0)
    with pytest.raises(PartitionError, match="these targets are numbers; write bins: 10"):
        make()(numbers, 3, np.random.default_rng(0))
    with pytest.raises(PartitionError, match="bins are for targets that are numbers"):
        make(bins=5)(pool(30, 2), 3, np.random.default_rng(0))
    with pytest.raises(PartitionError, match="a target has 2 numbers"):
        make(bins=5)(Pool(np.zeros((30, 2)), 0), 3, np.random.default_rng(0))


@pytest.mark.parametrize("make", BY_CLASS)
def test_bins_of_numbers_are_assigned_like_classes(make):
    y = np.random.default_rng(1).normal(size=600)
    bins = 5
    rank = np.argsort(np.argsort(y))
    of_classes = make()(Pool(rank * bins // len(y), bins), 6, np.random.default_rng(2))
    of_numbers = make(bins=bins)(Pool(y, 0), 6, np.random.default_rng(2))
    assert same(of_numbers, of_classes)


def test_equal_numbers_are_in_one_bin():
    y = np.repeat([1.0, 2.0, 7.0], [50, 25, 25])
    parts = pathological(classes=1, bins=4)(Pool(y, 0), 4, np.random.default_rng(0))
    assert {len(set(y[rows])) for rows in lists(parts)} == {1}


@pytest.mark.parametrize(
    ("assign", "spread"),
    [
        pytest.param(shards(per_client=1), 0.0, id="one shard: neighbouring numbers"),
        pytest.param(similarity(gamma=0.0), 0.0, id="no global mix: neighbouring numbers"),
        pytest.param(similarity(gamma=1.0), 1.0, id="the global mix: the variance of all"),
        pytest.param(dirichlet(alpha=0.01, bins=10), 0.4, id="few bins a client"),
    ],
)
def test_numbers_of_a_client_spread_as_asked(assign, spread):
    """The mean variance within clients, as a share of that of all."""
    y = np.random.default_rng(1).uniform(size=2000)
    parts = assign(Pool(y, 0), 10, np.random.default_rng(3))
    within = sum(len(rows) * y[rows].var() for rows in lists(parts)) / (len(y) * y.var())
    assert within == pytest.approx(spread, abs=0.25 if spread == 0.4 else 0.05)


def test_proportions_have_the_moments_of_the_distribution():
    alpha, n = np.array([0.3, 0.3, 1.0, 2.0]), 4
    draws = dirichlet_draw(alpha, (40_000, n), np.random.default_rng(0))
    mean = alpha / alpha.sum()
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.006)
    np.testing.assert_allclose(draws.var(0), mean * (1 - mean) / (alpha.sum() + 1), rtol=0.06)
    assert np.isfinite(dirichlet_draw(1e-12, (50, 7), np.random.default_rng(0))).all()


@given(st.lists(st.floats(0, 50), min_size=1, max_size=30))
def test_apportion(quota):
    quota = np.array(quota)
    whole = apportion(quota, round(quota.sum()))
    assert whole.sum() == round(quota.sum()) and (np.abs(whole - quota) <= 1 + 1e-6).all()
