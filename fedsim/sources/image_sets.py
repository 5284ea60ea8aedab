"""Arrays that hold images: where their channels are, and the range of their values."""

from typing import Any, Literal, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.pictures import SCALE

ChannelAxis = Literal["first", "last"] | None
CHANNELS = (1, 3, 4)  # grey, colour, colour with transparency
IMAGE_AXES = 4  # of images with channels, and the rows
MAX_OF_SCALED = 16  # no scaled or standardised image has a larger value

KEY = "data.channel_axis"


class ImageSets(NamedTuple):
    """Samples of which images are as models read them."""

    arrays: Arrays  # the samples; images have their channels last
    channels_first: bool  # whether those of x came first
    remarks: list[str]  # what was changed, and what seems wrong: a line for each


def image_sets(
    arrays: Arrays, channel_axis: ChannelAxis = None, standardize: bool = False
) -> ImageSets:
    """Recognise images, and bring their channels to the last axis and their values to one range.

    Channels are an axis of 1, 3 or 4, the first or the last of a sample `[a, b, c]`, where
    `channel_axis` does not say which. If both could be it, it is the one that leaves a square. The
    values of bytes (uint8) from 2 to 255 are divided by 255, unless `arrays.scale` says otherwise.

    Raises:
      DataError: for channels that may be first or last, and for training and test samples in
        different ranges.
    """
    sets = {"x": np.asarray(arrays.x)}
    if arrays.x_test is not None and np.size(arrays.x_test):
        sets["x_test"] = np.asarray(arrays.x_test)
    are_numbers = all(x.dtype.kind in "fiub" and x.size for x in sets.values())
    if arrays.vocabulary or not are_numbers:
        return ImageSets(arrays, False, [])  # what is no number is refused later, by its row

    shape = sets["x"].shape[1:]
    are_first = {name: _are_first(name, x, channel_axis) for name, x in sets.items()}
    for name, x in sets.items():
        sets[name] = np.moveaxis(x, 1, -1) if are_first[name] else x
    remarks = _remarks_on_channels(shape, are_first["x"], channel_axis)
    arrays, of_range = _in_one_range(arrays._replace(**sets), sets, standardize)
    return ImageSets(arrays, are_first["x"], [*remarks, *of_range])


def _are_first(name: str, x: np.ndarray, axis: ChannelAxis) -> bool:
    """Whether samples are images with their channels first."""
    return x.ndim == IMAGE_AXES and (axis or _channel_axis(name, x.shape[1:])) == "first"


def _channel_axis(name: str, shape: tuple[int, ...]) -> ChannelAxis:
    """Where samples `[a, b, c]` have their channels; None: they are no images."""
    first, middle, last = shape
    may_be_first = first in CHANNELS
    may_be_last = last in CHANNELS
    if may_be_first and may_be_last and first != last:
        may_be_first = middle == last
        may_be_last = first == middle
    is_open = may_be_first == may_be_last
    if is_open and first in CHANNELS and last in CHANNELS and not first == last == 1:
        text = f"{name}: samples {list(shape)} have their channels first, or last"
        raise DataError(f"{text}; write {KEY}: first, or {KEY}: last")
    if is_open:
        return None
    return "first" if may_be_first else "last"


def _remarks_on_channels(
    shape: tuple[int, ...], channels_first: bool, axis: ChannelAxis
) -> list[str]:
    """A line for images that were turned, and for those that perhaps should be."""
    if channels_first:
        moved = [*shape[1:], shape[0]]
        text = f"images {list(shape)} have their channels first, and are kept as {moved}"
        text = f"{text} (a network of your own sees them as they came)"
        return [text if axis else f"{text}; if they are no channels, write {KEY}: last"]
    if len(shape) + 1 != IMAGE_AXES or axis:
        return []
    first, middle, last = shape
    if middle == last != first and last not in CHANNELS:
        text = f"samples {list(shape)} are read as {first} x {middle} pixels of {last} channels"
        return [f"{text}; if these come first, write {KEY}: first"]
    return []


class _Values(NamedTuple):
    """The features of one set, with their largest value."""

    name: str  # x or x_test
    values: Any
    top: float

    @property
    def are_bytes(self) -> bool:
        """Whether they are pixels from 0 to 255."""
        return self.values.dtype == np.uint8 and self.top > 1

    @property
    def are_unscaled(self) -> bool:
        """Whether they are larger than those of scaled images."""
        return self.are_bytes or self.top > MAX_OF_SCALED


def _in_one_range(
    arrays: Arrays, by_name: dict[str, np.ndarray], standardize: bool
) -> tuple[Arrays, list[str]]:
    """Samples whose training and test sets have one range, and a line for each change."""
    x = by_name["x"]
    sets = [_values(name, values) for name, values in by_name.items()]
    unscaled = [each for each in sets if each.are_unscaled]
    scaled = [each for each in sets if not each.are_unscaled]
    if unscaled and scaled:
        return _of_two_ranges(arrays, unscaled[0], scaled[0])
    if arrays.scale is not None:
        return arrays, []

    are_images = x.ndim == IMAGE_AXES and x.shape[-1] in CHANNELS
    if x.ndim >= IMAGE_AXES - 1 and any(each.are_bytes for each in sets):
        text = "images are bytes and are divided by 255; with scale 1 in the samples they stay"
        return arrays._replace(scale=SCALE), [text]
    remarks = []
    if unscaled and not standardize and (are_images or x.dtype == np.uint8):
        text = f"features have values up to {sets[0].top:.4g}, which slows training"
        remarks = [f"{text}; try data.standardize: true, or scale 1/255 in the samples"]
    return arrays, remarks


def _of_two_ranges(arrays: Arrays, unscaled: _Values, scaled: _Values) -> tuple[Arrays, list[str]]:
    """Samples of which one set is scaled already: bytes in the other are scaled as well."""
    x: Any = arrays.x
    is_of_unit = scaled.values.dtype.kind == "f" and scaled.top <= 1
    if arrays.scale is None and unscaled.are_bytes and is_of_unit and x.ndim >= IMAGE_AXES - 1:
        values = np.asarray(unscaled.values, scaled.values.dtype) * SCALE
        changed: dict[str, Any] = {unscaled.name: values, "scale": 1.0}
        text = f"{unscaled.name} holds bytes and is divided by 255, as {scaled.name} already is"
        return arrays._replace(**changed), [text]

    ranges = f"{scaled.name} has values up to {scaled.top:.4g}, and {unscaled.name} up to"
    line = f"{ranges} {unscaled.top:.4g}; bring both to one range"
    are_images = x.ndim == IMAGE_AXES and x.shape[-1] in CHANNELS
    if are_images or (unscaled.are_bytes and x.ndim >= IMAGE_AXES - 1):
        raise DataError(line)
    apart = scaled.top <= 1 and unscaled.top > MAX_OF_SCALED
    return arrays, [line] if apart else []


def _values(name: str, values: Any) -> _Values:
    """Return the features of a set; blanks do not count."""
    return _Values(name, values, float(np.fmax.reduce(values, axis=None)))
