"""A target is the named column, and has the same type in every format, or the task's."""

import numpy as np
import pandas as pd
import pytest
from test_kept_names import WARDS
from test_sample_notes import F32, federation
from test_tables import of_frame

import fedsim
from fedsim.errors import DataError
from fedsim.sources import csv, parquet


def test_keys_that_name_columns_need_columns():
    said = r"data\.target: names a column, and the samples are arrays"
    with pytest.raises(fedsim.ScenarioError, match=said):
        federation(WARDS, target="ill")
    frame = pd.DataFrame({"a": [1.0, 2.0], "outcome": ["x", "y"]})
    assert federation(frame, target="outcome", clients=2)[1].label_names == ["x", "y"]


TARGETS = [  # cells, the kinds of numbers they are without a task, as classes, for regression
    (["0", "1", "2", "1"], "iif", "whole"),
    (["0.0", "1.0", "2.0", "1.0"], "fif", "decimals"),
    (["0.0", "1.0", "", "1.0"], "iif", "beside blanks"),
    (["0.5", "1.0", "2.0", "1.0"], "f f", "halves, which are no classes"),
]


@pytest.mark.parametrize(
    ("cells", "kinds"), [row[:2] for row in TARGETS], ids=[row[2] for row in TARGETS]
)
def test_a_target_is_the_same_in_every_format(cells, kinds, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{row / 8},{cell}\n" for row, cell in enumerate(cells)))
    frame = pd.read_csv(path)
    frame.to_parquet(tmp_path / "t.parquet")
    sources = ((csv, str(path)), (of_frame, frame), (parquet, str(tmp_path / "t.parquet")))
    for task, kind in zip((None, "classification", "regression"), kinds, strict=True):
        for reader, source in sources:
            if kind == " ":
                with pytest.raises(DataError, match=r"column 'y': 0\.5: classes are 0, 1, 2"):
                    reader(source, missing="drop", task=task)
                continue
            y = reader(source, missing="drop", task=task).y
            assert y.dtype.kind == kind and y.tolist() == [float(cell) for cell in cells if cell]


@pytest.mark.parametrize(
    ("y", "task", "classes"),
    [
        (np.array([0, 1, 1, 0], object), None, 2),
        (np.array([0.5, 1, 1, 0], object), None, 0),
        (np.eye(2)[[0, 1, 1, 0]], "classification", 2),
        (np.array([[0.0], [1.0], [1.0], [0.0]]), "classification", 2),
        (np.array([-1, 1, 1, 0]), "regression", 0),
    ],
)
def test_labels_of_arrays_are_what_the_task_says(y, task, classes):
    _, f = federation((np.eye(4).astype(object), y), clients=2, task=task)
    assert f.classes == classes and f.train.x.dtype == F32
