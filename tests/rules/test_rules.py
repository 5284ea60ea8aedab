"""Laws of aggregation, for every registered rule; a new rule needs a line in the table."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import own_kinds_of

import fedsim
import fedsim.rules
import fedsim.stages
from fedsim.compose import ALIASES, FAMILIES
from fedsim.scenario.index import missing_field

K = 9


class Law(NamedTuple):
    """What is promised of a rule with these hyper-parameters."""

    link: dict[str, Any] = {}  # noqa: RUF012 (read only)
    resists: int = 0  # malicious clients of K that cannot move it far; 0: one can
    equivariant: bool = True  # to translations and positive factors
    scales: bool | None = None  # to positive factors alone, where that is different
    shifts: bool = False  # to translations alone
    population: bool = False  # does it matter how many clients there are in all
    sampled: bool = False  # do sample counts matter
    unanimous: bool = True
    stalls: bool = False  # an outlier stops it
    angles: bool = False  # it looks at angles alone: what is too far, or moved, may be kept or not
    ordered: bool = False  # here ties decide, and the lowest index decides them


TABLE = {
    "mean": Law(sampled=True),
    "lora_mean": Law(sampled=True),  # of pairs: test_lora_mean.py
    "median": Law(resists=4),
    "trimmed_mean": Law({"trim": 2}, resists=2),
    "krum": Law({"f": 3}, resists=3),
    "multi_krum": Law({"f": 3}, resists=3),
    "geometric_median": Law(resists=4),
    "rfa": Law({"smoothing": 1e-12}, sampled=True),  # three steps do not come back from an outlier
    "q_fair": Law({"q": 1.0}, equivariant=False, unanimous=False, stalls=True),
    "agnostic": Law(population=True),
    "term": Law(sampled=True),
    "delta_fl": Law({"theta": 1.0}),
    "gifair": Law(sampled=True),
    "fedmgda": Law(resists=4, equivariant=False, unanimous=False),
    "nova": Law(sampled=True),
    "mean_over_all": Law(population=True),
    "horvitz_thompson": Law(sampled=True, population=True),
    "mifa": Law(population=True),
    "fedvarp": Law(),
    "ca2fl": Law(),
    "fedau": Law(population=True),
    "fedexp": Law({"eps": 0.0}, equivariant=False, scales=True),
    "dyn": Law({"alpha": 0.5}, equivariant=False, scales=True, population=True, unanimous=False),
    "centered_clipping": Law({"radius": 1.0}, resists=4, equivariant=False, unanimous=False),
    "mean_around_median": Law({"f": 3}, resists=3),
    "phocas": Law({"f": 3}, resists=3),
    "bulyan": Law({"f": 1}, resists=1, ordered=True),
    "sign_majority": Law(resists=4, equivariant=False, unanimous=False),
    "minimum_diameter": Law({"f": 3}, resists=3, ordered=True),
    "smallest_eigenvalue": Law({"f": 3}, resists=3),
    "covariance_filter": Law({"f": 3}, resists=3),
    "divide_and_conquer": Law({"f": 3}, resists=3),
    "foolsgold": Law(equivariant=False, scales=True, unanimous=False),
    "flame": Law({"noise": 0.0}, resists=4, equivariant=False, scales=True),
    "sign_guard": Law(resists=4, equivariant=False, scales=True),
    "largest_cluster": Law(equivariant=False, scales=True, angles=True),
    "monna": Law({"f": 3}, resists=3, ordered=True),
    "three_sigma": Law({"factor": 1.0}, resists=4),
    "auto_gm": Law({"lam": 30.0}, resists=4, equivariant=False, shifts=True),
    "residual_reweighting": Law(resists=3),
    "lasa": Law(resists=4, equivariant=False, scales=True, unanimous=False),
    "fldetector": Law(),
    "robust_learning_rate": Law({"threshold": 4}, sampled=True, equivariant=False, scales=True),
    "trust": Law(resists=4, equivariant=False, unanimous=False),
    "zeno": Law({"f": 3}, resists=3, equivariant=False),
    "hierarchical": Law({"groups": 1}, sampled=True),  # more groups: test_hierarchical.py
}
VOTES = "robust_learning_rate"  # one client is no majority
QUICK = ("mean", "median", "trimmed_mean", "krum", "geometric_median", "dyn")
"""In the fast part, one of each way to compute: all their laws share a program."""
OURS = {family: own_kinds_of(family) for family in ("rule", "stage", "attack")}


def marked(names, quick=QUICK) -> list:
    """The names; long are those that are not quick."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.long) for name in names]


