"""Scales, classes, tests and targets that may not be meant get a remark."""

import numpy as np
import pandas as pd
import pytest

from fedsim.assemble.federation import federations_of
from fedsim.assemble.sample_notes import data_warnings
from fedsim.data import Arrays
from fedsim.data.completion import scale_remark
from fedsim.scenario import read

F32 = np.dtype("float32")


def federation(data, **section):
    scenario = read({"name": "s", "data": {"kind": "supplied", "test": 0, **section}})
    return scenario, federations_of(scenario, data, F32)[0]


def test_scales_that_differ_by_orders_get_a_remark():
    x = np.column_stack([np.linspace(0, 4000, 9), np.linspace(0, 0.03, 9), np.ones(9)]).astype("f4")
    assert scale_remark(x, ("area", "error", "one")) == (
        "features differ in scale (column 'area' ranges over 4e+03, column 'error' over 0.03), "
        "which slows training; try data.standardize: true"
    )
    sparse = np.zeros((1000, 2), np.float32)
    sparse[0, 0], sparse[:500, 1] = 255, 255
    one_feature, a_constant, images = x[:, :1], x[:, 2:], x.reshape(9, 3, 1)
    for features in (one_feature, a_constant, x[:0], images, sparse):  # pixels have one range
        assert scale_remark(features, None) == ""
    for section, count in (({}, 1), ({"standardize": True}, 0)):
        scenario, f = federation(Arrays(x, np.arange(9) % 2), clients=2, **section)
        assert len(data_warnings(scenario, f)) == count


@pytest.mark.parametrize(
    ("y", "remark"),
    [
        (np.arange(12) % 3, ""),
        (np.arange(12) % 3 + 1, "labels run from 1 to 3, and the model has a class 0 as well"),
        (np.arange(12) % 3 + 3.0, ""),  # grades are numbers
        (np.ones((12, 2)), ""),
    ],
)
def test_classes_without_samples_get_a_remark(y, remark):
    x = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
    scenario, f = federation(Arrays(x, y), clients=2, partition="iid", test=0.5)
    remarks = data_warnings(scenario, f)
    assert len(remarks) == bool(remark)
    assert all(text.startswith(remark) for text in remarks)


def test_a_frame_without_test_samples_is_told():
    frame = pd.DataFrame({"a": np.arange(12) % 5 / 4, "y": np.arange(12) % 2})
    scenario = read({"name": "s", "data": {"kind": "supplied", "clients": 2}})
    (line,) = data_warnings(scenario, federations_of(scenario, frame, F32)[0])
    assert line.startswith("no samples are held out to test on") and "data.test: 0.2" in line
    assert not data_warnings(*federation(frame, clients=2))  # test: 0 is written


def test_many_whole_numbers_are_said_to_be_classes():
    wages = Arrays(np.eye(93), np.arange(93) % 31)
    (line,) = data_warnings(*federation(wages, clients=2))
    assert line.startswith("labels are whole numbers up to 30, learned as 31 classes")
    assert line.endswith("data.task: regression")
    for task in ("classification", "regression"):
        assert data_warnings(*federation(wages, clients=2, task=task)) == []
