"""Encoded images -> one array of bytes.

The sizes of all images are read from their headers first; then images are decoded one by one.
"""

import io
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Le, MaxLen, MinLen

from fedsim.errors import DataError
from fedsim.limits import require_memory
from fedsim.sources.files import opened

Encoded = Iterable[tuple[str, Path | bytes]]  # the name of each image in errors, and its content
Side = Annotated[int, Ge(1), Le(65_535)]  # as in JPEG
Size = Annotated[list[Side], MinLen(2), MaxLen(2)] | None  # height and width
Channels = Literal[1, 3] | None
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")  # no others: some run programs
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff", ".webp")
GREY_MODES = ("1", "L", "LA", "La")  # Pillow's modes with one channel
DEEP_MODES = ("I", "F")  # prefixes of modes with more than 8 bits in a channel
SCALE = 1 / 255
MAX_PIXELS = 1 << 26  # of the size that images are resized to
MAX_FILE_BYTES = 1 << 30  # of an image


class _Survey(NamedTuple):
    """What the headers of all images say."""

    sizes: Counter  # (height, width) -> the number of images of that size
    channels: int  # 1 where all images are grey, else 3


def decoded(
    images: Callable[[], Encoded], size: list[int] | None, channels: int | None
) -> np.ndarray:
    """Return images as bytes `[n, height, width, channels]`.

    They are resized to `size`, `[height, width]` (bilinear), and have 1 channel (grey, ITU-R 601)
    or 3 (red, green, blue); None: the size that all have, and 1 where all are grey. Transparency is
    ignored. `images` is called twice.

    Raises:
      DataError: for unsound images, images of more than 8 bits in a channel or of more pixels than
        Pillow considers safe, and sizes that differ.
      OutOfMemoryError: for images that do not fit into memory.
    """
    with warnings.catch_warnings():
        from PIL import Image  # imported only where images are read: it takes a tenth of a second

        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        survey = _survey(images())
        height, width = _only_size(survey.sizes) if size is None else size
        depth = channels or survey.channels
        if size is not None and height * width > MAX_PIXELS:
            raise DataError(f"size: {height} x {width} pixels; at most {MAX_PIXELS} in an image")
        shape = (survey.sizes.total(), height, width, depth)
        require_memory(images=math.prod(shape))
        x = np.empty(shape, np.uint8)
        for row, (name, source) in zip(x, images(), strict=True):
            with _image(name, source) as image:
                row[:] = _pixels(image, height, width, depth)
    return x


def labelled(
    images: np.ndarray, labels: np.ndarray, nouns: tuple[str, str], remedy: str = ""
) -> tuple[np.ndarray, np.ndarray]:
    """Return images `[n, height, width, channels]` with their classes `[n]`.

    Images of other shapes than `[n, height, width]` stay; labels are whole numbers `[n]` or
    `[n, 1]`. Errors call both by their nouns, and have the remedy for labels of another shape.
    """
    name_of_images, name_of_labels = nouns
    if labels.dtype.kind not in "iu" or labels.shape[1:] not in ((), (1,)):
        found = f"{labels.dtype} {labels.shape}"
        raise DataError(f"{name_of_labels}: expected whole numbers [n], found {found}{remedy}")
    if len(images) != len(labels):
        raise DataError(f"{len(images)} {name_of_images} and {len(labels)} {name_of_labels}")
    if images.ndim == 3:
        images = images[..., None]
    return images, labels.reshape(-1).astype(np.int64)


def as_bytes(values: np.ndarray) -> np.ndarray:
    """Return numbers as bytes, if all are whole multiples of 1/255; else unchanged."""
    if not values.size or values.min() < 0 or values.max() > 1:
        return values
    scaled = values * 255
    rounded = np.rint(scaled)
    return rounded.astype(np.uint8) if np.abs(scaled - rounded).max() < 1e-4 else values


def alike(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return arrays as they are; or bytes as multiples of 1/255, where others hold numbers."""
    numbers = [part.dtype for part in parts if part.dtype != np.uint8]
    if not numbers:
        return list(parts)
    return [(part * SCALE).astype(numbers[0]) if part.dtype == np.uint8 else part for part in parts]


def _survey(images: Encoded) -> _Survey:
    sizes = Counter()
    channels = 0
    for name, source in images:
        with _image(name, source) as image:
            sizes[image.height, image.width] += 1
            channels = max(channels, _channels(image))
    return _Survey(sizes, channels)


def _only_size(sizes: Counter) -> tuple[int, int]:
    """The size that all images have; an error lists them where they differ."""
    if len(sizes) == 1:
        return next(iter(sizes))
    frequent = [f"{height} x {width} ({n})" for (height, width), n in sizes.most_common(5)]
    listed = ", ".join(frequent)
    if len(sizes) > len(frequent):
        listed += f" and {len(sizes) - len(frequent)} more"
    raise DataError(
        f"images of {len(sizes)} sizes, height x width: {listed}; write size: [height, width]"
    )


@contextmanager
def _image(name: str, source: Path | bytes) -> Iterator[Any]:
    """Open an image and read its header; any error, also while it is decoded, becomes one line."""
    from PIL import Image

    try:
        with _content(source) as file, Image.open(file, formats=FORMATS) as image:
            yield image
    except DataError as error:
        raise DataError(f"{name}: {error.lines[0].removeprefix(f'{source}: ')}") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        problem = f"has more than {Image.MAX_IMAGE_PIXELS} pixels, perhaps a decompression bomb"
        raise DataError(f"{name}: {problem}; make it smaller") from None
    except Image.UnidentifiedImageError:
        raise DataError(f"{name}: not an image of {', '.join(FORMATS)}") from None
    except Exception as error:  # decoders raise a dozen exceptions for truncated or damaged images
        reason = (str(error).splitlines() or [""])[0][:100] or type(error).__name__
        raise DataError(f"{name}: not a sound image: {reason}") from None


def _content(source: Path | bytes) -> Any:
    if isinstance(source, bytes):
        return io.BytesIO(source)
    return opened(str(source), max_bytes=MAX_FILE_BYTES)


def _channels(image: Any) -> int:
    if image.mode.startswith(DEEP_MODES):
        raise DataError("has more than 8 bits in a channel; save it with 8")
    return 1 if image.mode in GREY_MODES else 3


def _pixels(image: Any, height: int, width: int, channels: int) -> np.ndarray:
    from PIL import Image

    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(height, width, channels)
