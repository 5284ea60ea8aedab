"""Splits in files: of other tools, of `fedsim data partition`, and faults with their line."""

import gzip
import json

import numpy as np
import pytest
from click.testing import CliRunner

import fedsim
from fedsim.assemble.federation import federations_from, federations_of, partitioned_samples
from fedsim.cli.partition import partition_command
from fedsim.data import Parts, Pool, file, split_text
from fedsim.errors import DataError, MissingFileError, PartitionError, ScenarioError
from fedsim.scenario import read

F32 = np.dtype("float32")
BLOBS = {"kind": "gaussian_blobs", "samples": 120, "classes": 3, "shape": [2], "clients": 6}


def federation(data, arrays=None, name="split"):
    kind = {} if arrays is None else {"kind": "supplied"}
    return federations_of(read({"name": name, "data": {**kind, **data}}), arrays, F32)[0]


def written(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def held(assign, n=10, **pool):
    parts = assign(Pool(np.zeros(n, np.int32), 1, **pool), 99, np.random.default_rng(0))
    lists = [rows.tolist() for rows in np.split(parts.indices, parts.offsets[1:-1])]
    return dict(zip(parts.names or range(len(lists)), lists, strict=True))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "sample,client\n3,0\n1,1\n0,0\n", {0: [3, 0], 1: [1]}),
        ("b.csv", "client,sample\nann,4\nbob,2\nann,1\n", {"ann": [4, 1], "bob": [2]}),
        ("c.csv", 'sample,client,note\n 5 ,"x, y",z\n\n2,w,\n', {"w": [2], "x, y": [5]}),
        ("d.csv", "sample,client\n1,10\n2,9\n,11\n", {9: [2], 10: [1], 11: []}),
        ("e.csv", "\ufeffsample,client\r\n1,007\r\n2,8\r\n", {"007": [1], "8": [2]}),
        ("f.csv.gz", gzip.compress(b"sample,client\n3,0\n", mtime=0), {0: [3]}),
        ("g.json", '{"1": [5, 3], "0": [], "10": [2]}', {0: [], 1: [5, 3], 10: [2]}),
        ("h.json", ' \n{"ann": [1],\n "bob": [0]}\n', {"ann": [1], "bob": [0]}),
    ],
)
def test_every_client_holds_its_samples_in_the_order_of_the_file(tmp_path, name, text, expected):
    assert held(file(written(tmp_path / name, text))) == expected


HEAD = "sample,client\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            HEAD + "1,a\nx,a\n-3,b\n",
            ["row 3, column 'sample': 'x'", "row 4, column 'sample': '-3'"],
        ),
        (HEAD + "1.0,a\n", ["row 2, column 'sample': '1.0' is not a sample; samples are"]),
        (HEAD + "9" * 30 + ",a\n", ["row 2, column 'sample': '9999"]),
        (HEAD + "1,\n", ["row 2, column 'client': a sample without a client id"]),
        (HEAD + "1,a\n2,b\n1,b\n", ["row 4: sample 1 is already in row 2"]),
        (HEAD + "12,b\n10,a\n", ["row 2: sample 12: there are 10 samples, 0 to 9", "row 3: "]),
        ("1,a\n2,b\n", ["the columns sample and client are needed: no column 'sample'; there are"]),
        (HEAD, ["no samples"]),
        ('{"a": [1],\n "b" [2]}', ["line 2: not JSON: Expecting ':' delimiter"]),
        ('{"a": [1], "a": [2]}', ["not JSON: client 'a' appears twice"]),
        ('{"a": [1], "b": [3, 1]}', ["client b, position 2: sample 1 is already in client a, pos"]),
        ('{"a": [1, 2.0]}', ["client 'a', position 2: '2.0' is not a sample"]),
        ('{"a": [true]}', ["client 'a', position 1: 'True' is not a sample"]),
        ('{"a": 3}', ["client 'a': expected a list of its samples"]),
        ('{"a": [1], "": [2]}', ["client '': a blank; give every client a name"]),
        ("[[1, 2], [3]]", ["expected a mapping from clients to their samples"]),
        ("[" * 100_000, ["not JSON"]),
        ("{}", ["no samples"]),
    ],
)
def test_what_is_no_split_is_refused_with_its_lines(tmp_path, text, lines):
    path = written(tmp_path / "split", text)
    with pytest.raises(DataError) as error:
        held(file(path))
    for told, line in zip(error.value.lines, lines, strict=True):
        assert told.startswith(f"{path}: {line}")


def test_of_many_faults_some_are_told(tmp_path):
    path = written(tmp_path / "s.csv", "sample,client\n" + "5,a\n" * 100)
    with pytest.raises(DataError, match="and 79 more problems"):
        file(path)
    with pytest.raises(DataError, match="not the expected file"):
        file(path, sha256="0" * 64)


def test_numbers_count_the_rows_that_were_read_and_those_set_apart_are_left_out(tmp_path):
    path = written(tmp_path / "s.csv", "sample,client\n0,a\n7,a\n4,a\n8,b\n")
    assert held(file(path), n=3, rows=np.array([2, 4, 7]), rows_read=9) == {"a": [2, 1], "b": []}
    with pytest.raises(PartitionError, match="none of the samples"):
        held(file(path), n=3, rows=np.array([1, 2, 3]), rows_read=9)


