"""Images with channels first are those with channels last, in every form and for every model."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest
from conftest import own_kinds_of
from encoded import saved, typed
from test_image_sets import FLOATS, LABELS, PIXELS, SCENARIO

import fedsim
from fedsim.assemble import build
from fedsim.assemble.forecast import notes
from fedsim.errors import Failure
from fedsim.runs.describe_data import describe
from fedsim.scenario import read

RNG = np.random.default_rng(0)
FIRST = np.moveaxis(PIXELS, -1, 1)
TURNED = "images [3, 9, 8] have their channels first, and are kept as [9, 8, 3]"
DIVIDED = "images are bytes and are divided by 255"


def built(data, network=None, **section):
    section = {"kind": "supplied", **SCENARIO["data"], **section}
    scenario = read({**SCENARIO, "model": "logistic", "data": section})
    return build(scenario, data=data, model=network)


def in_lists(folder, x, y):
    form = pa.list_(pa.list_(pa.list_(pa.from_numpy_dtype(x.dtype))))
    table = pa.table({"image": pa.array(x.tolist(), form), "label": y})
    path = saved(typed(table, {}), folder / "set")
    return {"kind": "huggingface", "path": path, "features": ["image"]}


@pytest.mark.quick(5)
@pytest.mark.parametrize("pixels", [PIXELS, FLOATS], ids=["bytes", "floats"])
@pytest.mark.parametrize("form", ["pair", "mapping", "Arrays", "npz", "huggingface"])
def test_channels_first_are_channels_last_in_every_form(tmp_path, form, pixels):
    first = np.ascontiguousarray(np.moveaxis(pixels, -1, 1))
    data, section = None, {}
    if form == "npz":
        np.savez(tmp_path / "images.npz", x=first, y=LABELS)
        section = {"kind": "npz", "path": str(tmp_path / "images.npz")}
    elif form == "huggingface":
        section = in_lists(tmp_path, first, LABELS)
    elif form == "mapping":
        data = {"x": first, "y": LABELS}
    else:
        data = (first, LABELS) if form == "pair" else fedsim.Arrays(first, LABELS)
    experiment = built(data, **section)
    expected = built((pixels, LABELS)).plans[0].federation
    got = experiment.plans[0].federation
    for name in ("train", "test"):
        for mine, theirs in zip(getattr(got, name), getattr(expected, name), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    is_bytes = pixels is PIXELS
    assert got.scale == expected.scale == (1 / 255 if is_bytes else 1.0)

    said = notes(experiment)
    assert sum(line.startswith(TURNED) for line in said) == 1
    assert sum(line.startswith(DIVIDED) for line in said) == is_bytes
    if section.get("kind") == "npz":
        described = describe(section["path"])
        assert described["shape"] == [9, 8, 3] and described["scale"] == got.scale
        assert got.remarks and set(got.remarks) <= set(described["notes"])


OF_SEQUENCES = {"char_lstm", "char_gru", "transformer"}
OF_FIELDS = {kind for kind, f in own_kinds_of("model").items() if ".fields." in f.__module__}


@pytest.mark.long
@pytest.mark.parametrize("model", sorted(own_kinds_of("model").keys() - OF_SEQUENCES - OF_FIELDS))
def test_every_model_learns_the_same_of_both(model):
    x = RNG.integers(0, 256, (12, 16, 16, 3), np.uint8)
    losses = []
    for images in (x, np.moveaxis(x, -1, 1)):
        section = {**SCENARIO["data"], "clients": 2, "augment": ["flip"], "skew": ["rotation"]}
        scenario = {**SCENARIO, "model": model, "data": section, "numerics": {"lanes": 1}}
        with warnings.catch_warnings(action="ignore"):
            result = fedsim.run(scenario, data=(images, np.arange(12) % 3))
        losses.append(result.rounds.test_loss.tolist())
        outputs = result.predict(images[:2])
        assert outputs.shape == (2, 3)
        losses[-1] += outputs.ravel().tolist()
    assert losses[0] == losses[1]


@pytest.mark.long
def test_a_network_of_the_user_sees_images_as_they_came():
    def init(key):
        return 0.1 * jax.random.normal(key, (3, 3, 2, 2))

    def of_first(params, x):
        assert x.shape[1:] == (3, 9, 8)
        return jax.lax.conv(x, params, (1, 1), "SAME").mean((2, 3))

    def of_last(params, x):
        return of_first(params, jnp.moveaxis(x, -1, 1))

    losses = []
    for images, apply in ((FIRST, of_first), (PIXELS, of_last)):
        with warnings.catch_warnings(action="ignore"):
            result = fedsim.run(SCENARIO, data=(images, LABELS), model=(init, apply))
        losses.append([*result.rounds.test_loss, *result.predict(images).ravel()])
    np.testing.assert_allclose(*losses, rtol=1e-5)

    flat = (lambda key: jnp.zeros((4, 3)), lambda params, x: x @ params)
    with pytest.raises(Failure, match=r"samples are uint8 \[3, 9, 8\], channels first"):
        built((FIRST, LABELS), network=flat)
