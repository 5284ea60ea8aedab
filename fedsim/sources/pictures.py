"""Encoded images -> one array of bytes: sizes are read from the headers first, then the images are decoded one by one."""

import io
import math
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Le, MaxLen, MinLen

from fedsim.errors import DataError, megabytes
from fedsim.sources.files import MOST_RATIO, opened

Encoded = Iterable[tuple[str, Path | bytes]]  # what faults call each image, and where it is
Side = Annotated[int, Ge(1), Le(65_535)]  # as JPEG has
Size = Annotated[list[Side], MinLen(2), MaxLen(2)] | None  # height and width
Channels = Literal[1, 3] | None
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")  # no others: some run programs
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff", ".webp")
GREY = ("1", "L", "LA", "La")  # Pillow's modes of one channel
DEEP = ("I", "F")  # and of more than 8 bits in a channel
SCALE = 1 / 255
MOST_PIXELS = 1 << 26  # of an image that others are resized to
START_OF_SCAN = b"\xff\xda"  # the marker of JPEG
MOST_SCANS = 100  # of a JPEG; progressive ones have about ten
MOST_FILE_BYTES = 1 << 30  # of an image
MEMORY_BYTES = 1 << 30  # of decoded images that are held in memory; more lie in a temporary file


def decoded(
    images: Callable[[], Encoded], size: list[int] | None, channels: int | None
) -> np.ndarray:
    """Images as bytes `[n, height, width, channels]`, above 1 GiB in a temporary file that rows are read from.

    Args:
      images: gives all of them in their order; called twice.
      size: `[height, width]` that all are resized to (bilinear); None: as they are, all of one size.
      channels: 1: grey (ITU-R 601); 3: red, green, blue; None: 1 where all images are grey. Transparency is left out.

    Raises:
      DataError: for what is no sound image, one of more than 8 bits in a channel or of more pixels than Pillow takes for
        safe, sizes that differ, and more than there is room for.
    """
    with warnings.catch_warnings():
        from PIL import Image  # imported where images are read: it costs a tenth of a second

        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        sizes, colours, packed, pixels = Counter(), 0, 0, 0
        for name, source in images():
            with _image(name, source) as image:
                packed += len(source) if isinstance(source, bytes) else source.stat().st_size
                sizes[image.height, image.width] += 1
                colours = max(colours, _channels(image))
                pixels += image.height * image.width
                _require_work(pixels, packed)
        height, width = _one_size(sizes) if size is None else size
        depth = channels or colours
        x = _room((sizes.total(), height, width, depth), packed)
        if size is not None and height * width > MOST_PIXELS:
            raise DataError(f"size: {height} x {width} pixels; at most {MOST_PIXELS} in an image")
        for row, (name, source) in zip(x, images(), strict=True):
            with _image(name, source) as image:
                row[:] = _pixels(image, height, width, depth)
    return x


def _room(shape: tuple[int, ...], packed: int) -> np.ndarray:
    """Bytes of this shape for images that are so many bytes as they lie: in memory, or in a file without a name.

    Raises:
      DataError: where they would fill the disk, or are a bomb.
    """
    size, form = math.prod(shape), " x ".join(map(str, shape))
    if size <= MEMORY_BYTES:
        return np.empty(shape, np.uint8)
    if size > MOST_RATIO * packed:
        raise DataError(f"images of {form} bytes from {packed} bytes; at most {MOST_RATIO}-fold")
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if size > free:
        where = f"{tempfile.gettempdir()} has {megabytes(free)} left; choose a smaller size, or another folder by TMPDIR"
        raise DataError(f"images of {form} bytes are {megabytes(size)}, and {where}")
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, np.uint8, "w+", shape=shape)


def as_bytes(values: np.ndarray) -> np.ndarray:
    """Numbers as the bytes that they are 1/255 of, where all of them are; else as they are."""
    if not values.size or values.min() < 0 or values.max() > 1:
        return values
    scaled = values * 255
    whole = np.rint(scaled)
    return whole.astype(np.uint8) if np.abs(scaled - whole).max() < 1e-4 else values


@contextmanager
def _image(name: str, source: Path | bytes) -> Iterator[Any]:
    """The image, its header read; whatever is wrong with it, then or while it is decoded, is told in a line."""
    from PIL import Image

    try:
        with (
            io.BytesIO(source)
            if isinstance(source, bytes)
            else opened(str(source), most=MOST_FILE_BYTES) as file,
            Image.open(file, formats=FORMATS) as image,
        ):
            _require_few_scans(image)
            yield image
    except DataError as error:
        raise DataError(f"{name}: {error.lines[0].removeprefix(f'{source}: ')}") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        text = f"has more than {Image.MAX_IMAGE_PIXELS} pixels, a decompression bomb perhaps; make it smaller"
        raise DataError(f"{name}: {text}") from None
    except Image.UnidentifiedImageError:
        raise DataError(f"{name}: not an image of {', '.join(FORMATS)}") from None
    except Exception as error:  # decoders fail in a dozen ways on what is cut off or damaged
        reason = (str(error).splitlines() or [""])[0][:100] or type(error).__name__
        raise DataError(f"{name}: not a sound image: {reason}") from None


def _require_work(pixels: int, packed: int) -> None:
    """Refuse images that would take hours to decode, whatever size they are given then.

    Raises:
      DataError: for more pixels than so many bytes hold in images that somebody drew or took.
    """
    if pixels > max(MEMORY_BYTES, MOST_RATIO * packed):
        raise DataError(
            f"{pixels} pixels so far, from {packed} bytes; at most {MOST_RATIO} for a byte"
        )


def _require_few_scans(image: Any) -> None:
    """Refuse a JPEG of so many scans that decoding takes minutes: each goes through all pixels.

    Within a scan a byte of 255 is always followed by 0 or by a restart marker, so each `START_OF_SCAN` is one (or one of
    a small image in its metadata).

    Raises:
      DataError: for more than `MOST_SCANS`.
    """
    if image.format != "JPEG":
        return
    file = image.fp
    place = file.tell()
    file.seek(0)
    scans = file.read().count(START_OF_SCAN)
    file.seek(place)
    if scans > MOST_SCANS:
        raise DataError(f"a JPEG of {scans} scans; at most {MOST_SCANS}")


def _channels(image: Any) -> int:
    if image.mode.startswith(DEEP):
        raise DataError("has more than 8 bits in a channel; save it with 8")
    return 1 if image.mode in GREY else 3


def _pixels(image: Any, height: int, width: int, channels: int) -> np.ndarray:
    """`[height, width, channels]`."""
    from PIL import Image

    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(height, width, channels)


def _one_size(sizes: Counter) -> tuple[int, int]:
    """The only size that there is.

    Raises:
      DataError: naming the sizes that were seen.
    """
    if len(sizes) == 1:
        return next(iter(sizes))
    seen = [f"{height} x {width} ({n})" for (height, width), n in sizes.most_common(5)]
    listed = ", ".join(seen) + (f" and {len(sizes) - 5} more" if len(sizes) > 5 else "")
    raise DataError(
        f"images of {len(sizes)} sizes, height x width: {listed}; write size: [height, width]"
    )
