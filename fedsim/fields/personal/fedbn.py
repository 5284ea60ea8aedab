"""FedBN: normalisation of the clients' own."""

import jax

from fedsim import tree
from fedsim.compose import client
from fedsim.fields.personal.fedper import keeping, shared_mask
from fedsim.tree import Tree
from fedsim.types import Client

NORMALISING = ("scale", "shift", "bias")  # leaves beside a `scale`, which it has itself


@client
def fedbn(personal: list[str] | None = None) -> Client:
    """A shared model but for its normalisation, whose leaves and running statistics stay.

    As `fedper`, with the scales and shifts of all normalisation layers in place of the head; the
    running statistics that a model with batch normalisation has stay with the client as well.

    State: the leaves of normalisation, and the statistics.
    Sends: the other leaves, receives them.

    Args:
      personal: leaves that stay with the client, as for `fedper`. Left out: every `scale`, and a
        `shift` or `bias` of the same layer.

    Raises:
      ValueError: at build time, for names that match no leaf or every leaf, and for a model without
        normalisation.

    References:
      Li et al. 2021, FedBN: Federated Learning on Non-IID Features via Local Batch Normalization,
      arXiv:2102.07623, Algorithm 1.
    """

    def shares(params):
        if personal is None:
            return _without_normalisation(params)
        return shared_mask(params, personal)

    return keeping("norm", shares, stats="kept")


def _without_normalisation(params: Tree) -> Tree:
    """Return a bool for every leaf: whether it does not belong to a normalisation layer."""
    names = tree.leaf_names(params)
    layers = {name.rpartition(".")[0] for name in names if name.rpartition(".")[2] == "scale"}
    if not layers:
        raise ValueError(
            "the model has no normalisation; write in personal which leaves stay, or take a model "
            "with it, such as resnet"
        )

    def travels(name: str) -> bool:
        layer, _, leaf = name.rpartition(".")
        return layer not in layers or leaf not in NORMALISING

    return jax.tree.unflatten(jax.tree.structure(params), [travels(name) for name in names])
