"""Clients that never train, and test samples that have clients."""

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.assemble.sample_notes import partition_notes
from fedsim.errors import DataError, ScenarioError
from fedsim.scenario import read

F32 = np.dtype("float32")
RNG = np.random.default_rng(0)
NAMES = np.array(["ann", "bob", "cid", "dan", "eve"])
ROWS = fedsim.Arrays(
    np.arange(100.0)[:, None], RNG.integers(0, 3, 100), NAMES[RNG.integers(0, 5, 100)]
)
SOME = {"clients": 0.2}
TESTED = ROWS._replace(
    x_test=np.arange(100.0, 130)[:, None],
    y_test=RNG.integers(0, 3, 30),
    client_test=np.array(["cid", "ann", "zoe"] * 10),
)


def federations(arrays, seeds=(0,), **data):
    kind = {} if arrays is None else {"kind": "supplied"}
    scenario = {"name": "held", "seeds": list(seeds), "data": {**kind, **data}}
    return federations_of(read(scenario), arrays, F32)


def numbers(x):
    """The numbers of samples of one feature, which is their number."""
    return set(x.ravel().astype(int).tolist())


def own_tests(f):
    """Numbers of every client's own test samples, by its name."""
    everything = np.concatenate([f.train.x, f.test.x]).ravel()
    lists = np.split(everything[f.test_holders.indices], f.test_holders.offsets[1:-1])
    return dict(zip(f.client_names.tolist(), map(numbers, lists), strict=True))


@pytest.mark.parametrize("partition", ["natural", "iid", "dirichlet"])
def test_a_share_of_the_clients_never_trains(partition):
    data = {"partition": partition, "test": {"clients": 0.4}, "validation": 0.1}
    if partition != "natural":
        data["clients"] = 10
    both = federations(ROWS, (0, 1), **data)
    for f in both.values():
        held = np.flatnonzero(f.held_out)
        assert len(held) == round(0.4 * f.N)
        assert (f.sizes[held] == 0).all()
        assert (f.sizes[~f.held_out] > 0).all()
        own, test = own_tests(f), numbers(f.test.x)
        assert set().union(*own.values()) == test
        assert {name for name, rows in own.items() if rows} == set(f.client_names[held].tolist())
        trained, kept = numbers(f.train.x[f.holders.indices]), numbers(f.validation.x)
        assert not trained & test and not kept & trained
        assert len(trained) + len(kept) + len(test) == 100 and f.unused == 0
        (note,) = partition_notes(f)
        tested = f"and are tested on {len(test)} samples of their own"
        assert note == f"{len(held)} of {f.N} clients never train, {tested}"
    one, other = both.values()
    assert np.array_equal(one.held_out, other.held_out)  # drawn by data.seed
    assert one.train.x is other.train.x
    assert (one.test.x is other.test.x) == (partition == "natural")


def test_held_out_clients_are_drawn_by_the_seed_of_the_data_and_validate_nobody():
    data = {"test": {"clients": 0.4}, "validation": 0.1}
    drawn = [federations(ROWS, **data, seed=seed)[0] for seed in range(5)]
    assert len({tuple(f.held_out) for f in drawn}) > 1
    for f in drawn:
        tested, validated = (set(ROWS.client[list(numbers(x))]) for x in (f.test.x, f.validation.x))
        assert tested == set(f.client_names[f.held_out]) and not validated & tested


def test_those_who_train_may_keep_samples_of_their_own_besides():
    (f,) = federations(ROWS, partition="iid", clients=5, test=SOME, client_test=0.5).values()
    assert np.diff(f.test_holders.offsets).tolist() == [10] * 5
    assert f.sizes.tolist() == [0 if held else 10 for held in f.held_out]


def test_statistics_are_those_of_clients_that_train():
    x = np.where(np.isin(ROWS.client, NAMES[:4]), 1.0, 1000.0)[:, None] + ROWS.x / 1000
    for seed in range(20):
        (f,) = federations(ROWS._replace(x=x), test=SOME, standardize=True, seed=seed).values()
        if f.client_names[f.held_out].tolist() == ["eve"]:
            break
    assert np.abs(f.train.x[f.holders.indices].mean()) < 1e-4 and f.test.x.min() > 1000


