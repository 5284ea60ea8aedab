"""Clients that never train, test samples that have clients, and ids from any column."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.assemble.sample_notes import partition_notes
from fedsim.cli.partition import partition_command
from fedsim.errors import DataError, ScenarioError
from fedsim.scenario import read
from fedsim.sources import fcube
from fedsim.study.label_skew import column_counts

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


def held_rows(f):
    """Numbers of the samples that every client trains on, of one feature."""
    return [f.train.x[f.holders.of(client), 0].astype(int) for client in range(f.N)]


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


def test_natural_by_a_column_that_the_arrays_bring():
    columns = {"ward": np.array(["n", "s"])[np.arange(100) % 2], "year": 2000 + np.arange(100) % 4}
    arrays = TESTED._replace(columns=columns)
    (f,) = federations(arrays, partition="natural(column=ward)").values()
    assert f.client_names.tolist() == ["n", "s"]
    assert not len(f.test_holders.indices) and len(f.test.x) == 30
    assert [set(rows % 2) for rows in held_rows(f)] == [{0}, {1}]
    arrays, half = ROWS._replace(columns=columns), {"clients": 0.5}
    (f,) = federations(arrays, partition="natural(column=year)", test=half).values()
    assert f.client_names.tolist() == [2000, 2001, 2002, 2003] and f.held_out.sum() == 2


TABLE = "age,ward,doctor,y\n" + "".join(f"{i},{'ns'[i % 2]},d{i % 5},{i % 3}\n" for i in range(60))


@pytest.mark.parametrize("source", ["csv", "frame", "parquet", "npz"])
def test_a_column_that_the_partition_names_is_no_feature(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").write_text(TABLE)
    frame = pd.read_csv(tmp_path / "w.csv")
    arrays, data = None, {"kind": source, "path": f"w.{source}", "columns": ["doctor"]}
    if source == "frame":
        arrays, data = frame, {"columns": ["doctor"]}
    elif source == "parquet":
        frame.to_parquet(tmp_path / "w.parquet")
    elif source == "npz":
        members = {name: frame[name].to_numpy(str) for name in ("ward", "doctor")}
        members |= {"x": frame[["age"]].to_numpy(float), "y": frame["y"].to_numpy()}
        np.savez(tmp_path / "w.npz", **members)
    data["test"] = 0
    (f,) = federations(arrays, **data, partition="natural(column=ward)").values()
    assert f.client_names.tolist() == ["n", "s"] and f.train.x.shape == (60, 1)
    (f,) = federations(arrays, **data, partition="domains(column=doctor)", clients=5).values()
    assert [len(set(rows % 5)) for rows in held_rows(f)] == [1] * 5
    if source != "npz":  # what no partition names is a feature
        assert f.names.features == ("age", "ward=n", "ward=s")
    (by_class,) = federations(arrays, **data, partition="natural(column=y)").values()
    assert by_class.N == 3 and (by_class.label_counts() > 0).sum() == 3
    with pytest.raises((DataError, ScenarioError), match=r"no (column|array) 'wart'"):
        federations(arrays, **data, partition="natural(column=wart)")


@pytest.mark.long
def test_the_command_draws_domains_by_their_column(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").write_text(TABLE)
    data = "kind: csv, path: w.csv, test: 0, clients: 5, partition: 'domains(column=doctor)'"
    (tmp_path / "s.yaml").write_text(f"name: s\ndata: {{{data}}}\n")
    picture = tmp_path / "reports/s-partition/partition.svg"
    assert CliRunner().invoke(partition_command, ["s.yaml"]).exit_code == 0
    assert "<!-- doctor -->" in picture.read_text() and "<!-- label -->" not in picture.read_text()
    CliRunner().invoke(partition_command, ["s.yaml", "--by", "label", "--force"])
    assert "<!-- label -->" in picture.read_text() and "<!-- doctor -->" not in picture.read_text()
    with pytest.raises(DataError, match="column: no column 'warp'; did you mean 'ward'"):
        CliRunner().invoke(partition_command, ["s.yaml", "--by", "warp"], catch_exceptions=False)


def test_columns_are_counted_in_place_of_labels():
    ward = np.array(["n", "s", "w"])[np.arange(100) % 3]
    (f,) = federations(ROWS._replace(columns={"ward": ward})).values()
    counts = column_counts(f, "ward", ward)
    expected = [
        [((ROWS.client == name) & (ward == place)).sum() for place in "nsw"] for name in NAMES
    ]
    assert counts.samples.tolist() == expected
    assert counts.labels == ["n", "s", "w"] and counts.noun == "ward"


def test_a_blank_in_such_a_column_is_refused_with_its_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").write_text(TABLE + "1,,d0,1\n")
    data = {"kind": "csv", "path": "w.csv", "columns": ["doctor"]}
    with pytest.raises(DataError, match=r"w.csv: row 62, column 'ward': a sample without a value"):
        federations(None, **data, partition="natural(column=ward)")


def test_fcube_has_two_opposite_octants_per_client():
    arrays = fcube()
    assert arrays.x.shape == (4000, 3) and arrays.x_test.shape == (1000, 3)
    assert np.abs(arrays.x).max() <= 1
    signs = [set(map(tuple, np.sign(arrays.x[arrays.client == k]).astype(int))) for k in range(4)]
    assert signs == [{(1, a, b), (-1, -a, -b)} for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
    for x, y in ((arrays.x, arrays.y), (arrays.x_test, arrays.y_test)):
        assert np.array_equal(y, (x[:, 0] < 0).astype(int))
    assert all(np.bincount(arrays.y[arrays.client == k]).tolist() == [500, 500] for k in range(4))
    (f,) = federations(None, kind="fcube", samples=10, test_samples=0).values()
    assert f.N == 4 and len(f.test.x) == 8 and np.array_equal(fcube(5, 5, 3).x, fcube(5, 5, 3).x)
