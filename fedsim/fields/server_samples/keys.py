"""`data.server`."""

from fedsim.scenario.added import AddedKeys
from fedsim.scenario.schema import Section
from fedsim.scenario.values import Index


class ServerSamples(Section):
    """`data.server`."""

    samples: Index = 0
    """Training samples that the server holds and no client gets, stratified by label."""


class ServerKeys:
    """The key of `data`."""

    server: ServerSamples = ServerSamples()
    """Samples that the server holds and no client gets, drawn by `data.seed`: for the rules that
    read them, `trust` and `zeno`, and for the methods that are compared with these."""


KEYS = [AddedKeys("data", after="client_test", keys=ServerKeys)]
