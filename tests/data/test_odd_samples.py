"""Samples without numbers are refused in a line, and labels that a set lacks get a remark."""

import numpy as np
import pytest
import yaml
from hostile.numbers import TINY

import fedsim
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.forecast import remarks
from fedsim.scenario import read

X, Y = np.arange(24, dtype=np.float32).reshape(12, 2), np.arange(12) % 3
SUPPLIED = {**TINY, "rounds": 1, "data": {"kind": "supplied", "clients": 2, "test": 0}}


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        ({"x": X, "y": np.int64(1)}, "y: a single number; expected an array with a row for"),
        ({"x": X[:, :0], "y": Y}, r"x: samples of shape \(0,\) hold no numbers"),
        ({"x": X[:0], "y": Y[:0]}, "x: no samples"),
        ({"x": X, "y": np.zeros((12, 0))}, r"y: samples of shape \(0,\) hold no numbers"),
        ({"x": X, "y": Y, "x_test": X[:0], "y_test": Y}, "x_test has 0 rows, but y_test has 12"),
    ],
)
def test_samples_without_numbers_are_refused_in_one_line(arrays, line, tmp_path):
    with pytest.raises(fedsim.DataError, match=f"^{line}"):
        fedsim.run(SUPPLIED, data=fedsim.Arrays(**arrays))
    np.savez(tmp_path / "w.npz", **arrays)
    stored = {**TINY, "data": {"kind": "npz", "path": "w.npz", "clients": 2}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(stored))
    with pytest.raises(fedsim.DataError, match=rf"w.npz: {line}"):
        fedsim.run(tmp_path / "s.yaml")


@pytest.mark.long
def test_an_empty_test_set_counts_as_none():
    """Whatever its type and its samples' shape are."""
    plain = fedsim.run(SUPPLIED, data=fedsim.Arrays(X, Y))
    data = fedsim.Arrays(X, Y, x_test=np.zeros(0), y_test=np.zeros(0))
    assert fedsim.run(SUPPLIED, data=data).rounds.equals(plain.rounds)


@pytest.mark.parametrize(
    ("data", "remark"),
    [
        (fedsim.Arrays(X, Y * 50), "labels run from 0 to 100, 101 classes, and 3 of them have"),
        (
            fedsim.Arrays(X, Y, x_test=X, y_test=np.full(12, 3)),
            "test labels 3 are in no client's training samples",
        ),
    ],
    ids=["of training", "of the test set"],
)
def test_labels_that_are_missing_from_one_set_are_remarked_on(data, remark):
    scenario = read(SUPPLIED)
    with numerics(scenario) as devices:
        (said,) = remarks(build(scenario, devices=devices[:1], data=data))
    assert said.startswith(remark)
