"""Attacks on data: only malicious clients' training samples change, and success is measured."""

from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_scenarios import FOLDER, late, run, table
from unchanged import run_of_same_bytes

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.assemble.forecast import notes
from fedsim.compose import FAMILIES
from fedsim.compose.shapes import ContractError
from fedsim.data import Poison
from fedsim.errors import ScenarioError
from fedsim.fields.poisons.poisoning import METRIC, poisoned, with_triggered
from fedsim.report.context import context_of
from fedsim.report.page import charts, setting
from fedsim.runs import sweep
from fedsim.scenario import read

RNG = np.random.default_rng(0)
CLASSES, N, MALICIOUS = 5, 8, [1, 4, 6, 7]
BYTES = fedsim.Arrays(
    RNG.integers(0, 256, (200, 7, 8, 2), np.uint8), np.arange(200) % CLASSES, scale=1 / 255
)
FLOATS = fedsim.Arrays(RNG.normal(size=(200, 7, 8)), np.arange(200) % CLASSES)
ROWS = fedsim.Arrays(RNG.normal(size=(200, 20)), np.arange(200) % CLASSES)
TEXTS = fedsim.Arrays(RNG.integers(0, 9, (60, 8)), RNG.integers(0, 9, (60, 8)))
WORDS = fedsim.Arrays(RNG.integers(0, 9, (60, 8)), np.arange(60) % 3, vocabulary=9)
TARGETS = fedsim.Arrays(RNG.normal(size=(60, 4)), RNG.normal(size=60))
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
CLEAN = (
    "test.x",
    "test.y",
    "validation.x",
    "validation.y",
    "server.x",
    "server.y",
    "holders.indices",
    "holders.offsets",
    "test_holders.indices",
)


def link(kind, **parameters):
    return {"kind": kind, **parameters}


def federation(*attacks, data=FLOATS, seed=0, malicious: Any = MALICIOUS, base=BASE, **sections):
    scenario = {
        "name": "poisons",
        "data": {**base, "attack": list(attacks)},
        "fleet": {"malicious": malicious},
        "seeds": [seed],
        **sections,
    }
    return federations_of(read(scenario), data, np.dtype("float32"))[seed]


def of(f, client):
    return f.holders.of(client)


def test_every_attack_is_in_the_tables():
    assert {
        k for k, make in FAMILIES["data_attack"].items() if make.__module__.startswith("fedsim.")
    } == set(KINDS)


