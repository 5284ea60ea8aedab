"""The residual networks for CIFAR in plain NumPy, from the definitions in torch (BasicBlock).

Images are `[B, C, H, W]` and kernels `[out, C, k, k]`, as in torch.
"""

import numpy as np

EPSILON = 1e-5


def taps(height, width, k, stride, padding):
    """Yield the pixels that the kernel reads: (row, column) of output, kernel and image."""
    for i in range((height + 2 * padding - k) // stride + 1):
        for j in range((width + 2 * padding - k) // stride + 1):
            for u in range(k):
                for v in range(k):
                    row = stride * i + u - padding
                    column = stride * j + v - padding
                    if 0 <= row < height and 0 <= column < width:
                        yield (i, j), (u, v), (row, column)


def conv2d(x, kernel, stride, padding):
    """torch.nn.functional.conv2d without a bias."""
    batch, _, height, width = x.shape
    k = kernel.shape[2]
    rows = (height + 2 * padding - k) // stride + 1
    columns = (width + 2 * padding - k) // stride + 1
    y = np.zeros((batch, len(kernel), rows, columns))
    for (i, j), (u, v), (row, column) in taps(height, width, k, stride, padding):
        y[:, :, i, j] += x[:, :, row, column] @ kernel[:, :, u, v].T
    return y


def of_channels(p):
    return p[:, None, None]


def group_norm(layer, h, groups):
    """GroupNorm."""
    batch, channels, height, width = h.shape
    parts = h.reshape(batch, groups, channels // groups, height, width)
    away = parts - parts.mean((2, 3, 4), keepdims=True)
    parts = away / np.sqrt(np.square(away).mean((2, 3, 4), keepdims=True) + EPSILON)
    return parts.reshape(h.shape) * of_channels(layer["scale"]) + of_channels(layer["shift"])


def plain_resnet(params, x, depth, groups=2):
    """Classes of images `[B, H, W, C]` in training, by the parameters of `fedsim.models.resnet`."""

    def layer(name, h, stride, padding):
        kernel = np.asarray(params[name]["W"]).transpose(3, 2, 0, 1)
        return group_norm(params[name], conv2d(h, kernel, stride, padding), groups)

    def basic_block(name, h, stride):
        inner = np.maximum(layer(f"{name}_first", h, stride, padding=1), 0)
        inner = layer(f"{name}_second", inner, 1, padding=1)
        shortcut = np.zeros(inner.shape)  # option A
        shortcut[:, : h.shape[1]] = h[:, :, ::stride, ::stride]
        return np.maximum(inner + shortcut, 0)

    h = np.maximum(layer("stem", x.transpose(0, 3, 1, 2), 1, padding=1), 0)
    in_a_stage = (depth - 2) // 6
    for block in range(3 * in_a_stage):
        begins_a_stage = block > 0 and block % in_a_stage == 0
        h = basic_block(f"block{block}", h, 2 if begins_a_stage else 1)
    return h.mean((2, 3)) @ params["last"]["W"] + params["last"]["b"]
