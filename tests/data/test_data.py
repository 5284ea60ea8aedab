"""Checks, splits and federations: faults named by row, sets that never overlap, the right seeds."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsim
from fedsim.assemble.federation import federations_of, resolved_data
from fedsim.data import Arrays, Pool, federate, iid, natural, prepare
from fedsim.errors import DataError, PartitionError
from fedsim.scenario import read
from fedsim.sources.ids import number_ids

F32 = np.dtype("float32")


def numbered_samples(n: int, classes: int = 3, client=None) -> Arrays:
    """Samples that carry their own number, so that one sees where each went."""
    y = np.random.default_rng(n).integers(0, classes, n)
    return Arrays(np.arange(n, dtype=np.float32)[:, None], y, client)


def numbers(x: np.ndarray) -> set[int]:
    return set(x.ravel().astype(int).tolist())


TWO = Arrays(np.zeros((2, 2)), np.zeros(2, int))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (Arrays(np.zeros((3, 2)), np.array([0, -1, 1])), "y: row 1 has label -1"),
        (Arrays(np.zeros((3, 2)), np.array([0, 1, 10**12])), "y: row 2 has label 1000000000000"),
        (Arrays(np.array([[0.0], [np.nan]]), np.array([0, 1])), "x: row 1 is not finite"),
        (Arrays(np.array([[0.0], [1e39]]), np.array([0, 1])), "x: row 1 does not fit float32"),
        (Arrays(np.zeros((3, 2)), np.zeros(2, int)), "x has 3 rows, but y has 2"),
        (Arrays(np.zeros((0, 2)), np.zeros(0, int)), "no samples"),
        (Arrays(np.float64(3), np.zeros(0, int)), "x: a single number"),
        (Arrays(np.zeros((2, 2)), np.array(["a", ""])), "y: row 1 has no label"),
        (Arrays(np.zeros((2, 2)), np.array(["a", None], object)), "y: row 1 has no label"),
        (Arrays(np.zeros((2, 2)), np.array(["a", 1], object)), "are all text, or all numbers"),
        (Arrays(np.zeros((2, 2)), np.zeros((2, 1), int)), "integer labels"),
        (Arrays(np.array([["a"], ["b"]]), np.array([0, 1])), "expected numbers"),
        (TWO._replace(client=np.zeros(3)), "3 ids for 2 samples"),
        (TWO._replace(client=np.zeros((2, 1))), "one id per sample"),
        (TWO._replace(client=np.array([1.0, np.nan])), "client: row 1 has no id"),
        (TWO._replace(client=np.array(["a", None], object)), "client: row 1 has no id"),
        (TWO._replace(client=np.array(["", "a"])), "row 0 has no id"),
        (TWO._replace(x_test=np.zeros((2, 2))), "without y_test"),
        (TWO._replace(y_test=np.zeros(2, int)), "without x_test"),
        (TWO._replace(x_test=np.zeros((2, 3)), y_test=np.zeros(2, int)), "samples have shape"),
        (TWO._replace(y=np.zeros(2), x_test=TWO.x, y_test=np.zeros((2, 1))), "y_test: targets"),
        (Arrays(np.zeros((2, 2)), np.array([0.5, np.inf])), "y: row 1 is not finite"),
    ],
)
def test_faults_are_named_with_their_row(arrays, said):
    with pytest.raises(DataError, match=said):
        prepare(arrays, test=0.0, seed=0, dtype=F32)


def test_a_label_may_stand_in_the_test_set_alone():
    arrays = Arrays(np.zeros((3, 2)), np.array([0, 1, 0]), None, np.zeros((1, 2)), np.array([4]))
    sets, classes = prepare(arrays, test=0.5, seed=0, dtype=F32)
    assert classes == 5
    assert len(sets.train.x) == 3 and len(sets.test.x) == 1  # its own test set, none is cut


SHARE = st.floats(0, 0.4)


@settings(deadline=None, max_examples=15)
@given(st.integers(30, 200), SHARE, SHARE, st.integers(0, 5), st.floats(0, 0.9), st.integers(0, 3))
def test_sets_never_overlap_and_lose_nothing(n, test, validation, server, client_test, seed):
    split = {"test": test, "validation": validation, "server": server, "seed": seed, "dtype": F32}
    sets, found = prepare(numbered_samples(n), **split)
    parts = iid()(Pool(sets.train.y, found), 3, np.random.default_rng(seed))
    f = federate(sets, found, parts, client_test, np.random.default_rng(seed))
    held = (f.train.x[holders.indices] for holders in (f.holders, f.test_holders))
    pieces = [f.test.x, f.validation.x, f.server.x, *held]
    assert sum(map(len, pieces)) == n and set.union(*map(numbers, pieces)) == set(range(n))
    assert len(f.test.x) == round(n * test) and len(f.server.x) == server
    assert len(f.validation.x) == round((n - len(f.test.x)) * validation)


def test_all_splits_before_the_partition_are_stratified():
    arrays = Arrays(np.zeros((1000, 1)), np.repeat(np.arange(4), [400, 300, 200, 100]))
    sets, _ = prepare(arrays, test=0.2, validation=0.25, server=60, seed=7, dtype=F32)
    assert np.bincount(sets.test.y).tolist() == [80, 60, 40, 20]
    assert np.bincount(sets.validation.y).tolist() == [80, 60, 40, 20]
    assert np.bincount(sets.server.y).tolist() == [24, 18, 12, 6]
    assert np.bincount(sets.train.y).tolist() == [216, 162, 108, 54]


def test_every_client_keeps_a_sample_to_train_on():
    owner = np.repeat(np.arange(4), [1, 2, 10, 100])
    sets, classes = prepare(numbered_samples(113, 2, owner), test=0.0, seed=0, dtype=F32)
    samples = Pool(sets.train.y, classes, sets.owner, sets.owners)
    parts = natural()(samples, 0, np.random.default_rng(0))
    f = federate(sets, classes, parts, 0.9, np.random.default_rng(0))
    assert f.sizes.tolist() == [1, 1, 1, 10]
    assert np.diff(f.test_holders.offsets).tolist() == [0, 1, 9, 90]
    for holders in (f.holders, f.test_holders):
        assert np.array_equal(owner[holders.indices], holders.owner)
    assert f.label_counts().sum(1).tolist() == f.sizes.tolist()


def test_clients_keep_their_numbers_when_their_samples_are_set_apart():
    client = np.array(["a"] * 30 + ["b"] + ["c"] * 30)
    for seed in range(30):
        sets, _ = prepare(numbered_samples(61, 1, client), test=0.5, seed=seed, dtype=F32)
        assert sets.owners == 3 and set(sets.owner.tolist()) <= {0, 1, 2} and 2 in sets.owner


def test_nothing_left_to_train_on_is_refused():
    with pytest.raises(PartitionError, match="none of 10 samples is left"):
        prepare(numbered_samples(10), test=0.99, seed=0, dtype=F32)
    with pytest.raises(PartitionError, match="12 samples, but only 10 are left"):
        prepare(numbered_samples(10), test=0.0, server=12, seed=0, dtype=F32)


def of(data: dict, seeds=(0, 1), arrays=None):
    scenario = {"name": "s", "data": {"kind": "digits", **data}, "seeds": list(seeds)}
    return federations_of(read(scenario), arrays, F32)


def test_each_split_follows_its_own_seed():
    data = {"validation": 0.1, "client_test": 0.2, "server": {"samples": 50}, "clients": 20}
    one, two = of(data).values()
    for name in ("train", "test", "validation", "server"):
        pairs = zip(getattr(one, name), getattr(two, name), strict=True)
        assert all(a is b for a, b in pairs), name  # held once
    for name in ("holders", "test_holders"):
        assert not np.array_equal(getattr(one, name).indices, getattr(two, name).indices)
    other = of({**data, "seed": 1})[0]
    for name in ("test", "validation", "server"):
        assert len(getattr(one, name).x) == len(getattr(other, name).x) > 0
        assert not np.array_equal(getattr(one, name).x, getattr(other, name).x), name
    again = of(data)[0]
    assert one.fingerprint() == again.fingerprint() != two.fingerprint()
    assert one.fingerprint()["data"] == two.fingerprint()["data"]


def test_keeping_samples_for_clients_scores_leaves_the_partition_alone():
    plain = of({"partition": "dirichlet"})[0]
    kept = of({"partition": "dirichlet", "client_test": 0.3})[0]
    assert np.array_equal(plain.holders.offsets, kept.holders.offsets + kept.test_holders.offsets)
    assert not len(plain.test_holders.indices)
    assert plain.test_holders.offsets.tolist() == [0] * (plain.N + 1)


def test_ids_decide_unless_a_partition_is_asked_for():
    arrays = numbered_samples(60, 3, np.repeat([5, 3, 9], [30, 20, 10]))
    assert of({}, arrays=arrays)[0].sizes.tolist() == [20, 30, 10]
    assert of({"partition": "iid", "clients": 4}, arrays=arrays)[0].sizes.tolist() == [15] * 4
    assert of({"partition": "natural"}, arrays=arrays)[0].sizes.tolist() == [20, 30, 10]


WAYS = {  # to write the clients 10, 2 and 9
    "integers": [10, 2, 9, 2],
    "floats": [10.0, 2.0, 9.0, 2.0],
    "texts": ["10", "2", "9", "2"],
    "texts of floats": ["10.0", "2.0", "9.0", "2.0"],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", ["array", "objects", "frame", "csv", "parquet"])
def test_ids_that_are_numbers_sort_as_numbers_in_every_form(way, form, tmp_path):
    frame = pd.DataFrame({"a": np.arange(4) / 8, "client": WAYS[way], "y": [0, 1, 0, 1]})
    data, section = None, {"test": 0}
    if form in ("csv", "parquet"):
        path = tmp_path / f"t.{form}"
        {"csv": frame.to_csv, "parquet": frame.to_parquet}[form](path, index=False)
        section |= {"kind": form, "path": str(path)}
    elif form == "frame":
        data, section = frame, {"kind": "supplied", "test": 0}
    else:
        ids = np.array(WAYS[way], object if form == "objects" else None)
        data = Arrays(frame[["a"]].to_numpy(), frame["y"].to_numpy(), ids)
    f = of(section, (0,), data)[0]
    assert f.client_names.tolist() == [2, 9, 10] and f.sizes.tolist() == [2, 1, 1]


def test_ids_in_the_usual_form_alone_are_numbers():
    assert number_ids(["2.5", "10"])[1] == [2.5, 10.0]
    assert number_ids(["10", "007"])[1] == ["007", "10"]
    assert number_ids(np.array([1, "b"], object))[1] == ["1", "b"]


def test_a_number_of_clients_beside_ids_is_refused():
    arrays = Arrays(np.eye(6), np.arange(6) % 2, np.arange(6) % 2)
    said = r"data\.clients: 5 clients, but the samples name 2"
    with pytest.raises(fedsim.ScenarioError, match=said):
        of({"clients": 5}, arrays=arrays)
    assert of({"clients": 2, "test": 0}, arrays=arrays)[0].N == 2


@pytest.mark.parametrize(
    "data", [{}, {"partition": {"kind": "dirichlet", "alpha": 0.1}, "validation": 0.1}]
)
@pytest.mark.parametrize("ids", [None, np.repeat([2, 1], 30)])
def test_the_settled_section_reads_the_same(data, ids):
    arrays = numbered_samples(60, 3, ids)
    clients = {} if ids is not None and "partition" not in data else {"clients": 6}
    scenario = read({"name": "s", "data": {"kind": "digits", **clients, **data}})
    f = federations_of(scenario, arrays, F32)[0]
    settled = resolved_data(scenario, arrays, f)
    again = read({"name": "s", "data": settled.model_dump(mode="json")})
    g = federations_of(again, arrays, F32)[0]
    assert f.fingerprint() == g.fingerprint() and settled.clients == f.N
    assert again.spec.data.model_dump() == settled.model_dump()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"validation": 1.0}, "validation: should be a number from 0 to below 1, found 1.0"),
        ({"client_test": -0.1}, "client_test: should be a number from 0 to below 1, found -0.1"),
        ({"server": {"samples": -1}}, "server.samples: should be an integer of at least 0, found"),
        ({"partition": "dirichlet(min_samples=90)"}, "partition: .*min_samples at most 14"),
    ],
)
def test_refusals_name_the_key(data, said):
    with pytest.raises(fedsim.ScenarioError, match=rf"data\.{said}"):
        of(data)