every_rule = pytest.mark.parametrize("name", marked(OURS["rule"]))


def rule(name: str) -> dict[str, Any]:
    return {"kind": name, **TABLE[name].link}


def least(name: str) -> int:
    return FAMILIES["rule"][name](**TABLE[name].link).least


def aggregate(name: str, stack, loss=None, **more):
    """What rules may need: another loss for every client, the server's update and its loss."""
    needs = FAMILIES["rule"][name](**TABLE[name].link).needs
    if "loss" in needs:
        rows = np.arange(len(jax.tree.leaves(stack)[0]))
        more["loss"] = 0.5 + 0.1 * rows if loss is None else loss
    if "reference" in needs:
        more["reference"] = jax.tree.map(lambda leaf: np.ones(leaf.shape[1:]), stack)
    if "server_loss" in needs:
        more["server_loss"] = away_from_one
    return fedsim.aggregate(rule(name), stack, **more)


def away_from_one(params, batch=None, key=None):
    del batch, key
    return sum(jnp.sum((leaf - 1) ** 2) for leaf in jax.tree.leaves(params))


def deltas(K=K):
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=(K, *shape)).astype(np.float32)
    return {"w": draw(3, 2), "b": [draw(4)]}


def counts(K=K) -> np.ndarray:
    return np.arange(3.0, 3.0 + K)


def close(a, b, rtol=1e-5, atol=1e-5):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=rtol, atol=atol), a, b)


def bits(tree) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def largest(tree) -> float:
    return max(np.abs(leaf).max() for leaf in jax.tree.leaves(tree))


def poisoned(stack, rows, value):
    def put(leaf):
        leaf = leaf.copy()
        leaf[rows] = value
        return leaf

    return jax.tree.map(put, stack)


def test_every_rule_has_a_line():
    installed = {rule for rule in TABLE if not missing_field("rule", rule)}
    assert installed == set(OURS["rule"])


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_name_something(alias):
    assert any(ALIASES[alias] in members for members in FAMILIES.values())
    assert not any(alias in members for members in FAMILIES.values())


@every_rule
def test_sample_counts_matter_where_they_are_said_to(name):
    same = bits(aggregate(name, deltas(), weights=counts())) == bits(aggregate(name, deltas()))
    assert same is not TABLE[name].sampled


@pytest.mark.optimised
# Those left out have rows of NaN in test_reference_rules.
@pytest.mark.parametrize("name", marked(OURS["rule"], ("mean", "krum", "geometric_median", "dyn")))
def test_absent_rows_change_no_bit_whatever_they_hold_and_wherever_they_stand(name):
    stack, w = deltas(), counts()
    want = bits(aggregate(name, stack, weights=w))
    rng = np.random.default_rng(2)
    for place in (np.arange(K), np.sort(rng.permutation(2 * K + 1)[:K]), np.arange(K) + 2):
        wide = np.zeros(2 * K + 1)
        wide[place] = w

        def spread(leaf, place=place):
            out = np.empty((2 * K + 1, *leaf.shape[1:]), leaf.dtype)
            for k in range(len(out)):
                out[k] = (np.nan, -np.inf, np.inf, 1e30)[k % 4]
            out[place] = leaf
            return out

        spread_stack = jax.tree.map(spread, stack)
        got = bits(aggregate(name, spread_stack, spread(0.5 + 0.1 * np.arange(K)), weights=wide))
        if TABLE[name].population and place[-1] == K - 1:
            want = got  # of K among 2K + 1 clients
        assert got == want


@every_rule
def test_nobody_reports_and_nothing_moves(name):
    got = aggregate(name, poisoned(deltas(), slice(None), np.nan), weights=np.zeros(K))
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(got))


@every_rule
def test_structure_dtype_and_kind_are_kept(name):
    for array in (np.asarray, jnp.asarray):
        stack = jax.tree.map(array, deltas())
        got = aggregate(name, stack, weights=counts())
        assert jax.tree.structure(got) == jax.tree.structure(stack)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(stack), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape[1:] and isinstance(a, type(b))


