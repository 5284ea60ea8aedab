"""A file of a model is read back as it was written; what is no single model is refused."""

import os

import numpy as np
import pytest
from safetensors.numpy import save_file

import fedsim
from fedsim.disk.checkpoint import digest
from fedsim.errors import DirectoryError
from fedsim.runs import directory


def test_a_model_file_is_read_back_as_it_was_written(tmp_path):
    """A model's state beside its parameters has its old name in the file."""
    W = np.arange(6.0, dtype=np.float32).reshape(2, 3).T
    model = {"params": {"layer0": {"W": W, "b": np.zeros(3)}}, "stats": {"mean": np.ones(2)}}
    directory.write_model(tmp_path / "model.fedavg.0.safetensors", model)
    loaded = fedsim.load_model(tmp_path)  # the only one in the folder
    expected = {"params": model["params"], "state": model["stats"]}
    assert digest(loaded) == digest(expected)


def test_what_is_not_a_single_model_is_refused(tmp_path):
    with pytest.raises(DirectoryError, match=r"has no model\.\*\.safetensors"):
        fedsim.load_model(tmp_path)
    for seed in (0, 1):
        file = tmp_path / f"model.fedavg.{seed}.safetensors"
        save_file({"params": np.ones(3), "params/W": np.ones(3)}, file)
    with pytest.raises(DirectoryError, match=r"has 2 models; name one, such as .*fedavg\.0"):
        fedsim.load_model(tmp_path)
    with pytest.raises(DirectoryError, match="'params/W' lies inside another tensor"):
        fedsim.load_model(file)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DirectoryError, match="pipe: is not a regular file"):
        fedsim.load_model(tmp_path / "pipe")
