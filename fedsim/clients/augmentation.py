"""Augmentation: what happens to the images of a batch before a client trains on them, on the device.

A factory returns `change(key, x) -> x`, written for ONE image `[height, width]` or `[height, width, channels]` as it is
stored: bytes stay bytes. `augmenting` lifts it over a batch. Draws do not depend on the float type of a run.
"""

from collections.abc import Callable, Mapping
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge
from jax import lax
from jaxtyping import Array, Key

from fedsim.compose import augmentation, tag_of

Change = Callable[[Key[Array, ""], Array], Array]


@augmentation
def flip() -> Change:
    """An image is mirrored, left to right, with probability ½."""

    def change(key, x):
        return jnp.where(jax.random.bernoulli(key, np.float32(0.5)), x[:, ::-1], x)

    return change


@augmentation
def crop(padding: Annotated[int, Ge(0)] = 4) -> Change:
    """A frame of zeros is laid around an image, and a part of its first size is cut out at random.

    The part is one of (2·padding + 1)² places, each as likely.

    Args:
      padding: pixels of the frame on each side, at most as many as the image has.

    Raises:
      ValueError: for more.

    References:
      He et al. 2015, Deep Residual Learning for Image Recognition, arXiv:1512.03385 (4 pixels on CIFAR-10, with flips).
    """

    def change(key, x):
        if padding > min(x.shape[:2]):
            raise ValueError(
                f"padding of {padding} pixels around {x.shape[0]}×{x.shape[1]}; at most {min(x.shape[:2])}"
            )
        frame = [(padding, padding)] * 2 + [(0, 0)] * (x.ndim - 2)
        corner = jax.random.randint(key, (2,), 0, 2 * padding + 1, np.int32)
        start = (*corner, *[np.int32(0)] * (x.ndim - 2))
        return lax.dynamic_slice(
            jnp.pad(x, frame), start, x.shape
        )  # measured: as fast as selections, or faster

    return change


def augmenting(changes: Mapping[str, Change]) -> Change:
    """Changes of one image, by name, as a change of a batch `[B, ...]`: one after another, each with noise of its own.

    The noise of a sample depends on its place in the batch and not on how many there are.
    """

    def one(key, place, x):
        key = jax.random.fold_in(key, place)
        for name, change in changes.items():
            x = change(jax.random.fold_in(key, tag_of(name)), x)
        return x

    def augment(key, x):
        return jax.vmap(one, (None, 0, 0))(key, jnp.arange(len(x)), x)

    return augment
