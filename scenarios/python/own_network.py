"""Your own network as a kind of `model`, in Equinox, in Flax linen and in Flax nnx.

    python scenarios/python/own_network.py
    fedsim run scenarios/iid.yaml --plugin scenarios/python/own_network.py --set model=equinox_net
    fedsim run scenarios/iid.yaml --plugin scenarios/python/own_network.py --set model=linen_net
    fedsim run scenarios/iid.yaml --plugin scenarios/python/own_network.py --set model=nnx_net

A kind returns `build(shape, outputs)`: the shape of a sample, the number of classes or targets.
"""

import math

import jax.numpy as jnp

import fedsim


@fedsim.model
def equinox_net(width: int = 32):
    """A hidden layer in Equinox, written for one sample; each seed draws its own parameters."""
    from equinox import nn

    def build(shape, outputs):
        layers = lambda key: nn.MLP(math.prod(shape), outputs, width, 1, jnp.tanh, key=key)
        return lambda key: nn.Sequential([nn.Lambda(jnp.ravel), layers(key)])

    return build


@fedsim.model
def linen_net(width: int = 32):
    """A hidden layer in Flax linen, written for a batch."""
    from flax import linen

    def build(shape, outputs):
        flat = lambda x: x.reshape(len(x), -1)
        return linen.Sequential([flat, linen.Dense(width), jnp.tanh, linen.Dense(outputs)])

    return build


@fedsim.model
def nnx_net(width: int = 32):
    """A hidden layer in Flax nnx, written for a batch; each seed draws its own parameters."""
    from flax import nnx

    def build(shape, outputs):
        def make(key):
            rngs = nnx.Rngs(key)
            flat = lambda x: x.reshape(len(x), -1)
            first = nnx.Linear(math.prod(shape), width, rngs=rngs)
            return nnx.Sequential(flat, first, jnp.tanh, nnx.Linear(width, outputs, rngs=rngs))

        return make

    return build


if __name__ == "__main__":
    for kind in ("equinox_net", "linen_net", "nnx_net"):
        result = fedsim.run("scenarios/iid.yaml", edits=[f"model={kind}", "rounds=20"])
        print(f"{kind:12} {result.summary['final'].item():.3f}")