def test_a_federation_comes_back_from_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = {**BLOBS, "partition": "dirichlet(alpha=0.1, min_samples=0)"}
    data |= {"test": 0.25, "client_test": 0.3}
    scenario = read({"name": "own", "data": data})
    given = partitioned_samples(scenario, None, F32)
    one = federations_from(scenario, given)[0]
    for name in ("s.csv", "s.json"):
        text = split_text(given.parts[0], given.sets.rows, name.endswith("json"))
        (tmp_path / name).write_text(text)
        again = federation({**data, "partition": {"kind": "file", "path": name}})
        assert again.fingerprint() == one.fingerprint() and again.N == 6
    assert (one.sizes == 0).any() and again.names.clients is None


def test_a_natural_federation_comes_back_with_its_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    wards = np.array(["ö, north", "south", "west"])[rng.integers(0, 3, 60)]
    arrays = fedsim.Arrays(rng.normal(size=(60, 2)), rng.integers(0, 2, 60), wards)
    for test in (0.2, {"clients": 0.4}):
        scenario = read({"name": "own", "data": {"kind": "supplied", "test": test}})
        given = partitioned_samples(scenario, arrays, F32)
        one = federations_from(scenario, given)[0]
        (tmp_path / "s.csv").write_text(split_text(given.parts[0], given.sets.rows))
        again = federation({"partition": {"kind": "file", "path": "s.csv"}, "test": test}, arrays)
        assert again.fingerprint() == one.fingerprint()
        assert again.client_names.tolist() == ["south", "west", "ö, north"]


def test_splits_of_flower_datasets_and_of_fedlab_come_in(tmp_path, monkeypatch):
    """Flower Datasets: `json.dump(partitioner.partition_id_to_indices, file)`.

    FedLab: `client_dict`, arrays by client.
    """
    monkeypatch.chdir(tmp_path)
    order = np.random.default_rng(0).permutation(120)
    flower = {partition: rows.tolist() for partition, rows in enumerate(np.array_split(order, 11))}
    (tmp_path / "flower.json").write_text(json.dumps(flower))
    fedlab = {client: rows.tolist() for client, rows in enumerate(np.split(order, [30, 80]))}
    (tmp_path / "fedlab.json").write_text(json.dumps(fedlab))
    data = {name: BLOBS[name] for name in BLOBS if name != "clients"}
    for path, lists in (("flower.json", flower), ("fedlab.json", fedlab)):
        f = federation({**data, "partition": f"file(path='{path}')", "test": 0})
        dealt = np.split(f.holders.indices, f.holders.offsets[1:-1])
        assert [rows.tolist() for rows in dealt] == list(lists.values())


def test_a_split_of_others_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.csv").write_text("sample,client\n0,a\n1,b\n")
    said = "data.clients: 6 clients, but the partition's file names 2"
    with pytest.raises(ScenarioError, match=said):
        federation({**BLOBS, "partition": {"kind": "file", "path": "s.csv"}})
    said = "data.partition.path: there is no file 's.cvs'; did you mean"
    with pytest.raises(MissingFileError, match=said):
        federation({**BLOBS, "partition": {"kind": "file", "path": "s.cvs"}})


def test_a_strangers_scenario_names_no_split_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "study").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "far.csv").write_text("sample,client\n0,a\n")
    scenario = tmp_path / "study" / "s.yaml"
    for path in ("../far.csv", str(tmp_path / "far.csv"), "/etc/passwd"):
        partition = f"{{kind: file, path: {path}}}"
        scenario.write_text(f"name: x\ndata: {{kind: digits, partition: {partition}}}\n")
        with pytest.raises(ScenarioError, match=r"s.yaml:2:.*data.partition.path: .*lies outside"):
            federations_of(read(scenario), None, F32)


@pytest.mark.long
def test_the_command_writes_a_split_that_a_run_reads_records_and_verifies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrays = np.random.default_rng(0)
    wards = np.array(["<b>ann</b>", "bob", "=1+1"])[arrays.integers(0, 3, 90)]
    np.savez("w.npz", x=arrays.normal(size=(90, 2)), y=arrays.integers(0, 2, 90), client=wards)
    scenario = tmp_path / "s.yaml"
    scenario.write_text("name: s\nrounds: 2\ndata: {kind: npz, path: w.npz}\n")
    words = [str(scenario), "--split", "split.csv", "--out", "who"]
    printed = CliRunner().invoke(partition_command, words)
    assert printed.exit_code == 0
    assert "split.csv  seed 0: which client holds which sample" in printed.output
    text = (tmp_path / "split.csv").read_text().splitlines()
    assert text[0] == "sample,client" and len(text) == 73
    assert {line.split(",", 1)[1] for line in text[1:]} == set(wards)
    one = fedsim.run(scenario)
    two = fedsim.run(scenario, edits=["data.partition=file(path=split.csv)"], out="two")
    for table in ("clients", "rounds", "partition"):
        assert getattr(one, table).equals(getattr(two, table)), table
    record = json.loads((tmp_path / "two" / "run.json").read_text())
    section = record["scenario"]["data"]["partition"]
    assert section["path"] == "split.csv" and len(section["sha256"]) == 64
    assert fedsim.verify("two").equal
    (tmp_path / "split.csv").rename(tmp_path / "who" / "moved.csv")
    assert fedsim.verify("two").equal is not True  # elsewhere


def test_a_split_is_one_of_all_clients_and_none_of_the_test_samples():
    parts = Parts(np.array([2, 0, 1], np.int32), np.array([0, 1, 1, 3]), ("a", "b, c", "d"))
    rows = np.array([5, 7, 9])
    assert split_text(parts, rows) == 'sample,client\n9,a\n,"b, c"\n5,d\n7,d\n'
    assert json.loads(split_text(parts, None, True)) == {"a": [2], "b, c": [], "d": [0, 1]}
