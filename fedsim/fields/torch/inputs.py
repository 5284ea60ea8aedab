"""Which samples a module of torch takes, found by trying, and data of that form."""

# torch may be missing where types are checked
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedsim.fields.torch.model import module_batch

# Channels of images -> their sides that are tried first; the first that fits is taken.
SIDES = {1: (8, 28, 32), 3: (32, 64, 96, 224)}
OTHER_SIDES = range(4, 129)
LENGTHS = (20, 80)  # of sequences
ROWS = 2
# Shape of a sample and outputs -> the set that comes with fedsim.
BUNDLED = {
    ((8, 8, 1), 10): "digits",
    ((4,), 3): "iris",
    ((10,), 1): "diabetes",
    ((13,), 3): "wine",
    ((30,), 2): "breast_cancer",
}
STAND_IN_SAMPLES = 1000
CLIENTS = 10
SKEWED = {"kind": "dirichlet", "alpha": 0.3, "min_samples": 2}


class Inputs(NamedTuple):
    """Samples that a module takes, and what it makes of them.

    Attributes:
      shape: of one, as fedsim has it.
      vocabulary: how many tokens there are; 0: they are numbers.
      outputs: how many numbers the module returns for a sample, or for each of its tokens.
      per_token: whether it returns some for each token.
    """

    shape: tuple[int, ...]
    vocabulary: int
    outputs: int
    per_token: bool

    @property
    def words(self) -> str:
        """Samples and outputs in words."""
        sample = f"tokens {list(self.shape)} below {self.vocabulary}"
        if not self.vocabulary:
            sample = f"{'images' if len(self.shape) == 3 else 'numbers'} {list(self.shape)}"
        return f"{sample}, {self.outputs} outputs{' per token' if self.per_token else ''}"

    @property
    def data(self) -> dict[str, Any] | None:
        """A section `data` with samples of this form; None: fedsim has none."""
        bundled = BUNDLED.get((self.shape, self.outputs))
        if bundled is not None and not self.vocabulary:
            partition = SKEWED if self.outputs > 1 else "iid"
            return {"kind": bundled, "clients": CLIENTS, "partition": partition, "test": 0.2}
        if self.per_token and self.outputs == self.vocabulary:
            sizes = {"vocabulary": self.vocabulary, "length": self.shape[0]}
            return {"kind": "shakespeare_shaped", **sizes, "clients": CLIENTS, "test": 0.2}
        if self.vocabulary or self.per_token or self.outputs == 1:
            return None
        sizes = {"shape": list(self.shape), "classes": self.outputs, "samples": STAND_IN_SAMPLES}
        shared = {"clients": CLIENTS, "partition": SKEWED, "test": 0.2}
        return {"kind": "gaussian_blobs", **sizes, **shared}


def inputs_of(module: Any) -> Inputs | None:
    """Return the first form of samples that a module takes; None: none of those that are tried."""
    for shape, vocabulary in _candidates(module):
        returned = _returned(module, shape, vocabulary)
        if returned is None:
            continue
        per_token = len(returned) == 2 and bool(vocabulary) and returned[0] == shape[0]
        if len(returned) == 1 or per_token:
            return Inputs(shape, vocabulary, returned[-1], per_token)
    return None


def ends_of(module: Any) -> str:
    """Return the first and the last layer with weights, as torch shows them."""
    layers = [part for part in module.modules() if dict(part.named_parameters(recurse=False))]
    return f"from {layers[0]} to {layers[-1]}" if layers else "without weights"


def _candidates(module: Any) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield shapes of samples and sizes of vocabularies, by the module's first layer."""
    from torch import nn

    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            sides = (*SIDES.get(part.in_channels, SIDES[3]), *OTHER_SIDES)
            yield from (((side, side, part.in_channels), 0) for side in sides)
            return
        if isinstance(part, nn.Embedding):
            yield from (((length,), part.num_embeddings) for length in reversed(LENGTHS))
            return
        if isinstance(part, nn.RNNBase):
            yield from (((length, part.input_size), 0) for length in LENGTHS)
            return
        if isinstance(part, nn.Linear):
            sides = [side for side in SIDES[1] if side * side == part.in_features]
            yield from (((side, side, 1), 0) for side in sides)  # which the module may flatten
            yield (part.in_features,), 0
            return


def _returned(module: Any, shape: tuple[int, ...], vocabulary: int) -> tuple[int, ...] | None:
    """The shape of what a module returns for a sample; None where it does not take it."""
    import torch

    from fedsim.fields.torch.export import Outputs, quiet, torch_type

    dtype = jnp.int32 if vocabulary else jnp.float32
    batch = module_batch(module, jax.ShapeDtypeStruct((ROWS, *shape), dtype))
    module.eval()
    with torch.no_grad(), quiet():
        try:
            outputs = Outputs(module)(torch.zeros(batch.shape, dtype=torch_type(dtype)))
        except Exception:  # whatever a user's module does with another shape
            return None
    is_batch = isinstance(outputs, torch.Tensor) and outputs.ndim > 1 and len(outputs) == ROWS
    return tuple(outputs.shape[1:]) if is_batch else None
