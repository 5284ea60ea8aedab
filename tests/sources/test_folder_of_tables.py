"""A folder with a table for each client: columns, categories, clients, blanks, and refusals."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.cli import cli
from fedsim.errors import DataError, ScenarioError
from fedsim.runs.describe_data import describe
from fedsim.scenario import read

pytestmark = pytest.mark.usefixtures("quickly_compiled")

ROME = pd.DataFrame(
    {"id": [1, 2, 3, 4], "age": [30, 40, 50, 60], "sex": list("fmfm"), "ill": [0, 1, 0, 1]}
)
OSLO = pd.DataFrame(
    {"age": [1, 2, 3], "ill": [1, 0, 1], "bmi": [20.5, 30, 22], "sex": ["f", "x", "f"]}
)


def folder(path, **tables):
    """Write tables, DataFrames or texts, by the names of their clients."""
    for name, table in tables.items():
        text = table if isinstance(table, str) else table.to_csv(index=False)
        (path / f"{name}.csv").write_text(text)
    return str(path)


def scenario(path, **data):
    section = {"kind": "csv", "path": path, "target": "ill", "test": 0, **data}
    return {"name": "wards", "rounds": 1, "data": section, "model": "logistic"}


def run(path, **data):
    return fedsim.run(scenario(path, **data), progress=False)


def federation(path, **data):
    return federations_of(read(scenario(path, **data)), None, np.dtype("float32"))[0]


def test_clients_are_the_files_and_columns_are_those_of_all(tmp_path):
    f = federation(folder(tmp_path, rome=ROME, oslo=OSLO), missing="constant", fill=-1)
    assert f.client_names.tolist() == ["oslo", "rome"] and f.sizes.tolist() == [3, 4]
    assert f.names.features == ("age", "bmi", "sex=f", "sex=m", "sex=x")
    rows_of_rome = f.train.x[f.holders.of(1)]
    assert rows_of_rome[:, :2].tolist() == [[30, -1], [40, -1], [50, -1], [60, -1]]
    assert f.remarks[0] == "rome.csv: no column 'bmi', which others have: blank there"
    assert "column 'id' is left out" in f.remarks[1]


def test_blanks_take_the_mean_of_all_or_of_the_client(tmp_path):
    ages = {"rome": [10, 20, None, 30], "oslo": [100, None, 300, 200]}
    tables = {
        name: pd.DataFrame({"age": age, "size": [1, 2, 3, 4], "ill": [0, 1, 0, 1]})
        for name, age in ages.items()
    }
    path = folder(tmp_path, **tables)
    filled = {
        statistics: federation(path, missing="mean", statistics=statistics, indicators=True)
        for statistics in ("all", "client")
    }
    of_all, of_client = filled["all"], filled["client"]
    assert of_all.names.features == ("age", "size", "age is blank")
    assert of_all.train.x[1].tolist() == [110, 2, 1] and of_all.train.x[6].tolist() == [110, 3, 1]
    assert of_client.train.x[1].tolist() == [200, 2, 1]
    assert of_client.train.x[6].tolist() == [20, 3, 1]


def test_each_client_is_brought_to_its_own_scale(tmp_path):
    """Predictions too, by the names of columns, with truth values as pandas reads them."""
    path = folder(
        tmp_path,
        a="age,flag,ill\n1,FALSE,0\n3,TRUE,1\n",
        b="age,flag,ill\n100,TRUE,0\n300,TRUE,1\n",
    )
    result = run(path, standardize=True, statistics="client")
    x = result.experiment.plans[0].federation.train.x
    assert np.array_equal(x, [[-1, 1, 0], [1, 0, 1], [-1, 0, 1], [1, 0, 1]])
    new = pd.DataFrame({"flag": [True], "age": [200]})
    of_b = result.predict(new, client=1)
    assert not np.allclose(of_b, result.predict(new, client=0))
    assert np.allclose(of_b, result.predict(new.assign(age=2), client=0))
    assert not np.allclose(of_b, result.predict(new.assign(flag=False), client=1))


REFUSED = [  # tables, keys, what is said, why
    ({}, {}, "holds no FILE.csv", "no table"),
    ({"a": ROME, "b": "size,ill\n1,0\n2,1\n"}, {}, "have no feature in common", "unlike"),
    (
        {"a": ROME, "b": ROME.drop(columns="ill")},
        {},
        "b.csv: no column 'ill', the target",
        "target",
    ),
    ({"a": ROME, "b": "age,sex,ill\n"}, {}, "b.csv: no samples", "a header alone"),
    ({"a": ROME, "b": "age,age,ill\n1,2,0\n"}, {}, "b.csv: two columns are called 'age'", "twice"),
    ({"a": ROME, "b": OSLO}, {}, "a.csv: no column 'bmi', which others have", "absent, refused"),
    (
        {"a": ROME, "b": OSLO},
        {"missing": "drop"},
        "would leave none of its rows",
        "absent, dropped",
    ),
    (
        {"a": ROME, "b": "age,sex,ill\n1,f,0\nold,f,1\n2,f,1\n"},
        {},
        "b.csv, row 3, column 'age': 'old' is not a number",
        "a cell",
    ),
    (
        {"a": "seen,age,ill\n2024-01-01,1,0\n", "b": "seen,age,ill\n2024-01-02,1,1\n"},
        {},
        "column 'seen': dates",
        "dates",
    ),
    ({"a": ROME, "b": ROME}, {"client": "sex"}, "the client of a row is its file", "client"),
    ({"a": ROME, "b": ROME}, {"target": "il"}, "did you mean 'ill'?", "a misspelt target"),
]


@pytest.mark.parametrize(
    ("tables", "keys", "said"), [case[:3] for case in REFUSED], ids=[case[3] for case in REFUSED]
)
def test_what_cannot_be_read_is_said_with_file_and_place(tables, keys, said, tmp_path):
    path = folder(tmp_path, **tables)
    with pytest.raises(DataError) as refusal:
        federation(path, **keys)
    (line,) = refusal.value.lines
    assert said in line and line.startswith(f"{path}: ")


def test_statistics_of_each_client_need_clients_that_are_named(tmp_path):
    path = folder(tmp_path, a=ROME, b=ROME)
    with pytest.raises(ScenarioError, match=r"data\.statistics: client needs the clients"):
        run(path, statistics="client", standardize=True, partition="iid", clients=2)


def test_a_folder_is_described_with_the_section_that_reads_it(tmp_path):
    path = folder(tmp_path, rome=ROME, oslo=OSLO)
    described = describe(path, ["target=ill"])
    assert described["problems"] == [] and described["clients"]["count"] == 2
    assert described["data"]["missing"] == "mean" and "client" not in described["data"]
    lacking = "rome.csv: no column 'bmi', which others have: blank there"
    assert described["notes"].count(lacking) == 1
    printed = CliRunner().invoke(cli, ["data", "describe", path, "--set", "target=ill"])
    assert printed.exit_code == 0 and "column 'id' is left out" in printed.output
