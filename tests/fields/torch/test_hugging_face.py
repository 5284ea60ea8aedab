"""Objects of the package `datasets` are data, by what they say of their columns."""

import numpy as np
import pytest

datasets = pytest.importorskip("datasets")

import fedsim
from fedsim.errors import DataError

pytestmark = pytest.mark.long

LABELS = ["cat", "dog", "fox"]
SUPPLIED = {"kind": "supplied", "clients": 4, "test": 0.25}


def scenario(**data):
    return {"name": "own", "rounds": 1, "model": "logistic", "data": {**SUPPLIED, **data}}


def pixels(n):
    return np.random.default_rng(0).integers(256, size=(n, 4, 4, 3), dtype=np.uint8)


def pictures(n):
    features = datasets.Features(
        {"img": datasets.Image(), "animal": datasets.ClassLabel(names=LABELS)}
    )
    columns = {"img": list(pixels(n)), "animal": [i % 3 for i in range(n)]}
    return datasets.Dataset.from_dict(columns, features)


def test_images_and_class_labels_are_found_by_their_types():
    result = fedsim.run(scenario(), data=pictures(40))
    federation = result.experiment.plans[0].federation
    assert result.clients["samples"].sum() == 30
    assert federation.names.labels == tuple(LABELS)
    read = np.concatenate([federation.train.x, federation.test.x])
    assert sorted(map(bytes, read)) == sorted(map(bytes, pixels(40)))


def test_the_test_split_of_a_dict_is_the_test_set():
    both = datasets.DatasetDict(train=pictures(20), test=pictures(9))
    data = {"kind": "supplied", "clients": 4}
    result = fedsim.run({**scenario(), "data": data}, data=both)
    federation = result.experiment.plans[0].federation
    assert (result.clients["samples"].sum(), len(federation.test.x)) == (20, 9)


def test_columns_may_be_named():
    measures = {"a": np.arange(40) / 3, "b": np.ones(40)}
    named = {"grade": [0, 1] * 20, "ward": ["w"] * 20 + ["v"] * 20}
    table = datasets.Dataset.from_dict(measures | named)
    own = {"kind": "supplied", "test": 0, "target": "grade", "client": "ward"}
    result = fedsim.run({**scenario(), "data": own}, data=table)
    assert result.clients["client"].tolist() == ["v", "w"]
    assert result.experiment.plans[0].federation.train.x.shape[1:] == (2,)


def test_what_cannot_be_learned_from_is_one_line():
    for data, line in (
        (pictures(4).to_iterable_dataset(), "^data: a "),
        (datasets.Dataset.from_dict({"a": np.arange(40.0)}), "^data: .*label"),
        (datasets.DatasetDict(validation=pictures(9)), "^data: split: no split 'train'"),
    ):
        with pytest.raises(DataError, match=line) as refused:
            fedsim.run(scenario(), data=data)
        assert "\n" not in str(refused.value) and "/tmp" not in str(refused.value)
