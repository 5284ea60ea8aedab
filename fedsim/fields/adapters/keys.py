"""`model.adapter`."""

from typing import Annotated, Any

from fedsim.scenario.added import AddedKeys
from fedsim.scenario.schema import AllowedKinds, ByForm


class AdapterKey:
    """The key of `model`."""

    adapter: Annotated[Annotated[Any, AllowedKinds("adapter")] | None, ByForm()] = None
    """Small trained leaves next to the weights, which are then frozen, with all other leaves that
    `train` does not name. By default none."""


KEYS = [AddedKeys("model", after="train", keys=AdapterKey)]
