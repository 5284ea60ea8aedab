"""Clustered and diverse cohorts, and the norms and sketches of updates that they look at."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_selection import ids_of, made, population, rng

from fedsim.engine.feedback import update_feedback
from fedsim.fleet.cohorts.clustered import fill_urns, similar_groups
from fedsim.fleet.cohorts.divfl import facilities
from fedsim.fleet.selection import SKETCH_SIZE

nan, inf = np.nan, np.inf


# ---------------------------------------------------------------------------------------- clustered


def test_urns_match_the_algorithm():
    """Algorithm 1 as distributions: each sums to 1, all of client k to size · n_k / Σ n."""
    whole, m = population(), 4
    n, total = whole.samples, whole.samples.sum()
    distributions, urn, free = np.zeros((m, 7)), 0, total
    for i in sorted(range(7), key=lambda i: (-n[i], i)):
        balls = m * n[i]
        while balls:
            amount = min(balls, free)
            distributions[urn, i] += amount / total
            balls, free = balls - amount, free - amount
            if not free:
                urn, free = urn + 1, total
    assert_allclose(distributions.sum(1), 1), assert_allclose(distributions.sum(0), m * n / total)
    drawn = np.array([made("clustered", size=m).draw(whole, 1, rng(seed)) for seed in range(3000)])
    often = np.stack([[np.mean(drawn[:, k] == i) for i in whole.ids] for k in range(m)])
    assert_allclose(often, distributions, atol=0.03)
    assert (drawn == 9).any(1).all()  # 9 of 25 samples: in every round of 4


def test_as_many_urns_as_equal_clients_draw_everybody():
    equal = population(samples=np.full(7, 3))
    for by in ("samples", "similarity"):
        assert ids_of(made("clustered", size=7, by=by).draw(equal, 1, rng())) == equal.ids.tolist()


def test_similar_clients_share_an_urn():
    direction = rng().normal(size=(3, SKETCH_SIZE))
    sketch = np.full((7, SKETCH_SIZE), nan)
    sketch[:6] = np.tile(direction, (2, 1)) * rng(1).uniform(1, 9, (6, 1))
    sketch[:6] += 1e-3 * rng(2).normal(size=(6, SKETCH_SIZE))
    n, urn = np.array([2, 2, 2, 2, 2, 2, 0]), 12
    assert sorted(map(sorted, similar_groups(3 * n, urn, sketch))) == [[0, 3], [1, 4], [2, 5]]
    for seed in range(20):
        n, m = rng(seed).integers(1, 20, 7), 1 + seed % 7
        places, ends = fill_urns(m * n, n.sum(), sketch)
        balls, start = np.diff(ends, prepend=0), np.append(0, ends[:-1])
        assert ends[-1] == m * n.sum()
        assert np.bincount(places, balls, 7).tolist() == (m * n).tolist()
        assert (start // n.sum() == (ends - 1) // n.sum()).all()  # no stretch is in two urns


# ---------------------------------------------------------------- divfl, and what updates look like


def test_the_facility_location_choice_is_greedy():
    points = rng(4).normal(size=(30, 5))
    candidates, chosen = points[::3], []
    for _ in range(4):
        total = lambda more: sum(
            min(np.linalg.norm(p - candidates[i]) for i in [*chosen, more]) for p in points
        )
        chosen.append(min((i for i in range(10) if i not in chosen), key=total))
    assert facilities(points, candidates, 4) == chosen
    assert facilities(1e200 * points, 1e200 * candidates, 4) == chosen


@pytest.mark.long
def test_norms_are_precise_and_sketches_approximate_products():
    """Norms are precise; products of sketches are about those of the updates.

    A row has the same bits whatever rows are beside it.
    """
    rows = {
        "a": rng().normal(size=(12, 20, 50)).astype(np.float32),
        "b": rng(1).normal(size=(12, 30)).astype(np.float32),
    }
    rows["a"][1] = rows["a"][0] + 0.3 * rows["a"][1]  # rows 0 and 1 are alike
    rows["b"][3, 0] = inf
    flat = np.concatenate([rows["a"].reshape(12, -1), rows["b"]], 1)
    whole = jax.tree.map(np.asarray, update_feedback(rows, ("norm", "sketch")))
    fine = np.arange(12) != 3
    norms = np.linalg.norm(flat[fine].astype(float), axis=1)
    assert_allclose(whole["norm"][fine], norms, rtol=1e-6)
    assert not np.isfinite(whole["norm"][3]) and not np.isfinite(whole["sketch"][3]).all()
    products, want = (x[fine] @ x[fine].T for x in (whole["sketch"], flat.astype(float)))
    assert np.abs(products - want).max() < 0.7 * want.max()
    assert products[0, 1] > 0.6 * want[0, 1] > 0
    assert np.linalg.norm(whole["sketch"][0] - whole["sketch"][1]) < 15
    for block in np.split(np.arange(12), [1, 6]):  # one row is a case of its own
        part = update_feedback({name: leaf[block] for name, leaf in rows.items()}, tuple(whole))
        for name, values in part.items():
            np.testing.assert_array_equal(values, whole[name][block])
