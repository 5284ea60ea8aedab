"""Images from arrays: channels wherever they are, bytes or floats, are one set of samples."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest
from conftest import own_kinds_of
from encoded import saved, typed

import fedsim
from fedsim.assemble import build
from fedsim.assemble.federation import federations_of
from fedsim.assemble.forecast import notes
from fedsim.errors import DataError, Failure
from fedsim.runs.describe_data import describe
from fedsim.scenario import read
from fedsim.sources.image_sets import image_sets

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (24, 9, 8, 3), np.uint8)  # channels last
LABELS = np.arange(24) % 3
FLOATS = (PIXELS / 255).astype(np.float32)
FIRST = np.moveaxis(PIXELS, -1, 1)
SCENARIO = {"name": "images", "rounds": 1, "data": {"clients": 3, "test": 0.25}}
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


def of_shape(shape):
    return fedsim.Arrays(RNG.random((5, *shape)), np.arange(5) % 2)


FIRSTS = [(3, 9, 8), (1, 9, 8), (4, 9, 9), (3, 3, 16), (3, 4, 4)]
LASTS = [(9, 8, 3), (4, 4, 3), (5, 9, 8), (1, 5, 1)]


def test_the_axis_of_channels_is_seen_or_asked_for():
    for shape in (*FIRSTS, *LASTS):
        assert image_sets(of_shape(shape)).channels_first == (shape in FIRSTS), shape
    for shape in ((3, 9, 3), (3, 3, 3), (1, 9, 3)):
        with pytest.raises(DataError, match=r"first, or last; write data.channel_axis: first"):
            image_sets(of_shape(shape))
    for key, turned in (("first", (9, 3, 1)), ("last", (1, 9, 3))):
        section = {"kind": "supplied", "clients": 2, "channel_axis": key}
        scenario = read({"name": "images", "data": section})
        f = federations_of(scenario, of_shape((1, 9, 3)), np.dtype("float32"))[0]
        assert f.train.x.shape[1:] == turned
    (line,) = image_sets(of_shape((2, 9, 9))).remarks
    assert "2 x 9 pixels of 9 channels; if these come first, write data.channel_axis: first" in line


def of_two(x, x_test, **more):
    return image_sets(fedsim.Arrays(x, LABELS, x_test=x_test, y_test=LABELS, **more))


RAW = PIXELS.astype(np.float32)


@pytest.mark.parametrize(
    "pair",
    [(PIXELS, FLOATS), (FLOATS, PIXELS), (PIXELS, PIXELS), (PIXELS, RAW)],
    ids=["scaled test", "scaled training", "bytes", "floats to 255"],
)
def test_two_sets_have_one_range_and_one_layout(pair):
    for turned in ((), (0,), (1,), (0, 1)):
        sets = [np.moveaxis(x, -1, 1) if i in turned else x for i, x in enumerate(pair)]
        arrays, _, remarks = of_two(*sets)
        for x in (arrays.x, arrays.x_test):
            np.testing.assert_allclose(np.asarray(x) * (arrays.scale or 1.0), FLOATS, rtol=1e-6)
        assert any("divided by 255" in line for line in remarks)


@pytest.mark.parametrize(
    "pair",
    [(RAW, FLOATS), (FLOATS, RAW), (PIXELS, FLOATS * 4), (PIXELS, PIXELS // 255)],
    ids=["scaled test", "scaled training", "standardised test", "test of black"],
)
def test_two_ranges_are_refused(pair):
    with pytest.raises(DataError, match="bring both to one range"):
        of_two(*pair)


def test_what_is_no_image_stays_as_it_is():
    rows = RAW.reshape(len(RAW), -1)
    for x in (rows, rows.astype(int), FLOATS[..., 0], FLOATS, PIXELS // 255):
        arrays, channels_first, remarks = image_sets(fedsim.Arrays(x, LABELS))
        assert arrays.x is x and arrays.scale is None and not channels_first and not remarks
    same = of_two(PIXELS, PIXELS, scale=1.0)
    assert same.arrays.scale == 1.0 and not same.remarks

    # Rows are only said to differ: they need not be pixels.
    (line,) = of_two(rows, rows / 255).remarks
    assert line == "x_test has values up to 1, and x up to 255; bring both to one range"
    (line,) = image_sets(fedsim.Arrays(rows.astype(np.uint8), LABELS)).remarks
    assert line.startswith("features have values up to 255, which slows training")


@pytest.mark.long
def test_bytes_are_no_floats_to_predict_from():
    result = fedsim.run({**SCENARIO, "rounds": 0}, data=(FLOATS, LABELS))
    assert result.predict(FLOATS).shape == (24, 3)
    with pytest.raises(ValueError, match="divide by 255"):
        result.predict(PIXELS)
