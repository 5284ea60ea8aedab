"""Attacks on data change only the training samples of malicious clients, by hand for each kind."""

from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from conftest import own_kinds_of

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.fields.poisons.poisoning import METRIC, poisoned
from fedsim.runs import sweep
from fedsim.scenario import read

RNG = np.random.default_rng(0)
CLASSES, N, MALICIOUS = 5, 8, [1, 4, 6, 7]
BYTES = fedsim.Arrays(
    RNG.integers(0, 256, (200, 7, 8, 2), np.uint8), np.arange(200) % CLASSES, scale=1 / 255
)
FLOATS = fedsim.Arrays(RNG.normal(size=(200, 7, 8)), np.arange(200) % CLASSES)
ROWS = fedsim.Arrays(RNG.normal(size=(200, 20)), np.arange(200) % CLASSES)
FLOAT = np.dtype("float32")
BASE = {
    "kind": "supplied",
    "clients": N,
    "test": 0.25,
    "validation": 0.1,
    "client_test": 0.3,
    "server": {"samples": 10},
}
KINDS: dict[str, dict[str, Any]] = {
    "label_flip": {},
    "label_random": {},
    "backdoor": {"target": 2, "share": 0.4},
    "distributed_backdoor": {"target": 2, "share": 0.4},
    "edge_case": {"source": 3, "target": 1, "share": 0.3},
}
UNCHANGED = [f"{purpose}.{what}" for purpose in ("test", "validation", "server") for what in "xy"]
UNCHANGED += ["holders.indices", "holders.offsets", "test_holders.indices"]
each_storage = pytest.mark.parametrize("data", [BYTES, FLOATS], ids=["bytes", "floats"])


def link(kind, **parameters):
    return {"kind": kind, **parameters}


def federation(*attacks, data=FLOATS, malicious: Any = MALICIOUS, base=BASE, **sections):
    scenario = {
        "name": "poisons",
        "data": {**base, "attack": list(attacks)},
        "fleet": {"malicious": malicious},
        **sections,
    }
    return federations_of(read(scenario), data, FLOAT)[0]


def of(f, client):
    """The rows of a client's training samples."""
    return f.holders.of(client)


def differing(one, other):
    """Which training samples differ."""
    features = (one.train.x != other.train.x).reshape(len(one.train.x), -1).any(1)
    return features | (one.train.y != other.train.y)


def stamped(x, pixels, value):
    """The images with a value at some pixels."""
    x = np.array(x)
    for i, j in pixels:
        x[:, i, j] = value
    return x


def test_every_attack_is_in_the_tables():
    assert own_kinds_of("data_attack").keys() == set(KINDS)


