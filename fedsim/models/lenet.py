"""LeNet-5."""

import math

import jax

from fedsim.compose import model
from fedsim.models.convolution import network, pool
from fedsim.models.dense import Build, affine, glorot, he, weights
from fedsim.models.images import batch_last, flat, image_shape, of_channels
from fedsim.types import Model

SIDE = 12  # pixels that are left something by both convolutions and poolings


@model
def lenet() -> Build:
    """LeNet-5 with ReLU and 2×2 max-pooling: 5×5×6, 5×5×16 convolutions, then layers of 120, 84 and classes.

    The first convolution keeps height and width (zero padding), the second stays inside the image, as LeCun's does on
    28×28 digits padded to 32×32: 61,706 parameters for ten classes. Start as in `mlp`. `features` are the values of the
    layer of 84 `[B, 84]`, `head` is the last layer.

    Needs: images `[height, width, channels]`, or `[height, width]` for one channel, from 12×12 on.

    Raises:
      ValueError: for samples that are no images, or too small.
    References:
      LeCun et al. 1998, Gradient-based learning applied to document recognition, Proceedings of the IEEE 86(11).
    """

    def build(shape: tuple[int, ...], outputs: int) -> Model:
        height, width, depth = image_shape("lenet", shape, SIDE)
        pixels = math.prod((side // 2 - 4) // 2 for side in (height, width))
        kernels = {"conv0": (5, 5, depth, 6), "conv1": (5, 5, 6, 16)}
        layers = {"hidden0": (16 * pixels, 120), "hidden1": (120, 84)}

        def init(key):
            inner = {
                name: (shape, he(math.prod(shape[:-1])))
                for name, shape in (kernels | layers).items()
            }
            sizes = {**inner, "last": ((84, outputs), glorot(84, outputs))}
            starts = enumerate(sizes.items())
            params = {
                name: weights(jax.random.fold_in(key, i), *size) for i, (name, size) in starts
            }
            return {"params": params, "stats": {}}

        def body(params, x, convolve):
            h = batch_last(x, height, width, depth)
            for name, padding in (("conv0", "SAME"), ("conv1", "VALID")):
                places = convolve(h, params[name]["W"], padding=padding)
                h = jax.nn.relu(pool(places) + of_channels(params[name]["b"]))
            h = flat(h)
            for name in layers:
                h = jax.nn.relu(affine(params[name], h))
            return h

        return network(init, body)

    return build