@every_rule
def test_outliers_do_not_move_what_resists_them(name):
    if TABLE[name].angles:
        pytest.skip("may come out either way")
    f = max(TABLE[name].resists, 1)
    for value in (1e9, -1e20, 1e30):
        stack = poisoned(deltas(), slice(1, 1 + f), value)
        small = largest(aggregate(name, stack, weights=np.full(K, 2.0))) < 10
        assert bool(small) is (TABLE[name].resists > 0 or TABLE[name].stalls), value


@pytest.mark.parametrize("name", marked(n for n in OURS["rule"] if TABLE[n].resists or n == "rfa"))
def test_a_client_that_is_not_finite_does_not_poison_what_resists_it(name):
    """The others resist nothing; the filter before them does."""
    for value in (np.nan, np.inf, -np.inf):
        got = aggregate(name, poisoned(deltas(), slice(4, 5), value))
        assert largest(got) < 10, value  # also false for NaN


@every_rule
def test_few_clients(name):
    """As few as it needs are enough, fewer are refused, and one is believed where one is enough."""
    n = max(least(name), 1)
    stack = deltas()
    got = aggregate(name, stack, weights=7.0 * (np.arange(K) < n))
    assert np.isfinite(largest(got))
    if n == 1 and TABLE[name].unanimous and not TABLE[name].population and name != VOTES:
        close(got, jax.tree.map(lambda leaf: leaf[0], stack))
    if n > 1:
        with pytest.raises(fedsim.ScenarioError, match=f"at least {n} are needed"):
            aggregate(name, deltas(n - 1))
        with pytest.raises(fedsim.ScenarioError, match=f"{min(n - 1, 2)} rows reported"):
            aggregate(name, stack, weights=np.arange(K) < min(n - 1, 2))


@pytest.mark.parametrize(
    ("family", "name"), [(family, name) for family in OURS for name in OURS[family]]
)
def test_docstrings_say_what_one_has_to_know(family, name):
    text = OURS[family][name].__doc__ or ""
    assert all(f"{section}:" in text for section in ("Cost", "Needs", "References"))
    assert "Resists:" in text or "Defence:" in text  # of a rule or stage, or against an attack
    assert text.splitlines()[0].endswith(".") and not text.splitlines()[1]


@pytest.mark.long
@pytest.mark.parametrize("case", ["plain", "offset", "outlier", "twins", "weighted"])
def test_geometric_median_of_large_updates_is_that_of_float64(case):
    X = np.random.default_rng(8).normal(size=(12, 5000))
    X[1:3] = X[0] + 1e-3 * X[1:3] if case == "twins" else X[1:3]
    X[3] = 1e9 if case == "outlier" else X[3]
    X += 1e4 if case == "offset" else 0
    w = np.arange(1.0, 13.0) if case == "weighted" else np.ones(12)
    X = X.astype(np.float32)
    v = np.median(X, 0).astype(float)
    for _ in range(2000):
        beta = w / np.linalg.norm(X - v, axis=1)
        v = beta @ X.astype(float) / beta.sum()
    link = {"kind": "geometric_median", "weights": "samples"}
    np.testing.assert_allclose(fedsim.aggregate(link, X, weights=w), v, rtol=1e-6, atol=3e-5)


@pytest.mark.long
@pytest.mark.parametrize("f", [0, 2])
def test_divide_and_conquer_ignores_rows_that_are_not_finite_where_it_does_not_look(f):
    """A few of the coordinates are drawn; wherever the value is, the row counts as absent."""
    rule = {"kind": "divide_and_conquer", "f": f, "coordinates": 3}
    rows = np.random.default_rng(0).standard_normal((12, 30)).astype(np.float32)
    for column in (0, 5, 29):
        for bad_rows in ([4], [0, 11], [2, 3, 7]):
            weights = np.ones(12)
            weights[9] = 0
            hostile = rows.copy()
            hostile[bad_rows, column] = [np.nan, np.inf, -np.inf][: len(bad_rows)]
            got = fedsim.aggregate(rule, hostile, weights=weights)
            weights[bad_rows] = 0
            want = fedsim.aggregate(rule, rows, weights=weights)
            assert got.tobytes() == want.tobytes(), (column, bad_rows)
