"""Users' data, from file or frame to a run's tables: real, with names, blanks and hospitals."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

import fedsim
from fedsim.compose import FAMILIES
from fedsim.disk.tables import read_table

pytestmark = pytest.mark.long
HOSPITALS = [f"hospital {letter}" for letter in "ABCDE"]
WINES = np.array(["Barolo", "Grignolino", "Barbera"])


def written(path, bunch, target, delimiter: str) -> None:
    """A bundled set as CSV, with a target and a hospital; one cell in a hundred is blank."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        bunch.data, columns=[name.replace(delimiter, " ") for name in bunch.feature_names]
    ).astype(object)
    frame[rng.random(frame.shape) < 0.01] = rng.choice(["", "NA", "?"])
    frame.assign(target=target, hospital=rng.choice(HOSPITALS, len(frame))).to_csv(
        path, index=False, sep=delimiter
    )


def data_of(name: str, folder):
    if name == "breast":
        bunch = datasets.load_breast_cancer()
        written(folder / "t.csv", bunch, bunch.target_names[bunch.target], ",")
    elif name == "wine":
        bunch = datasets.load_wine()
        written(folder / "t.csv", bunch, WINES[bunch.target], ";")
    else:
        bunch = datasets.load_diabetes(scaled=False)
        written(folder / "t.csv", bunch, bunch.target, "\t")


@pytest.mark.parametrize(
    ("name", "metric", "least"),
    [
        ("breast", "test_accuracy", 0.95),
        ("wine", "test_accuracy", 0.9),
        ("diabetes", "test_r2", 0.4),
    ],
)
def test_three_lines_are_enough(name, metric, least, tmp_path):
    data_of(name, tmp_path)
    lines = [
        "name: own",
        "rounds: 20",
        "data:",
        "  {kind: csv, path: t.csv,",
        "  target: target, client: hospital,",
    ]
    lines += [
        "  missing: mean, standardize: true}",
        "client: {lr: 0.05}",
        f"evaluate: {{metric: {metric}}}",
    ]
    (tmp_path / "s.yaml").write_text("\n".join(lines) + "\n")
    result = fedsim.run(tmp_path / "s.yaml", out=tmp_path / "run")
    assert result.summary["final"].item() > least
    assert result.clients["client"].tolist() == HOSPITALS
    table = read_table(tmp_path / "run", "partition")
    assert table is not None and sorted(table["client"].unique()) == HOSPITALS
    labels = {"breast": {"benign", "malignant"}, "wine": set(WINES.tolist())}.get(name)
    assert labels is None or set(table["label"]) == labels
    assert fedsim.verify(tmp_path / "run", data_roots=[tmp_path]).equal
    again = fedsim.run(tmp_path / "s.yaml", out=tmp_path / "run", resume=True, edits="rounds=22")
    assert again.rounds["round"].iloc[-1] == 22 and again.clients["client"].tolist() == HOSPITALS


@pytest.mark.parametrize(
    ("kind", "rows", "columns", "classes"),
    [
        ("breast_cancer", 569, 30, 2),
        ("wine", 178, 13, 3),
        ("iris", 150, 4, 3),
        ("diabetes", 442, 10, 0),
    ],
)
def test_sets_that_are_bundled_are_those_of_scikit_learn(kind, rows, columns, classes):
    arrays = FAMILIES["dataset"][kind]()
    assert arrays.x.shape == (rows, columns) and np.isfinite(arrays.x).all()
    counts = np.unique(arrays.y, return_counts=True)[1]
    known = {"breast_cancer": [357, 212], "wine": [59, 71, 48], "iris": [50, 50, 50]}
    assert (
        counts.tolist() == known[kind]
        if classes
        else arrays.y.dtype.kind == "f" and arrays.y.max() == 3.46
    )


def test_their_files_are_scikit_learn_s(root):
    theirs = Path(datasets.__file__).parent / "data"
    tables = (root / "fedsim/sources/samples").glob("*.csv*")
    ours = [path for path in tables if path.name != "heart_disease.csv"]
    assert len(ours) == 6
    assert all(path.read_bytes() == (theirs / path.name).read_bytes() for path in ours)
