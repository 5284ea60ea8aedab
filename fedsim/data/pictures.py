"""Encoded images -> one array of bytes: sizes are read from the headers first, then the images are decoded one by one."""

import io
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Len

from fedsim.data.files import opened
from fedsim.errors import DataError
from fedsim.limits import require_memory

Encoded = Iterable[tuple[str, Path | bytes]]  # what faults call each image, and where it is
Side = Annotated[int, Ge(1)]
Size = Annotated[list[Side], Len(2, 2)] | None  # height and width
Channels = Literal[1, 3] | None
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")  # no others: some run programs
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff", ".webp")
GREY = ("1", "L", "LA", "La")  # Pillow's modes of one channel
DEEP = ("I", "F")  # and of more than 8 bits in a channel
SCALE = 1 / 255


def decoded(images: Callable[[], Encoded], size: list[int] | None, channels: int | None) -> np.ndarray:
    """Images as bytes `[n, height, width, channels]`.

    Args:
      images: gives all of them in their order; called twice.
      size: `[height, width]` that all are resized to (bilinear); None: as they are, all of one size.
      channels: 1: grey (ITU-R 601); 3: red, green, blue; None: 1 where all images are grey. Transparency is left out.

    Raises:
      DataError: for what is no sound image, one of more than 8 bits in a channel or of more pixels than Pillow takes for
        safe, and sizes that differ.
      TooLarge: where the memory cannot hold them.
    """
    with warnings.catch_warnings():
        from PIL import Image  # imported where images are read: it costs a tenth of a second

        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        sizes, colours = Counter(), 0
        for name, source in images():
            with _image(name, source) as image:
                sizes[image.height, image.width] += 1
                colours = max(colours, _channels(image))
        height, width = _one_size(sizes) if size is None else size
        n, depth = sizes.total(), channels or colours
        require_memory(images=n * height * width * depth)
        x = np.empty((n, height, width, depth), np.uint8)
        for row, (name, source) in zip(x, images(), strict=True):
            with _image(name, source) as image:
                row[:] = _pixels(image, height, width, depth)
    return x


@contextmanager
def _image(name: str, source: Path | bytes) -> Iterator[Any]:
    """The image, its header read; whatever is wrong with it, then or while it is decoded, is told in a line."""
    from PIL import Image

    try:
        with (
            io.BytesIO(source) if isinstance(source, bytes) else opened(str(source)) as file,
            Image.open(file, formats=FORMATS) as image,
        ):
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
    raise DataError(f"images of {len(sizes)} sizes, height x width: {listed}; write size: [height, width]")
