"""Operators in JAX give torch's numbers and gradients, in a module that is exported."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional as F

import fedsim

pytestmark = pytest.mark.long

TOLERANCE = 1e-12

IMAGES = (3, 4, 8, 6)  # [B, C, H, W]
ROWS = (3, 5)
SEQUENCES = (3, 4, 6)


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def in_place(x):
    y = x.clone()
    y[:, 1] = 3 * x[:, 0]
    y[:, 2:4] += x[:, :2]
    y.mul_(2).sub_(1)
    return y


def grouped_attention(x):
    """The second position may see none."""
    mask = torch.tensor([[0.0, -torch.inf, 1.0, 2.0]] * 4)
    mask[1] = -torch.inf
    return F.scaled_dot_product_attention(x, x[:, :2], x[:, 1:3], mask, enable_gqa=True, scale=0.3)


torch.manual_seed(0)
# a layer, and the shape of what it is given
LAYERS = {
    "a linear layer of a short batch": (nn.Linear(5, 4), ROWS),
    "a linear layer of a long batch": (nn.Linear(5, 4), (20, 5)),
    "a linear layer of sequences": (nn.Linear(6, 4, bias=False), SEQUENCES),
    "strided, dilated, grouped convolution": (nn.Conv2d(4, 6, 3, 2, 2, 2, 2), IMAGES),
    "transposed, grouped convolution": (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2), IMAGES),
    "transposed, dilated convolution": (nn.ConvTranspose2d(4, 2, 3, dilation=2), IMAGES),
    "convolution of sequences": (nn.Conv1d(4, 2, 3, padding="same"), SEQUENCES),
    "padding by reflection": (nn.Conv2d(4, 2, 3, padding=1, padding_mode="reflect"), IMAGES),
    "overlapping max-pooling": (nn.MaxPool2d(3, 2, 1), IMAGES),
    "max-pooling, last window cut": (nn.MaxPool2d(3, 2, ceil_mode=True), IMAGES),
    "mean, last window cut": (nn.AvgPool2d(3, 2, 1, ceil_mode=True), IMAGES),
    "mean without padding": (nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGES),
    "mean over windows of several sizes": (nn.AdaptiveAvgPool2d((3, 4)), IMAGES),
    "nearest pixels": (nn.Upsample(scale_factor=2), IMAGES),
    "channels as pixels": (nn.PixelShuffle(2), IMAGES),
    "group norm": (nn.GroupNorm(2, 4), IMAGES),
    "instance norm": (nn.InstanceNorm2d(4, affine=True), IMAGES),
    "layer norm of several axes": (nn.LayerNorm((8, 6)), IMAGES),
    "RMS norm": (nn.RMSNorm(5), ROWS),
}
OF_ROWS = {
    "bilinear": lambda x: torch.einsum("bi,bj->bij", x, x),
    "clamped": lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0),
    "ReLU6, leaky ReLU, ELU": lambda x: F.relu6(x) + F.leaky_relu(x) + F.elu(x) + F.celu(x),
    "GELU": lambda x: F.gelu(x) * F.gelu(x, approximate="tanh"),
    "SiLU, Mish, softplus": lambda x: F.silu(x) + F.mish(x) + F.softplus(x),
    "hard tanh": lambda x: F.hardtanh(x, -0.7, 0.9),
    "log-softmax and logsumexp": lambda x: (
        F.log_softmax(x, 1) + torch.logsumexp(x, 1, keepdim=True)
    ),
    "variance and norm": lambda x: (
        x.std(1, keepdim=True) + x.norm(dim=1, keepdim=True) + x.var(1)[:, None]
    ),
    "greatest ones": lambda x: (
        x.topk(2).values * x.sort(descending=True)[0][:, :2] + x.max(1)[0][:, None]
    ),
    "powers": lambda x: x**2 + x.abs() ** 1.5 + 2**x + x.abs().rsqrt(),
    "running sums": lambda x: x.cumsum(1) / (1 + x.flip(1).abs()),
    "chunks": lambda x: torch.cat([c * i for i, c in enumerate(x.chunk(3, 1))], 1),
    "written in place": in_place,
    "indices": lambda x: (
        x[:, [2, 0]] + x.gather(1, torch.tensor([[0, 3]]).expand(len(x), 2)) + x[:, 1::2]
    ),
    "masked": lambda x: x.masked_fill(x > 0.3, 2.0).roll(1, 1) * torch.where(x > 0, x, 1.0),
    "joined with nothing": lambda x: torch.cat([torch.tensor([]), x, x], 1),
    "stacked, repeated, unfolded": lambda x: (
        torch.stack([x, 2 * x], 1).repeat(1, 1, 2).movedim(1, 2).mean(2)
    ),
    "rounded, without gradient": lambda x: (
        x * torch.div(x.round(), 0.3, rounding_mode="floor").detach() + x % 0.7
    ),
}
OF_SEQUENCES = {
    "triangles": lambda x: x.tril() + x.triu(1) * torch.arange(6.0),
    "scaled dot-product attention": lambda x: F.scaled_dot_product_attention(
        x, x, x, is_causal=True
    ),
    "attention with a mask, two heads for four": lambda x: grouped_attention(
        x[:, None].repeat(1, 4, 1, 1)
    ),
}
CASES = {
    **LAYERS,
    **{name: (Of(function), ROWS) for name, function in OF_ROWS.items()},
    **{name: (Of(function), SEQUENCES) for name, function in OF_SEQUENCES.items()},
}


def numbers(shape):
    return np.random.default_rng(0).normal(size=shape)


@pytest.mark.parametrize("layer, shape", CASES.values(), ids=CASES)
def test_values_and_gradients_are_those_of_torch(layer, shape):
    net = copy.deepcopy(layer).double()
    x = torch.tensor(numbers(shape), requires_grad=True)
    outputs = net(x)
    weights = numbers(outputs.shape)
    (outputs * torch.tensor(weights)).sum().backward()

    with jax.enable_x64(True):
        # A sample [C, H, W] is given with its channels last, as all images are.
        channels_last = jnp.asarray(numbers(shape))
        if len(shape) == 4:
            channels_last = jnp.moveaxis(channels_last, 1, -1)
        model = fedsim.as_model(net, shape=channels_last.shape[1:])
        variables = model.init(jax.random.key(0))

        def weighted(params, x):
            outputs, _ = model.apply({**variables, "params": params}, x, train=True)
            return (outputs * weights).sum(), outputs

        of = jax.jit(jax.grad(weighted, (0, 1), has_aux=True))
        (of_params, of_x), got = of(variables["params"], channels_last)
        of_x = jnp.moveaxis(of_x, -1, 1) if len(shape) == 4 else of_x

    np.testing.assert_allclose(got, outputs.detach(), rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(of_x, x.grad, rtol=TOLERANCE, atol=TOLERANCE)
    gradients = {name: p.grad for name, p in net.named_parameters()}
    names = sorted(gradients)
    assert fedsim.tree.leaf_names(of_params) == names
    for name, gradient in zip(names, jax.tree.leaves(of_params), strict=True):
        np.testing.assert_allclose(gradient, gradients[name], rtol=TOLERANCE, atol=TOLERANCE)
