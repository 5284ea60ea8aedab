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
    return {"name": "wards", "rounds": 0, "data": section, "model": "logistic"}


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
    rest = {"size": [1, 2, 3, 4], "ill": [0, 1, 0, 1]}
    path = folder(
        tmp_path, **{name: pd.DataFrame({"age": age, **rest}) for name, age in ages.items()}
    )
    of_all, of_client = (
        federation(path, missing="mean", statistics=statistics, indicators=True)
        for statistics in ("all", "client")
    )
    assert of_all.names.features == ("age", "size", "age is blank")
    assert of_all.train.x[1].tolist() == [110, 2, 1] and of_all.train.x[6].tolist() == [110, 3, 1]
    assert of_client.train.x[1].tolist() == [200, 2, 1]
    assert of_client.train.x[6].tolist() == [20, 3, 1]


def test_each_client_is_brought_to_its_own_scale(tmp_path):
    """Predictions too, by the names of columns, with truth values as pandas reads them."""
    a, b = "1,FALSE,0\n3,TRUE,1\n", "100,TRUE,0\n300,TRUE,1\n"
    path = folder(tmp_path, a=f"age,flag,ill\n{a}", b=f"age,flag,ill\n{b}")
    weights = {"W": np.arange(6.0).reshape(3, 2) ** 2, "b": np.zeros(2)}
    result = fedsim.run(scenario(path, standardize=True, statistics="client"), params=weights)
    x = result.experiment.plans[0].federation.train.x
    assert np.array_equal(x, [[-1, 1, 0], [1, 0, 1], [-1, 0, 1], [1, 0, 1]])
    new = pd.DataFrame({"flag": [True], "age": [200]})
    of_b = result.predict(new, client=1)
    assert not np.allclose(of_b, result.predict(new, client=0))
    assert np.allclose(of_b, result.predict(new.assign(age=2), client=0))


CELL = "age,sex,ill\n1,f,0\nold,f,1\n2,f,1\n"
DATED = "seen,age,ill\n2024-01-01,1,0\n"
REFUSED = {  # why -> the table beside that of Rome, keys, what is said
    "unlike": ("size,ill\n1,0\n2,1\n", {}, "have no feature in common"),
    "target": (ROME.drop(columns="ill"), {}, "b.csv: no column 'ill', the target"),
    "a header alone": ("age,sex,ill\n", {}, "b.csv: no samples"),
    "twice": ("age,age,ill\n1,2,0\n", {}, "b.csv: two columns are called 'age'"),
    "absent, refused": (OSLO, {}, "a.csv: no column 'bmi', which others have"),
    "absent, dropped": (OSLO, {"missing": "drop"}, "would leave none of its rows"),
    "a cell": (CELL, {}, "b.csv, row 3, column 'age': 'old' is not a number"),
    "dates": (DATED, {"missing": "constant", "fill": 0}, "column 'seen': dates"),
    "client": (ROME, {"client": "sex"}, "the client of a row is its file"),
    "a misspelt target": (ROME, {"target": "il"}, "did you mean 'ill'?"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_read_is_said_with_file_and_place(why, tmp_path):
    table, keys, said = REFUSED[why]
    path = folder(tmp_path, a=ROME, b=table)
    with pytest.raises(DataError) as refusal:
        federation(path, **keys)
    (line,) = refusal.value.lines
    assert said in line and line.startswith(f"{path}: ")


def test_a_folder_without_a_table_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"holds no FILE\.csv"):
        federation(str(tmp_path))


def test_statistics_of_each_client_need_clients_that_are_named(tmp_path):
    path = folder(tmp_path, a=ROME, b=ROME)
    with pytest.raises(ScenarioError, match=r"data\.statistics: client needs the clients"):
        federation(path, statistics="client", standardize=True, partition="iid", clients=2)


def test_a_folder_is_described_with_the_section_that_reads_it(tmp_path):
    path = folder(tmp_path, rome=ROME, oslo=OSLO)
    described = describe(path, ["target=ill"])
    assert described["problems"] == [] and described["clients"]["count"] == 2
    assert described["data"]["missing"] == "mean" and "client" not in described["data"]
    lacking = "rome.csv: no column 'bmi', which others have: blank there"
    assert described["notes"].count(lacking) == 1
    printed = CliRunner().invoke(cli, ["data", "describe", path, "--set", "target=ill"])
    assert printed.exit_code == 0 and "column 'id' is left out" in printed.output
