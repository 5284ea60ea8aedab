"""The convolutional networks of McMahan et al. and of those who took them over."""

from typing import Annotated, Literal

import jax
from annotated_types import Ge, MinLen

from fedsim.compose import model
from fedsim.models.convolution import network, pool
from fedsim.models.dense import Build, Width, affine, glorot, he, weights
from fedsim.models.images import batch_last, flat, image_shape, of_channels
from fedsim.types import Model


@model
def cnn(
    channels: Annotated[list[Width], MinLen(1)] = [32, 64],  # noqa: B006 (read, never changed)
    kernel: Annotated[int, Ge(1)] = 5,
    hidden: Width | Annotated[list[Width], MinLen(1)] = 512,
    padding: Literal["same", "valid"] = "same",
) -> Build:
    """Convolutional network: per entry of `channels` a convolution, 2×2 max-pooling and ReLU; then hidden, then classes.

    With `padding: same` convolutions keep height and width (zeros outside), with `valid` they stay inside the image;
    pooling halves both and drops an odd last row or column. Start as in `mlp`. `features` are the values of the last
    hidden layer `[B, F]`, `head` is the last layer.

    Networks of the field's papers, and their parameters:

      McMahan et al., MNIST: the defaults; 1,663,370 for 28×28×1 and ten classes.
      LEAF, FEMNIST: `hidden: 2048`; 6,603,710 for 28×28×1 and 62 classes.
      McMahan et al., CIFAR-10: `channels: [64, 64], hidden: [384, 192]`; 1,068,298 for crops of 24×24×3. Theirs is
        that of the TensorFlow tutorial, which pools 3×3 squares (in steps of 2) and normalises local responses besides.
      FedDyn, CIFAR-10: the same with `padding: valid`; 797,962 for 32×32×3.

    McMahan's 2NN is `mlp` with `hidden: [200, 200]`, 199,210.

    Needs: images `[height, width, channels]`, or `[height, width]` for one channel.

    Args:
      channels: output channels of the convolutions.
      kernel: side of their square kernels.
      hidden: width of the hidden layer, or widths of several.
      padding: what a convolution sees outside the image.
    Raises:
      ValueError: for samples that are no images, or too small for the kernel or to be halved so often.
    References:
      McMahan et al. 2017, Communication-Efficient Learning of Deep Networks from Decentralized Data, arXiv:1602.05629;
      Caldas et al. 2018, LEAF, arXiv:1812.01097; Acar et al. 2021, Federated Learning Based on Dynamic Regularization,
      arXiv:2111.04263.
    """
    widths = [hidden] if isinstance(hidden, int) else hidden
    layers = ["hidden"] if isinstance(hidden, int) else [f"hidden{i}" for i in range(len(hidden))]

    def build(shape: tuple[int, ...], outputs: int) -> Model:
        height, width, depth = image_shape("cnn", shape)
        pixels = _pixels(height, width, len(channels), kernel, padding)
        names = [f"conv{i}" for i in range(len(channels))]

        def init(key):
            keys = [jax.random.fold_in(key, i) for i in range(len(names) + len(layers) + 1)]
            params, fan = {}, depth
            for name, k, out in zip(names, keys, channels, strict=False):
                params[name] = weights(k, (kernel, kernel, fan, out), he(kernel * kernel * fan))
                fan = out
            fan *= pixels
            for name, k, out in zip(layers, keys[len(names) :], widths, strict=False):
                params[name] = weights(k, (fan, out), he(fan))
                fan = out
            params["last"] = weights(keys[-1], (fan, outputs), glorot(fan, outputs))
            return {"params": params, "stats": {}}

        def body(params, x, convolve):
            h = batch_last(x, height, width, depth)
            for (
                name
            ) in names:  # ReLU and bias after pooling: the same values, at a quarter of the places
                places = convolve(h, params[name]["W"], padding=padding.upper())
                h = jax.nn.relu(pool(places) + of_channels(params[name]["b"]))
            h = flat(h)
            for name in layers:
                h = jax.nn.relu(affine(params[name], h))
            return h

        return network(init, body)

    return build


def _pixels(height: int, width: int, times: int, kernel: int, padding: str) -> int:
    """Places that are left of an image by so many convolutions and poolings.

    Raises:
      ValueError: where none is, or kernels reach beyond the image from everywhere.
    """
    if padding == "same" and kernel >= 2 * max(height, width):
        text = f"cnn: kernels of {kernel}×{kernel} reach beyond {height}×{width} images from everywhere"
        raise ValueError(f"{text}; `kernel` at most {2 * max(height, width) - 1}")
    lost, sides = (kernel - 1 if padding == "valid" else 0), [height, width]
    for _ in range(times):
        sides = [(side - lost) // 2 for side in sides]
        if min(sides) < 1:
            inside = f" inside {kernel}×{kernel} convolutions" if lost else ""
            text = f"cnn: {height}×{width} images cannot be halved {times} times{inside}"
            raise ValueError(f"{text}; give fewer `channels`{', or padding: same' if lost else ''}")
    return sides[0] * sides[1]
