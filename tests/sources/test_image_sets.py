"""Images of two sets get one layout and one range; what is no image stays as it is."""

import numpy as np
import pytest

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.errors import DataError
from fedsim.scenario import read
from fedsim.sources.image_sets import image_sets

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (24, 9, 8, 3), np.uint8)  # channels last
LABELS = np.arange(24) % 3
FLOATS = (PIXELS / 255).astype(np.float32)
SCENARIO = {"name": "images", "rounds": 1, "data": {"clients": 3, "test": 0.25}}


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