def test_clients_that_have_no_samples_are_not_drawn():
    partition = "quantity(min_samples=0, sigma=4.0)"
    data = {"partition": partition, "clients": 8, "test": {"clients": 0.5}}
    for seed, f in federations(ROWS, range(8), **data).items():
        present = f.held_out.sum() + (f.sizes > 0).sum()
        assert f.held_out.sum() == round(present / 2), seed
        assert len(f.test.x) and len(f.holders.indices), seed


@pytest.mark.parametrize(
    ("arrays", "data", "said"),
    [
        (TESTED, {"test": SOME}, "test: the samples bring a test set of their own"),
        (TESTED, {"client_test": 0.2}, "client_test: the samples bring test samples of every"),
        (ROWS, {"partition": "iid", "clients": 1, "test": SOME}, "test: 1 client has samples"),
        (ROWS, {"partition": "natural(column=ward)"}, "partition.column: .*'ward'.*none"),
        (ROWS, {"partition": "domains(column=ward)"}, "partition.column: .*no column 'ward'"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(arrays, data, said):
    with pytest.raises(ScenarioError, match=rf"data\.{said}") as error:
        federations(arrays, **data)
    assert len(str(error.value).splitlines()) == 1


def test_test_rows_that_have_clients_are_their_own_and_all_of_them_the_global_set():
    (f,) = federations(TESTED).values()
    assert f.client_names.tolist() == [*NAMES, "zoe"] and f.sizes[-1] == 0 and f.sizes.sum() == 100
    tests = own_tests(f)
    assert tests["cid"] == set(range(100, 130, 3)) and tests["zoe"] == set(range(102, 130, 3))
    assert not tests["bob"]
    assert len(f.test.x) == 30 and f.held_out.tolist() == [False] * 5 + [True]
    assert len(f.train.x) == 100 and f.test_holders.indices.min() == 100  # nothing is copied
    (iid,) = federations(TESTED, partition="iid", clients=4, client_test=0.2).values()
    assert iid.client_names.tolist() == [0, 1, 2, 3] and iid.test_holders.indices.max() < 100


def test_ids_of_the_test_rows_stand_beside_those_of_the_others():
    with pytest.raises(DataError, match="client_test names the clients of the test samples"):
        federations(TESTED._replace(client=None))
    with pytest.raises(DataError, match="client_test: ids of int64, those of client are <U3"):
        federations(TESTED._replace(client_test=np.arange(30)))


@pytest.mark.long
def test_scores_of_clients_are_over_their_own_samples():
    scenario = {"name": "held", "rounds": 1, "model": "logistic", "client": {"lr": 1e-4}}
    result = fedsim.run(scenario, data=TESTED)
    table, final = result.clients.set_index("client"), result.rounds["test_accuracy"].iloc[-1]
    assert table.loc["zoe", "samples"] == 0 and pd.isna(table.loc["bob", "global_accuracy"])
    scored = table["global_accuracy"].dropna()
    assert scored.mean() == pytest.approx(final)  # three clients, ten samples each
    result = fedsim.run({**scenario, "data": {"test": {"clients": 0.4}}}, data=ROWS)
    table, final = result.clients.set_index("client"), result.rounds["test_accuracy"].iloc[-1]
    assert not table["global_accuracy"].isna().any() and (table["samples"] == 0).sum() == 2
    held = table[table["samples"] == 0]
    sizes = [int((ROWS.client == name).sum()) for name in held.index]
    assert np.average(held["global_accuracy"], weights=sizes) == pytest.approx(final)


@pytest.mark.long
def test_seeds_whose_test_sets_differ_in_size_train_side_by_side():
    data = {"kind": "iris", "clients": 9, "partition": "quantity", "test": {"clients": 0.3}}
    scenario = {"name": "held", "rounds": 2, "model": "logistic", "data": data}
    both = fedsim.run({**scenario, "seeds": [0, 1]}).rounds
    alone = fedsim.run({**scenario, "seeds": [1]}).rounds
    assert alone.equals(both[both["seed"] == 1].reset_index(drop=True))
