"""Residual networks."""

import math
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge

from fedsim.compose import model
from fedsim.models.convolution import convolution, convolution_of
from fedsim.models.dense import Build, affine, glorot, he, weights
from fedsim.models.images import batch_last, image_shape, of_channels
from fedsim.models.normalisation import Norm, batch_norm, group_norm, running, scale_and_shift
from fedsim.types import Model

Depth = Literal[8, 14, 18, 20, 32, 34, 44, 56, 110]
STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}  # blocks of each, of the networks made for ImageNet


class Block(NamedTuple):
    """Two 3×3 convolutions and the values that they are added to.

    Attributes:
      name: of its layers, before `_first`, `_second` and `_shortcut`.
      fan_in: channels before it.
      fan_out: channels behind it.
      stride: of its first convolution.
      projects: whether a 1×1 convolution brings the values to its shape.
    """

    name: str
    fan_in: int
    fan_out: int
    stride: int
    projects: bool


@model
def resnet(depth: Depth = 20, norm: Norm = "group", groups: Annotated[int, Ge(1)] = 2) -> Build:
    """Residual network: y = ReLU(x + F(x)), F of two 3×3 convolutions, each normalised; then the mean over places.

    Depths 6n+2 are the networks for CIFAR (section 4.2 of the paper): stages of n blocks with 16, 32 and 64 channels, each
    but the first halving height and width; where shapes differ, x is subsampled and padded with zero channels (option A).
    Depths 18 and 34 have stages of 64, 128, 256 and 512 channels and a 1×1 convolution there (11,173,962 parameters for ten
    classes of 32×32×3 at depth 18), behind a first 3×3 convolution as used for CIFAR. Strides and zeros around images are
    those of torchvision's blocks: every 3×3 kernel has one zero on every side, and its places are centred on the pixels that
    the shortcut takes, so weights of torch transfer. Start as in `mlp`.
    `features` are the means over places `[B, channels]`, `head` is the last layer.

    With `norm: group` every sample is normalised alone, by groups of channels: what Hsieh et al. found to survive label
    skew, with the 2 groups of Reddi et al. `norm: batch` normalises by the batch; its running statistics are `stats`, which
    the server averages. With `norm: none` blocks start as the identity.

    Needs: images `[height, width, channels]`, or `[height, width]` for one channel.

    Args:
      depth: layers with weights on the way from the image to the classes.
      norm: how channels are normalised.
      groups: of channels, for `norm: group`; must divide the channels of the first stage.
    Raises:
      ValueError: for samples that are no images, or groups that do not divide the channels.
    References:
      He et al. 2016, Deep Residual Learning for Image Recognition, arXiv:1512.03385; Hsieh et al. 2020, The Non-IID Data
      Quagmire of Decentralized Machine Learning, arXiv:1910.00189; Reddi et al. 2021, arXiv:2003.00295.
    """
    blocks = _blocks(depth)
    if norm == "group" and blocks[0].fan_in % groups:
        raise ValueError(
            f"groups: {groups} do not divide the {blocks[0].fan_in} channels of the first stage"
        )

    def build(shape: tuple[int, ...], outputs: int) -> Model:
        height, width, depth = image_shape("resnet", shape)
        kernels = {"stem": (3, 3, depth, blocks[0].fan_in)}
        for b in blocks:
            kernels |= {
                f"{b.name}_first": (3, 3, b.fan_in, b.fan_out),
                f"{b.name}_second": (3, 3, b.fan_out, b.fan_out),
            }
            if b.projects:
                kernels[f"{b.name}_shortcut"] = (1, 1, b.fan_in, b.fan_out)

        def init(key):
            params = {}
            for i, (name, kernel) in enumerate(kernels.items()):
                layer = weights(jax.random.fold_in(key, i), kernel, he(math.prod(kernel[:-1])))
                if norm == "none":
                    params[name] = (
                        {**layer, "W": 0 * layer["W"]} if name.endswith("_second") else layer
                    )
                else:
                    params[name] = {"W": layer["W"], **scale_and_shift(kernel[-1])}
            size = (blocks[-1].fan_out, outputs)
            params["last"] = weights(jax.random.fold_in(key, len(kernels)), size, glorot(*size))
            statistics = {name: running(kernel[-1]) for name, kernel in kernels.items()}
            return {"params": params, "stats": statistics if norm == "batch" else {}}

        def body(variables, x, mask, train: bool, convolve):
            params, stats = variables["params"], dict(variables["stats"])

            def layer(name, h, stride=1):
                kernel = params[name]["W"]
                h = convolve(h, kernel, stride, padding=len(kernel) // 2)
                if norm == "none":
                    return h + of_channels(params[name]["b"])
                if norm == "group":
                    return group_norm(params[name], h, groups)
                h, stats[name] = batch_norm(params[name], stats[name], h, mask, train)
                return h

            h = jax.nn.relu(layer("stem", batch_last(x, height, width, depth)))
            for b in blocks:
                inner = jax.nn.relu(layer(f"{b.name}_first", h, b.stride))
                short = (
                    layer(f"{b.name}_shortcut", h, b.stride) if b.projects else _subsampled(h, b)
                )
                h = jax.nn.relu(layer(f"{b.name}_second", inner) + short)
            return jnp.mean(h, (1, 2)).T, stats

        def features(variables, x):
            return body(variables, x, None, False, convolution)[0]

        def head(variables, h):
            return affine(variables["params"]["last"], h)

        def apply(variables, x, *, mask=None, key=None, train=False):
            h, stats = body(variables, x, mask, train, convolution_of(train))
            return head(variables, h), stats

        return Model(init=init, apply=apply, features=features, head=head)

    return build


def _blocks(depth: int) -> list[Block]:
    """The blocks from the image to the classes: the first of each stage but one halves height and width."""
    stages = STAGES.get(depth, ((depth - 2) // 6,) * 3)
    channels = 64 if depth in STAGES else 16
    blocks, fan_in = [], channels
    for stage, count in enumerate(stages):
        for i in range(count):
            halves = i == 0 and stage > 0
            name = f"block{len(blocks)}"
            blocks.append(
                Block(
                    name, fan_in, channels << stage, 2 if halves else 1, halves and depth in STAGES
                )
            )
            fan_in = channels << stage
    return blocks


def _subsampled(h, block: Block):
    """Every `stride`-th pixel, on which the branch is centred, with zero channels behind: He's option A, no parameters."""
    return jnp.pad(
        h[:, :: block.stride, :: block.stride], ((0, block.fan_out - block.fan_in), *((0, 0),) * 3)
    )
