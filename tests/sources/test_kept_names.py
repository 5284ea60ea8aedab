"""Names of labels and clients stay: in tables, in what is printed, and in what a run is."""

import numpy as np
from test_sample_notes import federation

from fedsim.cli.partition import print_partition
from fedsim.data import Arrays
from fedsim.disk import tables
from fedsim.sources.arrays import Names
from fedsim.study.label_skew import counts_of_rows, heterogeneity

WARDS = Arrays(
    np.eye(4), np.array(["well", "ill", "well", "ill"]), client=np.array(["=b()", "a", "=b()", "a"])
)


def test_names_of_labels_and_clients_stay(capsys):
    _, f = federation(WARDS)
    assert f.names == Names(("ill", "well"), ("=b()", "a"), None)
    rows = heterogeneity(f).rows
    assert rows == {"client": ["=b()", "a"], "label": ["well", "ill"], "samples": [2, 2]}
    assert (
        tables.to_csv([rows], tables.PARTITION) == "client,label,samples\n'=b(),well,2\na,ill,2\n"
    )
    print_partition(heterogeneity(f))
    printed = capsys.readouterr().out
    assert "=b()" in printed and "100 % label well" in printed
    _, dealt = federation(WARDS, partition="iid", clients=2)
    assert dealt.client_names.tolist() == [0, 1] and dealt.label_names == ["ill", "well"]


def test_names_are_part_of_what_a_run_is():
    one = federation(WARDS)[1].fingerprint()
    other = federation(WARDS._replace(client=np.array(["=c()", "a", "=c()", "a"])))[1].fingerprint()
    assert one["data"] == other["data"] and one["partition"] != other["partition"]
    labels = federation(WARDS._replace(y=np.array(["z", "ill", "z", "ill"])))[1].fingerprint()
    assert one["data"] != labels["data"] and one["partition"] == labels["partition"]


def test_names_come_back_from_tables(tmp_path):
    rows = {"client": ["007", "08", "=x"], "label": ["1e3", "b", "b"], "samples": [1, 2, 3]}
    (tmp_path / "partition.csv").write_text(tables.to_csv([rows], tables.PARTITION))
    again = tables.read_table(tmp_path, "partition")
    assert again["client"].tolist() == ["007", "08", "=x"]
    assert again["label"].tolist() == ["1e3", "b", "b"]
    counts = counts_of_rows(again, clients=["007", "08", "09", "=x"])
    assert counts.clients.tolist() == ["007", "08", "09", "=x"]
    assert counts.sizes.tolist() == [1, 2, 0, 3]
