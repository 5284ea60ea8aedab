"""LeNet-5."""

import math

import jax

from fedsim.compose import model
from fedsim.models.convolution import network, pool
from fedsim.models.dense import Build, affine, glorot, he, hidden_axes, weights
from fedsim.models.images import batch_last, flat, image_shape, of_channels
from fedsim.types import Model

MIN_SIDE = 12  # pixels of which both convolutions and poolings leave something


@model
def lenet() -> Build:
    """LeNet-5 with ReLU and 2×2 max-pooling: 5×5×6 and 5×5×16 convolutions, layers of 120 and 84.

    A layer of classes follows. The first convolution preserves height and width (zero padding), the
    second stays inside the image, as LeCun's does on 28×28 digits padded to 32×32: 61,706
    parameters for ten classes. Weights start as in `mlp`. `features` are the values of the layer of
    84 `[B, 84]`, `head` is the last layer.

    Needs: images `[height, width, channels]`, or `[height, width]` for one channel, at least 12×12.

    Raises:
      ValueError: for samples that are not images, or too small.
    References:
      LeCun et al. 1998, Gradient-based learning applied to document recognition, Proceedings of the
      IEEE 86(11).
    """

    def build(shape: tuple[int, ...], outputs: int) -> Model:
        height, width, depth = image_shape("lenet", shape, MIN_SIDE)
        rows = (height // 2 - 4) // 2
        columns = (width // 2 - 4) // 2
        inner = {
            "conv0": (5, 5, depth, 6),
            "conv1": (5, 5, 6, 16),
            "hidden0": (16 * rows * columns, 120),
            "hidden1": (120, 84),
        }

        def init(key):
            params = {}
            for i, (name, size) in enumerate(inner.items()):
                bound = he(math.prod(size[:-1]))
                params[name] = weights(jax.random.fold_in(key, i), size, bound)
            last_key = jax.random.fold_in(key, len(inner))
            params["last"] = weights(last_key, (84, outputs), glorot(84, outputs))
            return {"params": params, "stats": {}}

        def body(params, x, convolve):
            h = batch_last(x, height, width, depth)  # [C, H, W, B]
            for name, padding in (("conv0", "SAME"), ("conv1", "VALID")):
                h = convolve(h, params[name]["W"], padding=padding)
                h = jax.nn.relu(pool(h) + of_channels(params[name]["b"]))
            h = flat(h)  # [B, F]
            for name in ("hidden0", "hidden1"):
                h = jax.nn.relu(affine(params[name], h))
            return h

        units = [size[-1] for size in inner.values()]
        axes = hidden_axes([*inner, "last"], units)
        return network(init, body)._replace(hidden=axes)

    return build
