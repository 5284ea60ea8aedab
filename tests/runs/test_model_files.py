"""`fedsim.load_model`: which file it is, and files that are not models."""

import numpy as np
import pytest
from safetensors.numpy import save_file

import fedsim
from fedsim.errors import DirectoryError

ARRAY = np.arange(3, dtype=np.float32)


def test_the_only_model_of_a_folder(tmp_path):
    save_file({"params/W": ARRAY, "params/b": ARRAY + 1}, tmp_path / "model.fedavg.0.safetensors")
    model = fedsim.load_model(tmp_path)
    np.testing.assert_array_equal(model["params"]["W"], ARRAY)
    np.testing.assert_array_equal(model["params"]["b"], ARRAY + 1)


def test_a_folder_without_a_model_or_with_two(tmp_path):
    with pytest.raises(DirectoryError, match=r"has no model\.\*\.safetensors"):
        fedsim.load_model(tmp_path)
    for seed in (0, 1):
        save_file({"params/W": ARRAY}, tmp_path / f"model.fedavg.{seed}.safetensors")
    with pytest.raises(DirectoryError, match=r"has 2 models; name one, such as .*fedavg\.0"):
        fedsim.load_model(tmp_path)


def test_a_tensor_inside_another_one(tmp_path):
    file = tmp_path / "model.safetensors"
    save_file({"params": ARRAY, "params/W": ARRAY}, file)
    with pytest.raises(DirectoryError, match="'params/W' lies inside another tensor"):
        fedsim.load_model(file)
