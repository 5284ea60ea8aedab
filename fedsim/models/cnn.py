"""The convolutional network of McMahan et al."""

from typing import Annotated

import jax
from annotated_types import Ge, MinLen

from fedsim.compose import model
from fedsim.models.convolution import image_shape, network, pool
from fedsim.models.dense import Build, Width, affine, glorot, he, weights
from fedsim.types import Model


@model
def cnn(
    channels: Annotated[list[Width], MinLen(1)] = [32, 64],  # noqa: B006 (read, never changed)
    kernel: Annotated[int, Ge(1)] = 5,
    hidden: Annotated[int, Ge(1)] = 512,
) -> Build:
    """Convolutional network: per entry of `channels` a convolution, 2×2 max-pooling and ReLU; then hidden, then classes.

    Convolutions keep height and width (zero padding); pooling halves them and drops an odd last row or column. With the
    defaults and 28×28×1 images: 1,663,370 parameters. Start as in `mlp`. `features` are the values of the hidden layer
    `[B, hidden]`, `head` is the last layer.

    Needs: images `[height, width, channels]`, or `[height, width]` for one channel.

    Args:
      channels: output channels of the convolutions.
      kernel: side of their square kernels.
      hidden: width of the hidden layer.
    Raises:
      ValueError: for samples that are no images, or too small for the kernel or to be halved so often.
    References:
      McMahan et al. 2017, Communication-Efficient Learning of Deep Networks from Decentralized Data, arXiv:1602.05629.
    """

    def build(shape: tuple[int, ...], outputs: int) -> Model:
        height, width, depth = image_shape("cnn", shape)
        if min(height, width) >> len(channels) == 0:
            text = f"cnn: {height}×{width} images cannot be halved {len(channels)} times"
            raise ValueError(f"{text}; give fewer `channels`")
        if kernel >= 2 * max(height, width):
            text = f"cnn: kernels of {kernel}×{kernel} reach beyond {height}×{width} images from everywhere"
            raise ValueError(f"{text}; `kernel` at most {2 * max(height, width) - 1}")
        pixels = (height >> len(channels)) * (width >> len(channels))
        names = [f"conv{i}" for i in range(len(channels))]

        def init(key):
            keys = [jax.random.fold_in(key, i) for i in range(len(channels) + 2)]
            params, fan = {}, depth
            for name, k, out in zip(names, keys, channels, strict=False):
                params[name] = weights(k, (kernel, kernel, fan, out), he(kernel * kernel * fan))
                fan = out
            params["hidden"] = weights(keys[-2], (pixels * fan, hidden), he(pixels * fan))
            params["last"] = weights(keys[-1], (hidden, outputs), glorot(hidden, outputs))
            return {"params": params, "stats": {}}

        def body(params, x, convolve):
            h = x.reshape(len(x), height, width, depth)
            for name in names:  # ReLU and bias after pooling: the same values, at a quarter of the places
                h = jax.nn.relu(pool(convolve(h, params[name]["W"])) + params[name]["b"])
            return jax.nn.relu(affine(params["hidden"], h.reshape(len(x), -1)))

        return network(init, body)

    return build
