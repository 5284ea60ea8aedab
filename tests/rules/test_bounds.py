"""Published bounds of rules hold on random adversarial rounds."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cohorts import cohort_of, context_of
from conftest import some

from fedsim import rules, stages
from fedsim.compose import chain

K, D = 9, 4
ROUNDS = 300
RULES = {
    "median": (0, lambda f: rules.median()),
    "geometric_median": (0, lambda f: rules.geometric_median()),
    "trimmed_mean": (1, lambda f: rules.trimmed_mean(f)),
    "krum": (1, lambda f: rules.krum(f)),
}
CASES = [
    (name, mixed, f)
    for name, (least, _) in RULES.items()
    for mixed in (False, True)
    for f in (least, 2, 3)
]


def adversarial(rng, f):
    """Rows `[K, D]` and who is there; f of those present are anything that an attacker may try."""
    n = rng.integers(2 * f + 3, K + 1)
    rows = rng.normal(size=(K, D)) * rng.choice([0.01, 1, 10], size=(1, D)) + rng.normal(
        size=D
    ) * rng.choice([0, 5])
    if rng.random() < 0.3:  # two groups of honest clients
        rows[: K // 2] += rng.normal(size=D) * 3
    present = np.isin(np.arange(K), rng.choice(K, n, replace=False))
    bad = rng.choice(np.flatnonzero(present), f, replace=False)
    honest = present & ~np.isin(np.arange(K), bad)
    mean, std = rows[honest].mean(0), rows[honest].std(0)
    rows[bad] = (
        rng.normal(size=(f, D)) * 1e3,
        np.tile(mean - rng.uniform(0, 3) * std, (f, 1)),
        np.tile(-rng.uniform(0, 20) * mean, (f, 1)),
        np.tile(rows[rng.choice(np.flatnonzero(honest))], (f, 1)),
        np.full((f, D), rng.choice([-1e6, 0, 1e6])),
    )[rng.integers(5)]
    return rows, present


def worst(rows, present, aggregate, f):
    """The largest ‖F − mean_H‖² / spread of H over all H of n − f rows that are there."""
    ids = np.flatnonzero(present)
    subsets = rows[np.array(list(itertools.combinations(ids, len(ids) - f)))]
    means = subsets.mean(1)
    spread = ((subsets - means[:, None]) ** 2).sum(-1).mean(1)
    return np.max(((aggregate - means) ** 2).sum(-1) / spread)


@pytest.mark.long
@pytest.mark.parametrize(("name", "mixed", "f"), some(CASES, 3))
def test_the_bound_holds_for_every_set_of_honest_clients(name, mixed, f):
    rule = RULES[name][1](f)
    before = chain([stages.mix_neighbours(f)] if mixed else [])
    rng = np.random.default_rng(17)
    drawn = [adversarial(rng, f) for _ in range(ROUNDS)]
    bound = stages.mix_neighbours(f).bound(rule.bound) if mixed else rule.bound
    with jax.enable_x64(True):

        @jax.jit
        @jax.vmap
        def aggregate(rows, present):
            context = context_of(K)
            updates = cohort_of(rows, present, jnp.ones(K))
            kept, _, _ = before.apply(updates, before.init(rows[0], present), context)
            made, _, _ = rule.apply(kept, rule.init(rows[0], present), context)
            return made, bound(jnp.sum(present), jnp.asarray(f))

        rows, present = map(np.stack, zip(*drawn, strict=True))
        made, kappa = map(np.asarray, aggregate(rows, present))
    ratios = np.array([worst(*case, point, f) for case, point in zip(drawn, made, strict=True)])
    assert np.isfinite(kappa).all() and (ratios <= kappa * (1 + 1e-9) + 1e-12).all()
    assert f == 0 or ratios.max() > 0.01 * kappa.min()  # the rounds are adversarial


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_a_bound_says_nothing_beyond_what_it_is_told():
    kappa, of_median = rules.trimmed_mean(2).bound, rules.median().bound
    mixed = stages.mix_neighbours(2).bound(of_median)
    told = 12 / 5 * (1 + 2 / 5)
    for bound, n, f, want in (
        (kappa, 9, 1, told),
        (kappa, 9, 2, told),
        (kappa, 9, 3, np.nan),
        (kappa, 4, 1, np.nan),
        (of_median, 9, 0, 4),
        (mixed, 9, 1, 16 / 7 * (4 * (1 + 2 / 5) ** 2 + 1)),
        (mixed, 9, 3, np.nan),
    ):
        np.testing.assert_allclose(jax.jit(bound)(jnp.asarray(n), jnp.asarray(f)), want, rtol=1e-12)
    assert rules.mean().bound is None and rules.krum(1, neighbours=3).bound is None
    assert rules.geometric_median(smoothing=0.1).bound is None
    assert rules.geometric_median(weights="samples").bound is None
