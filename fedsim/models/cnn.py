"""The convolutional networks of McMahan et al. and of papers that adopted them."""

from typing import Annotated, Literal

import jax
from annotated_types import Ge, MinLen

from fedsim.compose import model
from fedsim.models.convolution import network, pool
from fedsim.models.dense import Build, Width, affine, glorot, he, hidden_axes, weights
from fedsim.models.images import batch_last, flat, image_shape, of_channels
from fedsim.types import Model


@model
def cnn(
    channels: Annotated[list[Width], MinLen(1)] = [32, 64],  # noqa: B006 (never changed)
    kernel: Annotated[int, Ge(1)] = 5,
    hidden: Width | Annotated[list[Width], MinLen(1)] = 512,
    padding: Literal["same", "valid"] = "same",
) -> Build:
    """Convolutional network: convolutions, each with 2×2 max-pooling and ReLU, then hidden layers.

    There is a convolution for each entry of `channels`, and a layer of classes at the end. With
    `padding: same`, convolutions preserve height and width (zeros outside); with `valid`, they stay
    inside the image. Pooling halves both and drops an odd last row or column. Weights start as in
    `mlp`. `features` are the values of the last hidden layer `[B, F]`, `head` is the last layer.

    Networks of the field's papers, and their parameters:

      McMahan et al., MNIST: the defaults; 1,663,370 for 28×28×1 and ten classes.
      LEAF, FEMNIST: `hidden: 2048`; 6,603,710 for 28×28×1 and 62 classes.
      McMahan et al., CIFAR-10: `channels: [64, 64], hidden: [384, 192]`; 1,068,298 for crops of
        24×24×3. Theirs is that of the TensorFlow tutorial, which also normalises local responses
        and pools 3×3 squares (in steps of 2).
      FedDyn, CIFAR-10: the same with `padding: valid`; 797,962 for 32×32×3.

    McMahan's 2NN is `mlp` with `hidden: [200, 200]`, 199,210.

    Needs: images `[height, width, channels]`, or `[height, width]` for one channel.

    Args:
      channels: output channels of the convolutions.
      kernel: side of their square kernels.
      hidden: width of the hidden layer, or widths of several.
      padding: what a convolution sees outside the image.
    Raises:
      ValueError: for samples that are not images, or too small for the kernel or the poolings.
    References:
      McMahan et al. 2017, Communication-Efficient Learning of Deep Networks from Decentralized
      Data, arXiv:1602.05629; Caldas et al. 2018, LEAF, arXiv:1812.01097; Acar et al. 2021,
      Federated Learning Based on Dynamic Regularization, arXiv:2111.04263.
    """
    if isinstance(hidden, int):
        widths = [hidden]
        layers = ["hidden"]
    else:
        widths = hidden
        layers = [f"hidden{i}" for i in range(len(hidden))]
    convolutions = [f"conv{i}" for i in range(len(channels))]

    def build(shape: tuple[int, ...], outputs: int) -> Model:
        height, width, depth = image_shape("cnn", shape)
        pixels = _pixels_left(height, width, len(channels), kernel, padding)

        def init(key):
            count = len(convolutions) + len(layers) + 1
            keys = [jax.random.fold_in(key, i) for i in range(count)]
            conv_keys = keys[: len(convolutions)]
            layer_keys = keys[len(convolutions) : -1]

            params = {}
            fan_in = depth
            for name, k, out in zip(convolutions, conv_keys, channels, strict=True):
                bound = he(kernel * kernel * fan_in)
                params[name] = weights(k, (kernel, kernel, fan_in, out), bound)
                fan_in = out
            fan_in *= pixels
            for name, k, out in zip(layers, layer_keys, widths, strict=True):
                params[name] = weights(k, (fan_in, out), he(fan_in))
                fan_in = out
            params["last"] = weights(keys[-1], (fan_in, outputs), glorot(fan_in, outputs))
            return {"params": params, "stats": {}}

        def body(params, x, convolve):
            h = batch_last(x, height, width, depth)  # [C, H, W, B]
            for name in convolutions:
                h = convolve(h, params[name]["W"], padding=padding.upper())
                # Bias and ReLU after pooling give the same values, from a quarter of the pixels.
                h = jax.nn.relu(pool(h) + of_channels(params[name]["b"]))
            h = flat(h)  # [B, F]
            for name in layers:
                h = jax.nn.relu(affine(params[name], h))
            return h

        axes = hidden_axes([*convolutions, *layers, "last"], [*channels, *widths])
        return network(init, body)._replace(hidden=axes)

    return build


def _pixels_left(height: int, width: int, times: int, kernel: int, padding: str) -> int:
    """Return the pixels that are left of an image after convolutions and poolings.

    Raises:
      ValueError: if none are left, or kernels reach beyond the image from everywhere.
    """
    largest_kernel = 2 * max(height, width) - 1
    if padding == "same" and kernel > largest_kernel:
        raise ValueError(
            f"cnn: kernels of {kernel}×{kernel} reach beyond {height}×{width} images from "
            f"everywhere; `kernel` at most {largest_kernel}"
        )
    lost = kernel - 1 if padding == "valid" else 0  # by a convolution, along either side
    rows = height
    columns = width
    for _ in range(times):
        rows = (rows - lost) // 2
        columns = (columns - lost) // 2
        if min(rows, columns) < 1:
            raise ValueError(_too_small(height, width, times, kernel if lost else None))
    return rows * columns


def _too_small(height: int, width: int, times: int, kernel: int | None) -> str:
    """Return the error for images that cannot be halved so often; `kernel` if it loses pixels."""
    text = f"cnn: {height}×{width} images cannot be halved {times} times"
    if kernel is None:
        return f"{text}; give fewer `channels`"
    inside = f"inside {kernel}×{kernel} convolutions"
    return f"{text} {inside}; give fewer `channels`, or padding: same"
