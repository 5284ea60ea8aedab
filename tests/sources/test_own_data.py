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
SCENARIO = """name: own
rounds: 20
data:
  {kind: csv, path: t.csv, target: target, client: hospital, missing: mean, standardize: true}
client: {lr: 0.05}
"""


def test_a_table_with_hospitals_and_blanks_is_learned_from_by_name(tmp_path):
    """Patients with one cell in a hundred blank, each at one of five hospitals."""
    bunch = datasets.load_breast_cancer()
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(bunch.data, columns=bunch.feature_names).astype(object)
    frame[rng.random(frame.shape) < 0.01] = rng.choice(["", "NA", "?"])
    frame["target"] = bunch.target_names[bunch.target]
    frame["hospital"] = rng.choice(HOSPITALS, len(frame))
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "s.yaml").write_text(SCENARIO)

    result = fedsim.run(tmp_path / "s.yaml", out=tmp_path / "run", pictures=False)
    assert result.summary["final"].item() > 0.95
    assert result.clients["client"].tolist() == HOSPITALS
    table = read_table(tmp_path / "run", "partition")
    assert table is not None and sorted(table["client"].unique()) == HOSPITALS
    assert set(table["label"]) == {"benign", "malignant"}
    assert fedsim.verify(tmp_path / "run", data_roots=[tmp_path]).equal


@pytest.mark.parametrize("kind", ["breast_cancer", "wine", "iris", "diabetes"])
def test_sets_that_are_bundled_are_those_of_scikit_learn(kind):
    arrays, theirs = FAMILIES["dataset"][kind](), getattr(datasets, f"load_{kind}")()
    assert arrays.x.shape == theirs.data.shape and np.isfinite(arrays.x).all()
    if kind == "diabetes":
        assert arrays.y.dtype.kind == "f" and arrays.y.max() == 3.46
    else:
        counts = np.unique(arrays.y, return_counts=True)[1]
        assert sorted(counts) == sorted(np.bincount(theirs.target))


def test_their_files_are_scikit_learn_s(root):
    theirs = Path(datasets.__file__).parent / "data"
    tables = (root / "fedsim/sources/samples").glob("*.csv*")
    ours = [path for path in tables if path.name != "heart_disease.csv"]
    assert len(ours) == 6
    assert all(path.read_bytes() == (theirs / path.name).read_bytes() for path in ours)
