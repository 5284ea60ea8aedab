"""Who holds what: numbers that can be checked by hand, and a picture that fits any terminal."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.cli.partition import print_partition
from fedsim.disk import tables as frames
from fedsim.scenario import read
from fedsim.study.label_skew import (
    LabelCounts,
    client_skew,
    counts_of_rows,
    evenly_spaced,
    heterogeneity,
    label_counts,
    overall_skew,
    partition_rows,
)

# three clients, two labels: 3 + 1, 0 + 4, and nobody
BY_HAND = LabelCounts(np.arange(3), [0, 1], np.array([[3, 1], [0, 4], [0, 0]]))
BLOBS = {
    "name": "blobs",
    "data": {"kind": "gaussian_blobs", "clients": 6, "samples": 120, "classes": 3, "shape": [4]},
}
LINE = {
    "name": "line",
    "data": {"kind": "linear_regression", "clients": 5},
    "model": {"kind": "linear"},
}


def federation(scenario):
    return federations_of(read(scenario), None, np.dtype("float32"))[0]


def counted(counts):
    """Label counts from a table, labels named 0, 1, ..."""
    counts = np.asarray(counts)
    return LabelCounts(np.arange(len(counts)), list(range(counts.shape[1])), counts)


def heterogeneity_of(held):
    return heterogeneity(federation(BLOBS))._replace(
        counts=held, clients=client_skew(held), overall=overall_skew(held)
    )


tables = st.integers(1, 6).flatmap(
    lambda C: st.lists(st.lists(st.integers(0, 9), min_size=C, max_size=C), min_size=1, max_size=8)
)


def test_the_numbers_of_every_client_are_those_reckoned_by_hand():
    table = client_skew(BY_HAND)
    assert table["client"].tolist() == [0, 1, 2]
    assert table["samples"].tolist() == [4, 4, 0]
    assert table["classes"].tolist() == [2, 1, 0]
    entropy = 0.25 * 2 + 0.75 * np.log2(4 / 3)
    assert table["entropy_bits"].tolist()[:2] == pytest.approx([entropy, 0])
    # together 3/8 and 5/8
    assert table["total_variation"].tolist()[:2] == pytest.approx([3 / 4 - 3 / 8, 1 - 5 / 8])
    assert table["largest_share"].tolist()[:2] == [0.75, 1]
    assert table["largest_label"].tolist()[:2] == [0, 1]
    numbers = ["entropy_bits", "total_variation", "largest_share", "largest_label"]
    assert table.iloc[2][numbers].isna().all()


def test_the_numbers_of_all_clients_are_those_reckoned_by_hand():
    o = overall_skew(BY_HAND)
    assert (o["clients"], o["clients_without_samples"], o["samples"], o["labels"]) == (3, 1, 8, 2)
    assert (o["samples_min"], o["samples_median"], o["samples_max"]) == (0, 4, 4)
    assert o["samples_gini"] == pytest.approx(1 / 3)  # Σ|n_i − n_j| / (2 N Σ n) = 16 / 48
    assert overall_skew(counted([[0]] * 99 + [[5]]))["samples_gini"] == pytest.approx(0.99)
    assert o["samples_cv"] == pytest.approx(np.sqrt(0.5))
    assert o["classes_mean"] == 1.5
    assert o["total_variation_mean"] == o["total_variation_max"] == pytest.approx(3 / 8)


@settings(deadline=None, max_examples=8)
@given(tables)
def test_a_random_deal_has_the_distance_that_the_hypergeometric_distribution_foretells(counts):
    held = counted(counts)
    of_label, S, sizes = held.samples.sum(0), held.samples.sum(), held.sizes[held.sizes > 0]
    if not S:
        return
    far = []
    for n in sizes:
        drawn = np.arange(n + 1)
        each = [np.abs(drawn / n - K / S) @ stats.hypergeom(S, K, n).pmf(drawn) for K in of_label]
        far.append(sum(each) / 2)
    assert overall_skew(held)["total_variation_iid"] == pytest.approx(np.mean(far), abs=1e-9)


def test_an_iid_partition_is_as_skewed_as_a_random_deal_and_a_dirichlet_one_much_more(root):
    iid = heterogeneity(federation(root / "scenarios/iid.yaml")).overall
    dirichlet = heterogeneity(federation(root / "scenarios/dirichlet.yaml")).overall
    assert iid["total_variation_mean"] == pytest.approx(iid["total_variation_iid"], abs=0.02)
    assert dirichlet["total_variation_mean"] > 1.5 * dirichlet["total_variation_iid"]


@pytest.mark.long
@pytest.mark.parametrize("scenario", [BLOBS, LINE], ids=["classes", "targets"])
def test_the_rows_are_those_that_a_run_writes_and_give_the_same_counts_back(scenario):
    f = federation(scenario)
    rows = partition_rows(label_counts(f), f.skews)
    result = fedsim.run({**scenario, "rounds": 0})
    written = frames.to_csv(result.records["partition"], frames.PARTITION)
    assert frames.to_csv([rows], frames.PARTITION) == written
    again = counts_of_rows(result.partition, clients=f.N)
    assert again.labels == label_counts(f).labels
    assert np.array_equal(again.samples, label_counts(f).samples)


def test_a_file_of_several_seeds_gives_the_first_one():
    of_seed = federations_of(read({**BLOBS, "seeds": [3, 7]}), None, np.dtype("float32"))
    rows = [pd.DataFrame(heterogeneity(f, seed=seed).rows) for seed, f in of_seed.items()]
    held = counts_of_rows(pd.concat(rows))
    assert np.array_equal(held.samples, of_seed[3].label_counts())


def test_clients_that_have_no_row_are_empty_where_it_is_said_how_many_there_are():
    rows = pd.DataFrame({"client": [1, 4], "label": ["cat", "=dog()"], "samples": [2, 3]})
    assert counts_of_rows(rows).clients.tolist() == [1, 4]
    assert counts_of_rows(rows, clients=6).sizes.tolist() == [0, 2, 0, 0, 3, 0]
    assert counts_of_rows(rows).labels == ["=dog()", "cat"]
    assert not len(counts_of_rows(rows.head(0)).clients)


def test_numbered_labels_are_in_the_order_of_numbers_and_others_are_text():
    rows = pd.DataFrame({"client": [0, 0, 0], "label": ["10", "9", "2"], "samples": [1, 2, 3]})
    assert counts_of_rows(rows).labels == [2, 9, 10]
    assert counts_of_rows(rows).samples.tolist() == [[3, 2, 1]]
    for odd in ("inf", "1e300", "0.5", "</script>", float("nan")):
        rows = pd.DataFrame({"client": [0, 0], "label": [odd, "2"], "samples": [1, 2]})
        assert sorted(counts_of_rows(rows).labels) == sorted([str(odd), "2"])


def test_everything_becomes_json_without_nan():
    held = heterogeneity_of(BY_HAND)
    plain = json.loads(json.dumps(held.plain(), allow_nan=False))
    assert plain["clients"][2] == {
        "client": 2, "samples": 0, "classes": 0, "entropy_bits": None, "total_variation": None,
        "largest_share": None, "largest_label": None,
    }  # fmt: skip
    assert repr(plain["clients"][0]["largest_label"]) == "0" and plain["overall"]["samples"] == 8


EXTREMES = {
    "one client": counted([[5, 3]]),
    "one class": counted([[5], [3], [0]]),
    "nobody has any": counted([[0, 0], [0, 0]]),
    "by hand": BY_HAND,
    "no classes": LabelCounts(np.arange(3), [], np.array([[4], [0], [9]])),
    "nobody": LabelCounts(np.arange(0), [], np.zeros((0, 1), int)),
    "10,000 clients": counted(np.random.default_rng(0).poisson(0.3, (10_000, 10))),
    "60 labels": counted(np.random.default_rng(0).poisson(3, (40, 60))),
    "names": LabelCounts(
        np.arange(2), ["</script>", "\x1b[31mred", "long " * 9, "猫"], np.ones((2, 4), int)
    ),
}


def printed(held, capsys):
    print_partition(heterogeneity_of(held))
    return capsys.readouterr().out


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", EXTREMES)
def test_any_partition_fits_a_narrow_terminal(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    said = printed(EXTREMES[name], capsys)
    assert all(c.isprintable() or c == "\n" for c in said)
    assert max(map(len, said.splitlines())) <= 60


def test_of_many_clients_the_most_skewed_are_listed_and_it_is_said(capsys):
    assert evenly_spaced(10_000, 3).tolist() == [0, 5000, 9999]
    assert evenly_spaced(4, 9).tolist() == [0, 1, 2, 3]
    said = printed(EXTREMES["10,000 clients"], capsys)
    assert "... the 20 most skewed of 10,000 clients" in said
