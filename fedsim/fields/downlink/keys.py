"""The section `broadcast`."""

from typing import Annotated, Any

from annotated_types import MaxLen

from fedsim.scenario.added import AddedKeys
from fedsim.scenario.expected import InWords
from fedsim.scenario.schema import AllowedKinds

BROADCAST = "a list of at most one codec (fedsim list codecs)"
BroadcastList = Annotated[
    list[Annotated[Any, AllowedKinds("codec")]], MaxLen(1), InWords(BROADCAST)
]


class BroadcastKey:
    """The key at the top of a scenario."""

    broadcast: BroadcastList = []
    """The codec that encodes the model that the server sends out; by default none."""


KEYS = [AddedKeys("", after="client", keys=BroadcastKey)]
WITHOUT_MESSAGES = {"broadcast": []}
