"""`data.attack`."""

from typing import Annotated, Any

from fedsim.scenario.added import AddedKeys
from fedsim.scenario.schema import AllowedKinds


class PoisonKeys:
    """The key of `data`."""

    attack: list[Annotated[Any, AllowedKinds("data_attack")]] = []
    """What the attacker does to the training samples of the clients of `fleet.malicious`, in this
    order, after `skew`; all test samples, and the other sets, stay clean."""


KEYS = [AddedKeys("data", after="skew", keys=PoisonKeys)]
