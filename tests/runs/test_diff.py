"""`fedsim.diff` names what differs between two runs."""

import json

import numpy as np
import pytest
from directories import rehashed
from test_commands import fedsim as typed
from test_verify import SCENARIO, made, mine  # noqa: F401 (fixtures)

import fedsim
from fedsim.cli.against import described
from fedsim.disk.tables import read_table
from fedsim.errors import Interrupted
from fedsim.runs import directory
from fedsim.runs.differences import differences


def test_differences_are_found_at_any_depth():
    old = {"a": {"b": [1, {"c": 2}], "d": None}, "gone": 1, "same": [1, 2]}
    new = {"a": {"b": [1, {"c": 3}], "d": "x" * 80}, "same": [1, 2], "new": [1]}
    assert differences(old, new) == [
        ("a.b[1].c", "2", "3"),
        ("a.d", "nothing", '"' + "x" * 56 + "..."),
        ("gone", "1", "nothing"),
        ("new", "nothing", "[1]"),
    ]
    assert differences([1], [1, 2], "p") == [("p", "[1]", "[1, 2]")] and differences({}, {}) == []
    assert differences("y" * 58, "", "p")[0][1] == f'"{"y" * 58}"'  # sixty characters are shown


@pytest.mark.long
def test_diff_names_what_differs(made, mine, tmp_path):  # noqa: F811
    changes = {"client.lr": {"client": {"lr": 0.2}}, "seeds": {"seeds": [0, 3]}}
    rounds, result = {}, {}
    for name, change in changes.items():
        rounds[name] = fedsim.run({**SCENARIO, **change}, out=tmp_path / name).rounds
        result[name] = fedsim.diff(made("fedavg"), tmp_path / name)
    out = mine("fedavg")
    record = directory.read_record(out)
    record["scenario"]["data"]["seed"] = 1
    record["scenario"]["numerics"]["dtype"] = "float64"
    directory.write_model(out / "model.fedavg.0.safetensors", {"params": {"W": np.ones(2)}})
    rehashed(out, scenario=record["scenario"], hashes={**record["hashes"], "data": "other"})
    result["data.seed"] = fedsim.diff(made("fedavg"), out)
    assert not any(one.equal or one.groups["environment"] for one in result.values())
    names = lambda name, group: [field.name for field in result[name].groups[group]]

    lr = result["client.lr"]
    assert names("client.lr", "scenario") == ["client.lr"] and names("client.lr", "data") == []
    assert (lr.groups["scenario"][0].a, lr.groups["scenario"][0].b) == ("0.1", "0.2")
    rows = lr.tables["rounds"]
    assert (rows.a, rows.b, rows.only_a, rows.only_b) == (8, 8, 0, 0)
    assert rows.differing == 6 and rows.first == "seed 0, round 2"  # the start models are equal
    a = read_table(made("fedavg"), "rounds")["test_loss"]
    b = rounds["client.lr"]["test_loss"]
    (first,) = [field for field in rows.fields if field.name == "test_loss"]
    assert (float(first.a), float(first.b)) == (a[1], b[1])
    (column,) = [column for column in rows.columns if column.name == "test_loss"]
    assert column.absolute == np.abs(a - b).max() and column.rows == 6
    assert column.relative == (np.abs(a - b) / np.maximum(a, b)).max()
    assert len(lr.models) == 2 and lr.models[0].absolute > 0 and "partition" not in lr.tables

    assert names("seeds", "scenario") == ["seeds[1]"]
    rows = result["seeds"].tables["rounds"]
    assert (rows.only_a, rows.differing, rows.first) == (4, 0, "seed 1, round 0")
    assert [model.what.split("/")[0] for model in result["seeds"].models] == ["not in ", "not in "]
    assert names("data.seed", "scenario") == ["data.seed"]
    assert names("data.seed", "data") == ["data"] and names("data.seed", "numerics") == ["dtype"]
    assert "different tensors" in result["data.seed"].models[0].what


def test_diff_names_the_environment_and_not_where_a_run_took_place(mine, made):  # noqa: F811
    out = mine("fedavg")
    record = directory.read_record(out)
    rehashed(out, surroundings={**record["surroundings"], "python": "2.7"})
    same = fedsim.diff(made("fedavg"), out)
    assert same.equal and not any(same.groups.values()) and not same.tables and not same.models
    assert list(described(same))[-1].startswith("the same: scenario, numerics, data, ")
    rehashed(out, environment={**record["environment"], "jax": "0.1"})
    (field,) = fedsim.diff(made("fedavg"), out).groups["environment"]
    assert field.name == "jax"


def test_diff_compares_an_unfinished_run(made, tmp_path):  # noqa: F811
    out, seen = tmp_path / "x", []
    with pytest.raises(Interrupted):
        watch = lambda experiment, seed, row: seen.append(row)
        fedsim.run(SCENARIO, out=out, watch=watch, ask=lambda: len(seen) > 2)
    result = fedsim.diff(made("fedavg"), out)
    rows = result.tables["rounds"]
    assert rows.only_b == 0 and rows.differing == 0 and 0 < rows.b < rows.a == 8
    assert result.tables["clients"].b is None
    assert [field.name for field in result.groups["end"]] == ["status"]
    assert f"clients.csv: not in {out}" in list(described(result))


@pytest.mark.long
def test_the_diff_command_prints_differences(made, tmp_path):  # noqa: F811
    done = typed(f"diff {made('fedavg')} {made('scaffold')}", tmp_path)
    assert done.returncode == 0
    assert '  client.kind: "sgd" | "scaffold"\n' in done.stdout
    assert done.stderr == "fedsim: 'fedsim diff A B' is now 'fedsim verify A --against B'\n"
    plain = fedsim.diff(made("fedavg"), made("scaffold")).plain()
    assert not json.loads(json.dumps(plain))["equal"]
    nowhere = typed(f"diff {made('fedavg')} /nowhere", tmp_path)
    assert nowhere.returncode == 4
    assert nowhere.stderr.endswith("\nfedsim: error: /nowhere: holds no fedsim run\n")
