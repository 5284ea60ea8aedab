"""BitFit: of a model, only the biases are trained."""

from fedsim.compose import adapter
from fedsim.types import Adapter

BIASES = ("b", "bias", "shift")  # as models here, and those of Flax and Equinox, name them


@adapter
def bitfit() -> Adapter:
    """Of the model, only the biases are trained (BitFit): leaves named `b`, `bias` or `shift`.

    The adapted model is the model itself. Of leaves with other names, `train` does the same.

    Sends: n numbers for a layer `[m, n]`, 4 bytes each.

    Raises:
      ValueError: at build time, for a model without such leaves.

    References:
      Ben Zaken, Ravfogel, Goldberg 2022, BitFit: Simple Parameter-efficient Fine-tuning for
      Transformer-based Masked Language-models, arXiv:2106.10199.
    """
    return Adapter(leaves=BIASES)
