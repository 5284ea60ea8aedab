"""The content of a commit: what is written is read back, and anything else is refused."""

import numpy as np
import pytest

import fedsim
from fedsim.disk.checkpoint import Snapshot, decode, digest, encode, leaves_by_name, restore_tree
from fedsim.errors import CheckpointError


def test_a_snapshot_reads_back_with_every_shape_and_type():
    arrays = {
        "a": np.arange(6, dtype=np.int16).reshape(2, 3),
        "empty": np.zeros((0, 4), np.float32),
        "number": np.array(2.5),
        "bits": np.array([True, False]),
        "last": np.array([1 + 2j]),
    }
    blob = b"".join(encode(Snapshot({"round": 3}, arrays)))
    values, read_back = decode(blob)
    assert values == {"round": 3} and list(read_back) == list(arrays)
    for name, array in arrays.items():
        assert read_back[name].dtype == array.dtype and np.array_equal(read_back[name], array), name
    assert blob.startswith(b"fedsim-checkpoint 2 %s\n" % fedsim.__version__.encode())


def test_a_tree_is_restored_leaf_by_leaf_and_a_leaf_of_another_kind_is_refused():
    tree = {"w": np.ones((2, 3), np.float32)}
    saved = leaves_by_name("params", tree)
    assert digest(restore_tree("params", saved, tree)) == digest(tree)
    with pytest.raises(CheckpointError, match=r"^params\['w'\]: .*; expected "):
        restore_tree("params", saved, {"w": np.ones((2, 3), np.float64)})
    with pytest.raises(CheckpointError, match=r"^params\['v'\]: missing; expected "):
        restore_tree("params", saved, {"v": tree["w"]})


def test_a_digest_depends_on_names_types_shapes_and_bits():
    trees = [
        {"w": np.zeros(4, np.float32)},
        {"v": np.zeros(4, np.float32)},
        {"w": np.zeros(4, np.int32)},
        {"w": np.zeros((2, 2), np.float32)},
        {"w": np.array([0, 0, 0, -0.0], np.float32)},
    ]
    assert len({digest(tree) for tree in trees}) == len(trees)
    assert digest(trees[0]) == digest(dict(trees[0]))
