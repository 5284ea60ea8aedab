"""Images on their way through a network: `[C, H, W, B]`, the batch last.

A shift along either side is then a copy of whole stretches of memory, and the matrix products of a convolution and of its
gradients find their operands as they lie (`convolution`).
"""


def image_shape(model: str, shape: tuple[int, ...], least: int = 1) -> tuple[int, int, int]:
    """(height, width, channels) of samples; `[height, width]` has one channel.

    Args:
      model: which asks, for the error.
      shape: of one sample.
      least: pixels that the shorter side must have.

    Raises:
      ValueError: for samples that are no images, or too small.
    """
    if len(shape) not in (2, 3):
        raise ValueError(
            f"{model} needs images [height, width, channels], samples have shape {tuple(shape)}; use mlp"
        )
    height, width, depth = (*shape, 1)[:3]
    if min(height, width) < least:
        raise ValueError(
            f"{model} needs images of at least {least}×{least} pixels, samples have {height}×{width}"
        )
    return height, width, depth


def batch_last(x, height: int, width: int, channels: int):
    """Samples `[B, ...]` as images `[C, H, W, B]`."""
    return x.reshape(len(x), height, width, channels).transpose(3, 1, 2, 0)


def flat(h):
    """Images `[C, H, W, B]` as rows `[B, H·W·C]`."""
    return h.transpose(3, 1, 2, 0).reshape(h.shape[3], -1)


def of_channels(p):
    """A number per channel `[C]`, against images."""
    return p[:, None, None, None]