@pytest.mark.parametrize("data", [BYTES, FLOATS], ids=["bytes", "floats"])
@pytest.mark.parametrize("kind", KINDS)
def test_only_training_samples_of_malicious_clients_change(kind, data):
    given = fedsim.Arrays(np.array(data.x), np.array(data.y), scale=data.scale)
    plain, attacked = federation(data=data), federation(link(kind, **KINDS[kind]), data=given)
    assert np.array_equal(given.x, data.x) and np.array_equal(given.y, data.y)
    assert all(
        np.array_equal(attrgetter(name)(plain), attrgetter(name)(attacked)) for name in CLEAN
    )
    assert attacked.train.x.dtype == plain.train.x.dtype and attacked.scale == plain.scale
    others = np.setdiff1d(
        np.arange(len(plain.train.x)), np.concatenate([of(plain, k) for k in MALICIOUS])
    )
    for now, before in zip(attacked.train, plain.train, strict=True):
        assert np.array_equal(now[others], before[others])
    other_x = (attacked.train.x != plain.train.x).reshape(len(plain.train.x), -1).any(1)
    differs = other_x | (attacked.train.y != plain.train.y)
    counts = attacked.skews[f"attack/{kind}"]
    assert counts.tolist() == [int(differs[of(plain, k)].sum()) for k in range(N)]
    assert (counts[MALICIOUS] > 0).sum() >= 2 and counts.sum() == differs.sum()
    one, other = plain.fingerprint(), attacked.fingerprint()
    assert one["data"] == other["data"] and one["partition"] != other["partition"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_attack_is_decided_by_seed_and_client_alone(kind):
    attack, first = link(kind, **KINDS[kind]), [1, 4]
    one, again = federation(attack), federation(attack, method="scaffold", rounds=9)
    assert np.array_equal(one.train.x, again.train.x) and np.array_equal(one.train.y, again.train.y)
    fewer = federation(attack, malicious=first)
    for client in first:
        assert np.array_equal(one.train.x[of(one, client)], fewer.train.x[of(one, client)])
        assert np.array_equal(one.train.y[of(one, client)], fewer.train.y[of(one, client)])
    if kind not in ("label_flip", "edge_case"):
        elsewhere = poisoned_alone(kind, seed=1).train.y != poisoned_alone(kind, seed=0).train.y
        assert elsewhere.any()


def poisoned_alone(kind, seed):
    """The samples under one partition, poisoned as under a seed."""
    plain, poison = federation(), FAMILIES["data_attack"][kind](**KINDS[kind])
    rng = lambda tag, client: np.random.default_rng([seed, tag, client])
    return poisoned(
        plain, kind, poison, np.isin(np.arange(N), MALICIOUS), rng, np.dtype("float32"), plain
    )


def test_empty_clients_are_passed_over():
    base = {
        **BASE,
        "client_test": 0,
        "partition": {"kind": "dirichlet", "alpha": 0.02, "min_samples": 0},
    }
    plain, everybody = (
        federation(base=base),
        federation(link("label_flip"), base=base, malicious=1.0),
    )
    empty = np.flatnonzero(plain.sizes == 0)
    assert len(empty) and np.array_equal(
        everybody.train.y[plain.holders.indices], CLASSES - 1 - plain.train.y[plain.holders.indices]
    )
    parts = federation(
        link("distributed_backdoor", **KINDS["distributed_backdoor"]), base=base, malicious=1.0
    )
    bars = [(0, 0), (0, 4), (2, 0), (2, 4)]
    for place, client in enumerate(np.flatnonzero(plain.sizes)):
        rows = of(plain, client)
        changed = np.argwhere((parts.train.x[rows] != plain.train.x[rows]).any(0))
        row, column = bars[place % 4]
        assert {tuple(pixel) for pixel in changed} <= {(row, column + i) for i in range(3)}
    nobody = federation(link("backdoor"), base=base, malicious=[int(empty[0])])
    assert (
        np.array_equal(nobody.train.x, plain.train.x)
        and len(nobody.aims[METRIC].x)
        and not nobody.skews["attack/backdoor"].any()
    )


@pytest.mark.parametrize(
    ("parameters", "flipped"),
    [
        ({}, lambda y: CLASSES - 1 - y),
        ({"map": "mirror"}, lambda y: CLASSES - 1 - y),
        ({"map": "next"}, lambda y: (y + 1) % CLASSES),
        ({"source": 3, "target": 0}, lambda y: np.where(y == 3, 0, y)),
    ],
)
def test_flipped_labels(parameters, flipped):
    plain, attacked = federation(), federation(link("label_flip", **parameters))
    rows = np.concatenate([of(plain, k) for k in MALICIOUS])
    assert np.array_equal(attacked.train.y[rows], flipped(plain.train.y[rows])) and np.array_equal(
        attacked.train.x, plain.train.x
    )
    chosen = plain.test.y == 3 if parameters.get("source") else np.zeros(len(plain.test.y), bool)
    assert list(attacked.aims) == ([METRIC] if chosen.any() else [])
    for aim in attacked.aims.values():
        assert np.array_equal(aim.x, plain.test.x[chosen]) and set(aim.y.tolist()) == {0}


def test_random_labels_are_uniform():
    many = fedsim.Arrays(np.zeros((4000, 1)), np.zeros(4000, int) + (np.arange(4000) == 0) * 4)
    attacked = federation(link("label_random"), data=many, malicious=1.0)
    shares = np.bincount(attacked.train.y[attacked.holders.indices], minlength=CLASSES) / len(
        attacked.holders.indices
    )
    np.testing.assert_allclose(shares, 1 / CLASSES, atol=0.04)


def square(shape, size):
    return [(shape[0] - size + i, shape[1] - size + j) for i in range(size) for j in range(size)]


PATTERNS = {
    "square": square((7, 8), 3),
    "cross": [(4, 6), (5, 5), (5, 6), (5, 7), (6, 6)],
    "checkerboard": [(4, 5), (4, 7), (5, 6), (6, 5), (6, 7)],
}


@pytest.mark.parametrize("data", [BYTES, FLOATS], ids=["bytes", "floats"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_backdoor_is_its_pattern_and_its_label(pattern, data):
    plain = federation(data=data)
    attacked = federation(
        link("backdoor", pattern=pattern, target=2, share=0.4, value=0.6), data=data
    )
    stored = 153 if data is BYTES else np.float32(0.6)
    for client in MALICIOUS:
        rows = of(plain, client)
        changed = [
            row for row in rows if not np.array_equal(attacked.train.x[row], plain.train.x[row])
        ]
        assert len(changed) == max(1, round(0.4 * len(rows)))
        for row in rows:
            want = np.array(plain.train.x[row])
            for i, j in PATTERNS[pattern] if row in changed else ():
                want[i, j] = stored
            assert np.array_equal(attacked.train.x[row], want) and attacked.train.y[row] == (
                2 if row in changed else plain.train.y[row]
            )
    of_others = np.flatnonzero(plain.test.y != 2)
    want = np.array(plain.test.x[of_others])
    for i, j in PATTERNS[pattern]:
        want[:, i, j] = stored
    assert (
        np.array_equal(attacked.aims[METRIC].x, want)
        and attacked.aims[METRIC].x.dtype == plain.test.x.dtype
    )
    assert (attacked.aims[METRIC].y == 2).all() and len(attacked.aims[METRIC].y) == len(of_others)


def test_the_parts_of_a_distributed_backdoor_make_its_trigger():
    parameters = {"parts": 3, "target": 1, "share": 1.0, "size": 2, "gap": 1, "value": 9.0}
    bars = [[(0, 0), (0, 1)], [(0, 3), (0, 4)], [(2, 0), (2, 1)]]
    plain, attacked = federation(), federation(link("distributed_backdoor", **parameters))
    for place, client in enumerate(MALICIOUS):
        rows = of(plain, client)
        want = np.array(plain.train.x[rows])
        for i, j in bars[place % 3]:
            want[:, i, j] = 9
        assert np.array_equal(attacked.train.x[rows], want) and (attacked.train.y[rows] == 1).all()
    want = np.array(plain.test.x[plain.test.y != 1])
    for bar in bars:
        for i, j in bar:
            want[:, i, j] = 9
    assert np.array_equal(attacked.aims[METRIC].x, want)


def test_vectors_have_patterns_too():
    plain = federation(data=ROWS)
    flat = federation(link("backdoor", size=2, share=1.0, value=7.0), data=ROWS)
    assert (flat.aims[METRIC].x[:, -2:] == 7).all() and (flat.aims[METRIC].x[:, :-2] != 7).all()
    parts = federation(link("distributed_backdoor", size=2, gap=1, share=1.0, value=7.0), data=ROWS)
    marked = np.isin(np.arange(20), [0, 1, 3, 4, 6, 7, 9, 10])
    assert (parts.aims[METRIC].x[:, marked] == 7).all() and (
        parts.aims[METRIC].x[:, ~marked] != 7
    ).all()
    rows = of(plain, MALICIOUS[1])
    assert np.argwhere((parts.train.x[rows] != plain.train.x[rows]).any(0)).ravel().tolist() == [
        3,
        4,
    ]


def furthest(x, rows, share):
    mean = sum(x[row].astype(float) for row in rows) / len(rows)
    return sorted(rows, key=lambda row: -float(((x[row] - mean) ** 2).sum()))[
        : max(1, round(share * len(rows)))
    ]


def test_edge_cases_are_the_tail_of_a_class():
    plain, attacked = federation(), federation(link("edge_case", **KINDS["edge_case"]))
    for client in MALICIOUS:
        rows = [row for row in of(plain, client) if plain.train.y[row] == 3]
        changed = [row for row in of(plain, client) if attacked.train.y[row] != plain.train.y[row]]
        assert set(changed) == set(furthest(plain.train.x, rows, 0.3) if rows else [])
        assert all(attacked.train.y[row] == 1 for row in changed)
    tested = furthest(plain.test.x, np.flatnonzero(plain.test.y == 3).tolist(), 0.3)
    assert (
        np.array_equal(attacked.aims[METRIC].x, plain.test.x[sorted(tested)])
        and attacked.train.x is not attacked.aims[METRIC].x
    )


def test_attacks_follow_skews_and_one_another():
    skewed = federation(base={**BASE, "skew": [link("label_noise", rate=0.5)]})
    both = federation(
        link("label_flip"),
        link("backdoor", share=1.0),
        base={**BASE, "skew": [link("label_noise", rate=0.5)]},
    )
    assert list(both.skews) == ["skew/label_noise", "attack/label_flip", "attack/backdoor"]
    honest = of(skewed, 0)
    assert (
        np.array_equal(both.train.y[honest], skewed.train.y[honest])
        and (both.train.y[of(both, 1)] == 0).all()
    )
    assert len(both.aims[METRIC].x)


@pytest.mark.parametrize(
    ("attack", "data", "malicious", "message"),
    [
        (link("backdoor"), TARGETS, 0.5, "backdoor changes classes, and these targets are numbers"),
        (
            link("label_random"),
            TEXTS,
            0.5,
            "changes the label of a sample, and here every token has one",
        ),
        (
            link("edge_case"),
            WORDS,
            0.5,
            "reads features that are numbers, and these samples are tokens",
        ),
        (
            link("edge_case", source=6, target=7),
            FLOATS,
            0.5,
            "has source 6 and target 7, and there are 5 classes",
        ),
        (link("label_flip", source=1), FLOATS, 0.5, "source and target are given together"),
        (link("label_flip", source=1, target=1), FLOATS, 0.5, "source and target are both 1"),
        (
            link("backdoor", size=8),
            FLOATS,
            0.5,
            "a pattern of 8 pixels, and samples have shape (7, 8); size at most 7",
        ),
        (link("backdoor", pattern="cross"), ROWS, 0.5, "has a cross, which is for images"),
        (link("distributed_backdoor", gap=3), FLOATS, 0.5, "has a pattern of 5 x 9 pixels"),
        (
            link("backdoor", value=1.5),
            BYTES,
            0.5,
            "returned features from 0 to 1.5, and bytes are stored",
        ),
        (link("backdoor", value=1e39), FLOATS, 0.5, "expected finite float32"),
    ],
)
def test_refusals_are_a_line(attack, data, malicious, message):
    with np.errstate(over="ignore"), pytest.raises(ScenarioError) as error:
        federation(
            attack,
            data=data,
            malicious=malicious,
            base={"kind": "supplied", "clients": 4, "test": 0.25},
        )
    assert message in str(error.value) and len(error.value.problems) == 1
    assert "data.attack[0]" in str(error.value)


def test_all_links_are_refused_at_once():
    with pytest.raises(ScenarioError) as error:
        federation(link("backdoor"), link("edge_case"), link("label_flip", source=8, target=9))
    assert [problem.where for problem in error.value.problems] == [
        "data.attack[1]",
        "data.attack[2]",
        "data.attack[2]",
    ]
    with pytest.raises(ScenarioError, match="concept_shift with every"):
        federation(link("label_flip"), base={**BASE, "skew": [link("concept_shift", every=2)]})


SOUND = lambda x, y, classes, place, rng: (x, y)


@pytest.mark.parametrize(
    ("poison", "message"),
    [
        (Poison(lambda x, y, *rest: y), "samples: returned ndarray; expected (x, y)"),
        (Poison(lambda x, y, classes, *rest: (x, y + classes)), "expected 0 to 4"),
        (Poison(lambda x, y, *rest: (x[1:], y)), "samples: returned features"),
        (Poison(lambda x, y, *rest: (x / 0, y)), "expected finite float32"),
        (Poison(SOUND, target=1, trigger=lambda x: x[:, 0]), "trigger: returned features"),
        (Poison(SOUND, target=1, among=lambda x, y: y[1:] == 0), "among: returned bool"),
    ],
)
def test_one_of_a_plug_in_keeps_its_contract(poison, message):
    f, everybody = federation(), np.ones(N, bool)
    with np.errstate(all="ignore"), pytest.raises(ContractError) as error:
        made = poisoned(
            f,
            "own",
            poison,
            everybody,
            lambda *key: np.random.default_rng(key),
            np.dtype("float32"),
            f,
        )
        with_triggered(made, poison, np.dtype("float32"))
    assert message in str(error.value)


def test_cells_of_a_comparison_with_other_malicious_clients_have_other_samples():
    partition = sweep.cached_partition()
    scenario = lambda malicious, *attacks: read(
        {
            "name": "cells",
            "data": {**BASE, "attack": list(attacks)},
            "fleet": {"malicious": malicious},
        }
    )
    made = lambda *parts: partition(scenario(*parts), FLOATS, np.dtype("float32"))[0]
    assert made(0.5) is made(0.0)
    one, same, none = made(0.5, "label_flip"), made(0.5, "label_flip"), made(0.0, "label_flip")
    assert one is same and not np.array_equal(one.train.y, none.train.y)


def test_the_page_has_a_panel_and_says_what_is_attacked():
    rows = [
        {"method": "mean", "seed": 0, "round": r, "test_loss": 1.0, "attack_success": 0.1 * r}
        for r in range(3)
    ]
    table = pd.DataFrame(rows).assign(bytes_up=0.0, bytes_down=0.0, virtual_seconds=0.0)
    groups = charts.charts(table, ["mean"], context_of({}, [{"metric": "test_loss"}]))
    assert [group["words"] for group in groups] == ["test loss", "attack success"]
    record = {
        "scenario": read(
            {"name": "page", "data": {"kind": "digits", "attack": ["label_random"]}}
        ).resolved()
    }
    assert ("attack on data", "label_random") in setting.setting(record)["steps"]


# --------------------------------------------------------------------------------------- whole runs

DATA = {
    "kind": "digits",
    "clients": 6,
    "client_test": 0.2,
    "attack": [link("backdoor", target=3, share=0.5)],
}


def scenario(**sections):
    return {
        "name": "backdoor", "rounds": 4, "data": DATA, "model": "logistic",
        "fleet": {"malicious": [1, 2]},
        "cohort": {"kind": "uniform", "size": 4},
        "client": {"lr": 0.2, "batch": 16}, "numerics": {"lanes": 2},
        **sections,
    }  # fmt: skip


@pytest.fixture(scope="module")
def reference():
    return fedsim.run(scenario(), device="cpu")


@pytest.mark.long
def test_attack_success_is_what_numpy_counts(reference):
    model, f = reference.model(), federations_of(read(scenario()), None, np.dtype("float32"))[0]
    x, y = np.array(f.test.x), f.test.y
    guesses = lambda x: (x.reshape(len(x), -1) @ model["W"] + model["b"]).argmax(1)
    assert reference.rounds["test_accuracy"].iloc[-1] == (guesses(x) == y).mean()
    x[:, -3:, -3:] = 1
    assert reference.rounds["attack_success"].iloc[-1] == (guesses(x)[y != 3] == 3).mean() > 0.5
    table = reference.partition.groupby("client")["attack/backdoor"].first()
    assert table.tolist() == [
        int(client in (1, 2)) * round(0.5 * f.sizes[client]) for client in range(6)
    ]


@pytest.mark.long
def test_kills_and_blocks_change_no_byte_and_seeds_stand_side_by_side(reference, tmp_path):
    run_of_same_bytes(scenario(), tmp_path, cut=3)
    both = fedsim.run(scenario(seeds=[0, 1])).rounds
    alone = both[both["seed"] == 0]["attack_success"].tolist()
    assert alone == reference.rounds["attack_success"].tolist() and len(both) == 2 * len(alone)


@pytest.mark.long
def test_a_comparison_shows_where_there_is_none():
    vary = {"data.attack": [[], DATA["attack"]]}
    rounds = fedsim.compare(scenario(rounds=2), methods=["mean", "median"], vary=vary).rounds
    there = rounds["variant"].str.contains("backdoor")
    assert (
        rounds["attack_success"].notna().tolist() == there.tolist()
        and there.any()
        and not there.all()
    )


@pytest.mark.long
def test_check_says_that_nobody_is_malicious(reference):
    assert not [note for note in notes(reference.experiment) if "malicious" in note]
    nobody = fedsim.run(scenario(rounds=0, fleet={}))
    assert "data.attack has backdoor, and no client is malicious; set fleet.malicious" in notes(
        nobody.experiment
    )
    assert nobody.rounds["attack_success"].notna().all()


@pytest.mark.long
@pytest.mark.parametrize(
    "line", table(FOLDER / "robust" / "backdoor.yaml"), ids=lambda line: line.command
)
def test_what_comes_out_of_the_scenario_is_what_its_comment_says(line):
    result, sd = run(line.path, line.seeds, line.edits), float(line.stated["sd"])
    success = late(result).groupby("seed")["attack_success"].mean()
    accuracy = result.summary["mean_last_k"].mean()
    assert accuracy == pytest.approx(float(line.stated["mean_last_k"]), abs=0.03)
    assert success.mean() == pytest.approx(float(line.stated["attack_success"]), abs=0.01 + 2 * sd)
    assert success.std() == pytest.approx(sd, abs=0.01 + sd)
