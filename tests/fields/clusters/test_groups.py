"""FedGroup and FlexCFL against NumPy."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from near_points import ALL, NEAR, SIZES, log_softmax, points
from reference.scenarios import consecutive

import fedsim
from fedsim.fields.clusters.fedgroup import k_means, towards_others

long = pytest.mark.long
C = 4
LR = 0.4
STEP = 0.7  # of the server
COHORTS = [[0], [6], [0, 1, 3, 4], [2, 5, 0, 3], [6], ALL, [1, 5], [0, 2, 4]]
"""One client is too few to form two groups, and client 6 has no samples."""


def labels() -> np.ndarray:
    return np.random.default_rng(4).integers(0, C, sum(SIZES))


def played(client, data=None):
    """Run two epochs of gradient descent on a softmax -> the models after every round, result."""
    written = {
        "name": "groups",
        "rounds": len(COHORTS),
        "data": {"clients": len(SIZES), "test": 0.0, **(data or {})},
        "cohort": {"kind": "listed", "rounds": COHORTS},
        "numerics": {"dtype": "float64"},
        "client": {**client, "lr": LR, "batch": "full", "epochs": 2},
        "server": ["mean", {"kind": "sgd", "lr": STEP}],
    }
    x, y = points()[0], labels()
    model = (lambda key: {"W": jnp.zeros((x.shape[1], C))}), (lambda p, x: x @ p["W"])
    seen = []
    result = fedsim.run(
        written,
        data=fedsim.Arrays(x, y),
        model=model,
        partition=consecutive(SIZES),
        watch=lambda e, s, row: seen.append(np.asarray(row.server.shared["params"]["W"])),
    )
    return seen[1:], result


class Reference:
    """FedGroup in NumPy, and FlexCFL where `shift` is given; labels move on every `period`."""

    def __init__(self, k, shift=None, eta_g=0.0, period=10**9):
        self.x, self.owner = points()
        self.y = labels()
        self.k, self.shift, self.eta_g, self.period = k, shift, eta_g, period
        self.start = np.zeros((self.x.shape[1], C))
        self.theta = [self.start] * k
        self.directions = None
        self.cluster, self.counts = {}, {}

    def labels_of(self, i, number):
        return (self.y[self.owner == i] + (number - 1) // self.period) % C

    def update(self, i, start, number):
        x, y, w = self.x[self.owner == i], self.labels_of(i, number), start
        for _ in range(2):
            p = np.exp(log_softmax(x @ w))
            p[np.arange(len(y)), y] -= 1
            w = w - LR * x.T @ p / len(y)
        return w - start

    def round(self, cohort, number):
        able = [i for i in cohort if SIZES[i]]
        now = {i: np.bincount(self.labels_of(i, number), minlength=C) for i in able}
        new = []
        for i in able:
            moved = i in self.cluster and self.shift is not None
            moved = moved and abs(now[i] - self.counts[i]).sum() > self.shift * SIZES[i]
            if moved or i not in self.cluster:
                new.append(i)
        at = lambda i: self.start if i in new else self.theta[self.cluster[i]]
        delta = {i: self.update(i, at(i), number) for i in able}

        counted = [i for i in able if i not in new]
        if self.directions is None and len(new) >= self.k:
            counted = new
            for i, group in zip(new, best_parts([delta[i] for i in new], self.k), strict=True):
                self.cluster[i] = group
            members = lambda g: [delta[i] for i in new if self.cluster[i] == g]
            self.directions = [np.mean(members(g), axis=0) for g in range(self.k)]
        elif self.directions is not None:
            for i in new:
                alike = [cosine(delta[i], direction) for direction in self.directions]
                self.cluster[i] = int(np.argmax(alike))
        if self.directions is not None:
            self.counts |= {i: now[i] for i in new}

        trained = []
        for g in range(self.k):
            members = [i for i in counted if self.cluster[i] == g]
            if members:
                weights = np.array([SIZES[i] for i in members], float)
                mean = np.tensordot(weights / weights.sum(), [delta[i] for i in members], 1)
                self.theta[g] = self.theta[g] + STEP * mean
                trained.append(g)
        if self.eta_g:
            self.mix(trained)

    def mix(self, trained):
        """As the authors' `inter_group_aggregation`."""
        models = [self.theta[g] for g in trained]
        scale = [np.sum(model**2) ** 0.5 for model in models]
        for place, g in enumerate(trained):
            weights = [self.eta_g * (1.0 / s) for s in scale]
            weights[place] = 1
            self.theta[g] = sum(w * m for w, m in zip(weights, models, strict=True)) / sum(weights)


def cosine(a, b):
    return (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)


def best_parts(updates, k):
    """Of all divisions the one whose decomposed cosines are nearest to their means."""
    delta = np.array([update.ravel() for update in updates])
    U = np.linalg.svd(delta.T, full_matrices=False)[0][:, :k]
    points = delta @ U / np.linalg.norm(delta, axis=1)[:, None]
    best = None
    for division in itertools.product(range(k), repeat=len(points)):
        division = np.array(division)
        if len(set(division.tolist())) < k or division[0] != 0:
            continue
        spread = sum(
            ((points[division == g] - points[division == g].mean(0)) ** 2).sum() for g in range(k)
        )
        if best is None or spread < best[0]:
            best = (spread, division.tolist())
    return best[1]


def check(reference, seen, result):
    k = reference.k
    for number, (cohort, got) in enumerate(zip(COHORTS, seen, strict=True), start=1):
        reference.round(cohort, number)
        np.testing.assert_allclose(got, [*reference.theta, reference.start], **NEAR)
    expected = [reference.cluster.get(i, k) for i in range(len(SIZES))]
    assert result.state()["server"]["cluster"].tolist() == expected
    assert set(expected[:-1]) == set(range(k))
    own = [result.model(client=client)["W"] for client in ALL]
    np.testing.assert_allclose(own, [reference.theta[reference.cluster[i]] for i in ALL], **NEAR)


@long
def test_fedgroup_is_that_of_the_paper():
    """With partial cohorts, newcomers, an empty client, a round of nobody, and a server step."""
    seen, result = played({"kind": "fedgroup", "clusters": 2})
    check(Reference(2), seen, result)
    assert result.rounds["fedgroup/joined"].sum() == len(ALL)


@long
def test_flexcfl_is_that_of_its_authors():
    """Labels move on after four rounds, and by that every client is new again."""
    client = {"kind": "flexcfl", "clusters": 2, "shift": 0.2, "eta_g": 0.3}
    skew = [{"kind": "concept_shift", "groups": 1, "every": 4}]
    seen, result = played(client, data={"skew": skew})
    check(Reference(2, shift=0.2, eta_g=0.3, period=4), seen, result)
    assert result.rounds["flexcfl/joined"].sum() > len(ALL)


@long
def test_more_parts_than_different_points_leave_some_empty():
    group = k_means(jnp.ones((4, 2)), jnp.asarray([False, True, True, True]), 3)
    assert np.asarray(group)[1:].tolist() == [0, 0, 0]


def test_models_go_towards_the_others_that_moved():
    params = np.array([[3.0, 4.0], [0.0, 2.0], [9.0, 9.0]])
    moved = jnp.asarray([True, True, False])
    got = towards_others(jnp.asarray(params), moved, 0.5)
    first = (params[0] + 0.5 * params[1] / 2) / (1 + 0.5 / 2)
    second = (params[1] + 0.5 * params[0] / 5) / (1 + 0.5 / 5)
    np.testing.assert_allclose(got, [first, second, params[2]], rtol=1e-6)
