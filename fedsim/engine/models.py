"""A server may have several models: their number, their shapes, and which a client takes."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from fedsim.tree import Tree
from fedsim.types import Client, Shared

NONE = -1  # in place of a model's number: of a client that has none, or has not taken part


def models_of(client: Client) -> int:
    """Return the number of the server's models."""
    return 1 if client.bank is None else client.bank.models


def one_model(client: Client, shared: Shared) -> Shared:
    """Return the variables of the first model, or their shapes; all of them without a bank."""
    if client.bank is None:
        return shared
    return jax.tree.map(_first, shared)


def shapes_of_models(client: Client, shapes: Shared) -> Shared:
    """Return the shapes of the variables of all models from those of one."""
    if client.bank is None:
        return shapes
    k = client.bank.models
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((k, *leaf.shape), leaf.dtype), shapes)


def _first(leaf: Any) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)
    return leaf[0]


def choice_bytes(client: Client) -> int:
    """Return the bytes of the number of a model, ⌈log2 k⌉ bits; 0 where clients send none."""
    if client.bank is None or client.bank.choice is None:
        return 0
    bits = (client.bank.models - 1).bit_length()
    return -(-bits // 8)


@jax.jit
def choices_of_losses(losses: Tree) -> Int[Array, " block"]:
    """Return the model of least loss of every client `[block, k] -> [block]`; ties: the first."""
    return jnp.argmin(losses, axis=1).astype(jnp.int32)
