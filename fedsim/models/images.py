"""Images inside a network: `[C, H, W, B]`, the batch last.

A shift along either side is then a copy of contiguous memory, and the matrix products of a
convolution and of its gradients find their operands in place (`convolution`).
"""


def image_shape(model: str, shape: tuple[int, ...], least: int = 1) -> tuple[int, int, int]:
    """Return (height, width, channels) of samples; `[height, width]` has one channel.

    Args:
      least: pixels that the shorter side must have.

    Raises:
      ValueError: for samples that are not images, or too small.
    """
    if len(shape) == 2:
        height, width = shape
        channels = 1
    elif len(shape) == 3:
        height, width, channels = shape
    else:
        raise ValueError(
            f"{model} needs images [height, width, channels], samples have shape {tuple(shape)}; "
            "use mlp"
        )
    if min(height, width) < least:
        raise ValueError(
            f"{model} needs images of at least {least}×{least} pixels, "
            f"samples have {height}×{width}"
        )
    return height, width, channels


def batch_last(x, height: int, width: int, channels: int):
    """Samples `[B, ...]` as images `[C, H, W, B]`."""
    return x.reshape(len(x), height, width, channels).transpose(3, 1, 2, 0)


def flat(h):
    """Images `[C, H, W, B]` as rows `[B, H·W·C]`."""
    return h.transpose(3, 1, 2, 0).reshape(h.shape[3], -1)


def of_channels(p):
    """A number per channel `[C]`, broadcast against images `[C, H, W, B]`."""
    return p[:, None, None, None]
