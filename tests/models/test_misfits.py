"""A model that does not fit its samples: one line with their shape, the fault, and the key."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim.assemble import build
from fedsim.errors import Failure, ScenarioError
from fedsim.scenario import read

IMAGES = "samples are float32 [8, 8, 1], channels last"
GIVEN = "(apply takes a batch, an Equinox module one)"
NO_KEY = "no key of data changes that: reshape in the model"
DOT = "dot_general requires contracting dimensions to have the same shape"
DIGITS = {"kind": "digits", "clients": 5}
BLOBS = {"kind": "gaussian_blobs", "shape": [6], "samples": 60, "clients": 3}


def dense(inputs: int, outputs: int):
    return lambda key: jnp.zeros((inputs, outputs)), lambda params, x: x @ params


def first(key):
    return jnp.zeros((4, 1, 3, 3))


def channels_first(params, x):
    return jax.lax.conv(x, params, (1, 1), "SAME").mean((2, 3))


def convolved(params, x):
    return jax.lax.conv_general_dilated(x, params, (1, 1), "SAME").mean((1, 2))


MISFITS = {
    "an image for a flat one": (DIGITS, dense(64, 10), [DOT, IMAGES, GIVEN, NO_KEY]),
    "a flat one for an image": (
        BLOBS, (first, convolved),
        ["convolution", f"samples are float32 [6] {GIVEN}", "data.shape changes that, or reshape"],
    ),
    "channels last for first": (DIGITS, (first, channels_first), ["dimension", IMAGES, NO_KEY]),
    "too few outputs": (
        BLOBS, dense(6, 3),
        [
            "apply returned outputs (16, 3); the data have 10 classes: [16, 10]",
            "samples are float32 [6]; data.classes changes the labels, or change the model",
        ],
    ),
    "outputs that are no scores": (
        {"kind": "diabetes", "clients": 3}, dense(10, 3),
        [
            "a target of the data has 1 number; samples are float32 [10]; "
            "no key of data changes the labels"
        ],
    ),
    "tokens for numbers": (
        {"kind": "text", "length": 10, "clients": 2}, dense(10, 20),
        ["samples are tokens [10], integers", "data.tokens and data.vocabulary change the labels"],
    ),
}  # fmt: skip


def line_of(data, model) -> str:
    with pytest.raises(ScenarioError) as error:
        fedsim.run({"name": "x", "rounds": 1, "data": data}, model=model)
    (line,) = str(error.value).splitlines()
    assert line.startswith("scenario: model: ") and len(line) <= 300
    return line


def in_parts(names) -> list:
    """The first, of inputs, and the one of outputs are played in the fast part."""
    fast = ("an image for a flat one", "too few outputs")
    return [name if name in fast else pytest.param(name, marks=pytest.mark.long) for name in names]


@pytest.mark.parametrize("name", in_parts(MISFITS))
def test_a_line_has_what_is_needed_to_mend_it(tmp_path, name):
    data, model, parts = MISFITS[name]
    if data["kind"] == "text":
        (tmp_path / "t.txt").write_text("to be or not to be " * 100)
        data = {**data, "path": str(tmp_path / "t.txt")}
    line = line_of(data, model)
    for part in parts:
        assert part in line, line


def test_a_table_s_columns_are_named():
    x = np.zeros((20, 3), np.float32)
    arrays = fedsim.Arrays(x, np.arange(20) % 2, client=np.arange(20) % 2)
    line = r"samples are float32 \[3\] .*data.drop and data.columns"
    with pytest.raises(ScenarioError, match=line):
        fedsim.run({"name": "x", "rounds": 1}, data=arrays, model=dense(4, 2))


def test_what_is_not_about_samples_says_nothing_of_them():
    scenario = read({"name": "x", "rounds": 1, "data": BLOBS, "model": "cnn"})
    for act in (
        lambda: fedsim.run(scenario, model=str),
        lambda: fedsim.run(scenario, model=object()),
        lambda: fedsim.run(scenario, model=(first, lambda params, x: missing)),
        lambda: build(scenario),
    ):
        with pytest.raises(Failure) as error:
            act()
        assert "samples are" not in str(error.value), error.value
