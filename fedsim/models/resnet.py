"""Residual networks."""

import functools
import math
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge

from fedsim.compose import model
from fedsim.models.computing import recomputed
from fedsim.models.convolution import convolution, convolution_of
from fedsim.models.dense import Build, affine, glorot, he, weights
from fedsim.models.images import batch_last, image_shape, of_channels
from fedsim.models.normalisation import Norm, batch_norm, group_norm, running, scale_and_shift
from fedsim.types import Model

Depth = Literal[8, 14, 18, 20, 32, 34, 44, 56, 110]
STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}  # blocks per stage of the networks for ImageNet


class Block(NamedTuple):
    """Two 3×3 convolutions and the values that they are added to.

    Attributes:
      name: start of its layers' names, before `_first`, `_second` and `_shortcut`.
      stride: stride of its first convolution.
      projects: whether a 1×1 convolution brings the values to its shape.
    """

    name: str
    fan_in: int
    fan_out: int
    stride: int
    projects: bool


@model
def resnet(depth: Depth = 20, norm: Norm = "group", groups: Annotated[int, Ge(1)] = 2) -> Build:
    """Residual network: y = ReLU(x + F(x)), with F of two normalised 3×3 convolutions.

    The mean over all pixels and a layer of classes follow. Depths 6n+2 are the networks for CIFAR
    (section 4.2 of the paper): stages of n blocks with 16, 32 and 64 channels, each but the first
    halving height and width; where shapes differ, x is subsampled and padded with zero channels
    (option A). Depths 18 and 34 have stages of 64, 128, 256 and 512 channels, with a 1×1
    convolution there (11,173,962 parameters for ten classes of 32×32×3 at depth 18), after a first
    3×3 convolution as used for CIFAR. Strides and zeros around images are those of torchvision's
    blocks: every 3×3 kernel has one zero on every side and is centred on the pixels that the
    shortcut takes, so that weights from torch can be used. Weights start as in `mlp`. `features`
    are the means over pixels `[B, channels]`, `head` is the last layer.

    With `norm: group`, every sample is normalised by itself, by groups of channels: what Hsieh et
    al. found to survive label skew, with the 2 groups of Reddi et al. `norm: batch` normalises by
    the batch; its running statistics are `stats`, which the server averages. With `norm: none`,
    blocks start as the identity.

    Needs: images `[height, width, channels]`, or `[height, width]` for one channel.

    Args:
      depth: layers with weights from the image to the classes.
      norm: how channels are normalised.
      groups: groups of channels, for `norm: group`; must divide the channels of the first stage.
    Raises:
      ValueError: for samples that are not images, or groups that do not divide the channels.
    References:
      He et al. 2016, Deep Residual Learning for Image Recognition, arXiv:1512.03385; Hsieh et al.
      2020, The Non-IID Data Quagmire of Decentralized Machine Learning, arXiv:1910.00189; Reddi et
      al. 2021, arXiv:2003.00295.
    """
    blocks = _blocks(depth)
    first_channels = blocks[0].fan_in
    if norm == "group" and first_channels % groups:
        raise ValueError(
            f"groups: {groups} do not divide the {first_channels} channels of the first stage"
        )

    def build(shape: tuple[int, ...], outputs: int, remat: bool = False) -> Model:
        height, width, image_channels = image_shape("resnet", shape)
        kernels = _kernels(blocks, image_channels)
        last_size = (blocks[-1].fan_out, outputs)

        def init(key):
            params = {}
            for i, (name, kernel) in enumerate(kernels.items()):
                params[name] = _layer_start(jax.random.fold_in(key, i), name, kernel, norm)
            last_key = jax.random.fold_in(key, len(kernels))
            params["last"] = weights(last_key, last_size, glorot(*last_size))

            stats = {name: running(kernel[-1]) for name, kernel in kernels.items()}
            return {"params": params, "stats": stats if norm == "batch" else {}}

        def body(variables, x, mask, train: bool, convolve):
            def layer(variables, stats, name, h, stride=1):
                """-> (values, statistics with those of this layer)."""
                p = variables["params"][name]
                h = convolve(h, p["W"], stride, padding=len(p["W"]) // 2)
                if norm == "none":
                    return h + of_channels(p["b"]), stats
                if norm == "group":
                    return group_norm(p, h, groups), stats
                h, moved = batch_norm(p, variables["stats"][name], h, mask, train)
                return h, {**stats, name: moved}

            def residual(block, variables, stats, h):
                inner, stats = layer(variables, stats, f"{block.name}_first", h, block.stride)
                inner = jax.nn.relu(inner)
                if block.projects:
                    name = f"{block.name}_shortcut"
                    shortcut, stats = layer(variables, stats, name, h, block.stride)
                else:
                    shortcut = _subsampled(h, block)
                outer, stats = layer(variables, stats, f"{block.name}_second", inner)
                return jax.nn.relu(outer + shortcut), stats

            images = batch_last(x, height, width, image_channels)
            h, stats = layer(variables, {}, "stem", images)
            h = jax.nn.relu(h)
            for block in blocks:
                through = recomputed(functools.partial(residual, block), remat)
                h, stats = through(variables, stats, h)
            return jnp.mean(h, (1, 2)).T, stats  # [C, H, W, B] -> [B, C]

        def features(variables, x):
            h, _ = body(variables, x, None, False, convolution)
            return h

        def head(variables, h):
            return affine(variables["params"]["last"], h)

        def apply(variables, x, *, mask=None, key=None, train=False):
            h, stats = body(variables, x, mask, train, convolution_of(train))
            return head(variables, h), stats

        return Model(init=init, apply=apply, features=features, head=head)

    return build


def _blocks(depth: int) -> list[Block]:
    """Return the blocks from the image to the classes."""
    is_for_imagenet = depth in STAGES
    channels = 64 if is_for_imagenet else 16
    stages = STAGES.get(depth, ((depth - 2) // 6,) * 3)

    blocks: list[Block] = []
    fan_in = channels
    for stage, count in enumerate(stages):
        fan_out = channels << stage  # doubled in each stage
        for i in range(count):
            halves = i == 0 and stage > 0
            block = Block(
                name=f"block{len(blocks)}",
                fan_in=fan_in,
                fan_out=fan_out,
                stride=2 if halves else 1,
                projects=halves and is_for_imagenet,
            )
            blocks.append(block)
            fan_in = fan_out
    return blocks


def _kernels(blocks: list[Block], image_channels: int) -> dict[str, tuple[int, ...]]:
    """Return the shape `(k, k, C, out)` of every kernel, by layer."""
    kernels: dict[str, tuple[int, ...]] = {"stem": (3, 3, image_channels, blocks[0].fan_in)}
    for block in blocks:
        kernels[f"{block.name}_first"] = (3, 3, block.fan_in, block.fan_out)
        kernels[f"{block.name}_second"] = (3, 3, block.fan_out, block.fan_out)
        if block.projects:
            kernels[f"{block.name}_shortcut"] = (1, 1, block.fan_in, block.fan_out)
    return kernels


def _layer_start(key, name: str, kernel: tuple[int, ...], norm: Norm) -> dict:
    """The start of a convolution and of its normalisation, or its biases if there is none."""
    layer = weights(key, kernel, he(math.prod(kernel[:-1])))
    if norm != "none":
        return {"W": layer["W"], **scale_and_shift(kernel[-1])}
    if name.endswith("_second"):  # the block starts as the identity
        return {**layer, "W": 0 * layer["W"]}
    return layer


def _subsampled(h, block: Block):
    """Every `stride`-th pixel, on which the branch is centred, with zero channels behind.

    He's option A, without parameters.
    """
    pixels = h[:, :: block.stride, :: block.stride]
    new_channels = (0, block.fan_out - block.fan_in)
    return jnp.pad(pixels, (new_channels, (0, 0), (0, 0), (0, 0)))