@each_storage
@pytest.mark.parametrize("kind", KINDS)
def test_only_training_samples_of_malicious_clients_change(kind, data):
    given = fedsim.Arrays(np.array(data.x), np.array(data.y), scale=data.scale)
    plain = federation(data=data)
    attacked = federation(link(kind, **KINDS[kind]), data=given)
    assert np.array_equal(given.x, data.x) and np.array_equal(given.y, data.y)
    for name in UNCHANGED:
        assert np.array_equal(attrgetter(name)(plain), attrgetter(name)(attacked)), name
    assert attacked.train.x.dtype == plain.train.x.dtype and attacked.scale == plain.scale

    changed = differing(plain, attacked)
    counts = attacked.skews[f"attack/{kind}"]
    assert counts.tolist() == [int(changed[of(plain, k)].sum()) for k in range(N)]
    assert counts.sum() == changed.sum() == counts[MALICIOUS].sum()
    assert (counts[MALICIOUS] > 0).sum() >= 2
    one, other = plain.fingerprint(), attacked.fingerprint()
    assert one["data"] == other["data"] and one["partition"] != other["partition"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_attack_is_decided_by_seed_and_client_alone(kind):
    attack, first = link(kind, **KINDS[kind]), [1, 4]
    one, again = federation(attack), federation(attack, method="scaffold", rounds=9)
    assert not differing(one, again).any()
    fewer = federation(attack, malicious=first)
    assert not differing(one, fewer)[np.concatenate([of(one, client) for client in first])].any()
    if kind in ("label_flip", "edge_case"):
        return
    plain, poison = federation(), own_kinds_of("data_attack")[kind](**KINDS[kind])
    is_malicious = np.isin(np.arange(N), MALICIOUS)
    of_seed = []
    for seed in (0, 1):  # of the draws alone: the partition stays
        rng = lambda tag, client, seed=seed: np.random.default_rng([seed, tag, client])
        of_seed.append(poisoned(plain, kind, poison, is_malicious, rng, FLOAT, plain))
    assert differing(*of_seed).any()


def test_empty_clients_are_passed_over():
    """Parts of a trigger go to the clients with samples in turn."""
    partition = {"kind": "dirichlet", "alpha": 0.02, "min_samples": 0}
    base = {**BASE, "client_test": 0, "partition": partition}
    plain = federation(base=base)
    parts = link("distributed_backdoor", **KINDS["distributed_backdoor"])
    attacked = federation(parts, base=base, malicious=1.0)
    bars = [(0, 0), (0, 4), (2, 0), (2, 4)]
    for place, client in enumerate(np.flatnonzero(plain.sizes)):
        rows = of(plain, client)
        changed = np.argwhere((attacked.train.x[rows] != plain.train.x[rows]).any(0))
        row, column = bars[place % 4]
        assert {tuple(pixel) for pixel in changed} <= {(row, column + i) for i in range(3)}

    empty = np.flatnonzero(plain.sizes == 0)
    nobody = federation(link("backdoor"), base=base, malicious=[int(empty[0])])
    assert not differing(nobody, plain).any() and len(nobody.aims[METRIC].x)
    assert not nobody.skews["attack/backdoor"].any()


@pytest.mark.parametrize(
    ("parameters", "flipped"),
    [
        ({}, lambda y: CLASSES - 1 - y),
        ({"map": "next"}, lambda y: (y + 1) % CLASSES),
        ({"source": 3, "target": 0}, lambda y: np.where(y == 3, 0, y)),
    ],
)
def test_flipped_labels(parameters, flipped):
    plain, attacked = federation(), federation(link("label_flip", **parameters))
    rows = np.concatenate([of(plain, k) for k in MALICIOUS])
    assert np.array_equal(attacked.train.y[rows], flipped(plain.train.y[rows]))
    assert np.array_equal(attacked.train.x, plain.train.x)
    assert list(attacked.aims) == ([METRIC] if "source" in parameters else [])
    for aim in attacked.aims.values():
        assert np.array_equal(aim.x, plain.test.x[plain.test.y == 3])
        assert set(aim.y.tolist()) == {0}


def test_random_labels_are_uniform():
    many = fedsim.Arrays(np.zeros((4000, 1)), np.zeros(4000, int) + (np.arange(4000) == 0) * 4)
    attacked = federation(link("label_random"), data=many, malicious=1.0)
    labels = attacked.train.y[attacked.holders.indices]
    shares = np.bincount(labels, minlength=CLASSES) / len(labels)
    np.testing.assert_allclose(shares, 1 / CLASSES, atol=0.04)


PATTERNS = {
    "square": [(i, j) for i in (4, 5, 6) for j in (5, 6, 7)],
    "cross": [(4, 6), (5, 5), (5, 6), (5, 7), (6, 6)],
    "checkerboard": [(4, 5), (4, 7), (5, 6), (6, 5), (6, 7)],
}


@each_storage
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_backdoor_is_its_pattern_and_its_label(pattern, data):
    plain = federation(data=data)
    attack = link("backdoor", pattern=pattern, target=2, share=0.4, value=0.6)
    attacked = federation(attack, data=data)
    value = 153 if data is BYTES else np.float32(0.6)
    with_pattern = stamped(plain.train.x, PATTERNS[pattern], value)
    for client in MALICIOUS:
        rows = of(plain, client)
        changed = [row for row in rows if (attacked.train.x[row] != plain.train.x[row]).any()]
        assert len(changed) == max(1, round(0.4 * len(rows)))
        assert np.array_equal(attacked.train.x[changed], with_pattern[changed])
        labels = np.where(np.isin(rows, changed), 2, plain.train.y[rows])
        assert np.array_equal(attacked.train.y[rows], labels)

    of_others = np.flatnonzero(plain.test.y != 2)
    aim = attacked.aims[METRIC]
    assert np.array_equal(aim.x, stamped(plain.test.x[of_others], PATTERNS[pattern], value))
    assert aim.x.dtype == plain.test.x.dtype
    assert aim.y.tolist() == [2] * len(of_others)


def test_the_parts_of_a_distributed_backdoor_make_its_trigger():
    parameters = {"parts": 3, "target": 1, "share": 1.0, "size": 2, "gap": 1, "value": 9.0}
    bars = [[(0, 0), (0, 1)], [(0, 3), (0, 4)], [(2, 0), (2, 1)]]
    plain, attacked = federation(), federation(link("distributed_backdoor", **parameters))
    for place, client in enumerate(MALICIOUS):
        rows = of(plain, client)
        part = stamped(plain.train.x[rows], bars[place % 3], 9)
        assert np.array_equal(attacked.train.x[rows], part)
        assert (attacked.train.y[rows] == 1).all()
    pixels = [pixel for bar in bars for pixel in bar]
    whole = stamped(plain.test.x[plain.test.y != 1], pixels, 9)
    assert np.array_equal(attacked.aims[METRIC].x, whole)


@pytest.mark.parametrize(
    ("attack", "features"),
    [
        (link("backdoor", size=2), [18, 19]),
        (link("distributed_backdoor", size=2, gap=1), [0, 1, 3, 4, 6, 7, 9, 10]),
    ],
)
def test_vectors_have_patterns_too(attack, features):
    attacked = federation({**attack, "share": 1.0, "value": 7.0}, data=ROWS)
    is_marked = np.isin(np.arange(20), features)
    assert ((attacked.aims[METRIC].x == 7) == is_marked).all()


def furthest(x, rows, share):
    mean = sum(x[row].astype(float) for row in rows) / len(rows)
    by_distance = sorted(rows, key=lambda row: -float(((x[row] - mean) ** 2).sum()))
    return by_distance[: max(1, round(share * len(rows)))]


def test_edge_cases_are_the_tail_of_a_class():
    plain, attacked = federation(), federation(link("edge_case", **KINDS["edge_case"]))
    for client in MALICIOUS:
        rows = [row for row in of(plain, client) if plain.train.y[row] == 3]
        changed = [row for row in of(plain, client) if attacked.train.y[row] != plain.train.y[row]]
        assert set(changed) == set(furthest(plain.train.x, rows, 0.3) if rows else [])
        assert all(attacked.train.y[row] == 1 for row in changed)
    tested = furthest(plain.test.x, np.flatnonzero(plain.test.y == 3).tolist(), 0.3)
    assert np.array_equal(attacked.aims[METRIC].x, plain.test.x[sorted(tested)])


def test_attacks_follow_skews_and_one_another():
    base = {**BASE, "skew": [link("label_noise", rate=0.5)]}
    skewed = federation(base=base)
    both = federation(link("label_flip"), link("backdoor", share=1.0), base=base)
    assert list(both.skews) == ["skew/label_noise", "attack/label_flip", "attack/backdoor"]
    honest = of(skewed, 0)
    assert np.array_equal(both.train.y[honest], skewed.train.y[honest])
    assert (both.train.y[of(both, 1)] == 0).all()


def test_cells_of_a_comparison_with_other_malicious_clients_have_other_samples():
    partition = sweep.cached_partition()

    def made(malicious, *attacks):
        data = {**BASE, "attack": list(attacks)}
        cell = read({"name": "cells", "data": data, "fleet": {"malicious": malicious}})
        return partition(cell, FLOATS, FLOAT)[0]

    assert made(0.5) is made(0.0)
    one, same, none = made(0.5, "label_flip"), made(0.5, "label_flip"), made(0.0, "label_flip")
    assert one is same and not np.array_equal(one.train.y, none.train.y)
