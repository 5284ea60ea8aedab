"""Tensors of torch as leaves of our networks, found by the names of their layers."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from fedsim import tree
from fedsim.errors import DataError
from fedsim.models.starting import Values

# What torch calls a tensor of a layer -> what our layers call it, the first one that a layer has.
LEAVES = {
    "kernel": ("W",),  # a weight with several axes
    "weight": ("scale",),
    "bias": ("shift", "b"),
    "running_mean": ("mean",),
    "running_var": ("var",),
}
COUNTER = "num_batches_tracked"
FLATTENED = "dense layers that read flattened images have their inputs in another order in torch"
REMEDY = "use a network with the mean over pixels, as resnet, or kind: torch"
EMBEDDING = "embedding"  # our layer whose rows are tokens, as torch has them


def of_torch(
    tensors: Values, layers: Mapping[str, str], variables: Any, sample: tuple[int, ...]
) -> Values:
    """Return the tensors of a `state_dict` as values of a model's leaves.

    Kernels `[out, in, ...]` become `[..., in, out]`. Convolution and normalisation may be one layer
    of ours.

    Args:
      tensors: as `values_by_leaf` makes them.
      layers: name of a layer in the file, in which `*` matches any letters -> that of the model.
      variables: the model's start variables, or their shapes.
      sample: shape of what the model reads.

    Raises:
      DataError: for layers without a name, tensors that no leaf takes, two for one leaf, and dense
        layers that read flattened images.
    """
    known = {*tree.leaf_names(variables["params"]), *tree.leaf_names(variables["stats"])}
    found: dict[tuple[str, str], np.ndarray] = {}
    sources: dict[str, str] = {}
    for (section, name), tensor in tensors.items():
        layer, _, kind = name.rpartition(".")
        if kind == COUNTER:
            continue
        ours = _layer(layer, layers)
        leaf = _leaf(ours, kind, tensor, known)
        if leaf is None:
            raise DataError(f"names: the layer {ours!r} of the model has no leaf for {name!r}")
        if leaf in sources:
            raise DataError(f"names: {sources[leaf]!r} and {name!r} are both {leaf!r}")
        sources[leaf] = name
        is_kernel = tensor.ndim > 1 and ours != EMBEDDING
        found[section, leaf] = np.moveaxis(tensor, (1, 0), (-2, -1)) if is_kernel else tensor
    _refuse_flattened_images(list(found.values()), sample)
    return found


def _refuse_flattened_images(tensors: Sequence[np.ndarray], sample: tuple[int, ...]) -> None:
    """Refuse dense layers that read a flattened image.

    They do where no dense layer reads the channels of a convolution, and, of images in colour,
    where there is no convolution.

    Raises:
      DataError: saying what to use.
    """
    channels = {tensor.shape[-1] for tensor in tensors if tensor.ndim > 2}
    inputs = {tensor.shape[0] for tensor in tensors if tensor.ndim == 2}
    reads_colours = not channels and len(sample) == 3 and sample[-1] > 1
    is_behind = bool(channels) and channels.isdisjoint(inputs)
    if inputs and (reads_colours or is_behind):
        raise DataError(f"names: {FLATTENED}; {REMEDY}")


def _layer(layer: str, layers: Mapping[str, str]) -> str:
    """What the model calls a layer of the file.

    Raises:
      DataError: for one without a name.
    """
    for pattern, ours in layers.items():
        if fnmatchcase(layer, pattern):
            return ours
    raise DataError(f"names: say which layer of the model {layer!r} is")


def _leaf(layer: str, kind: str, tensor: np.ndarray, known: set[str]) -> str | None:
    """The leaf of a layer that a tensor of this kind is; None: there is none."""
    is_kernel = kind == "weight" and tensor.ndim > 1
    names = LEAVES.get("kernel" if is_kernel else kind, ())
    leaves = [f"{layer}.{name}".lstrip(".") for name in names]
    return next((leaf for leaf in leaves if leaf in known), None)
