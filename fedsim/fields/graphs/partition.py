"""A graph of clients beside their samples, in `fedsim data partition`."""

from collections.abc import Iterator

from fedsim.cli import console
from fedsim.errors import TopologyError
from fedsim.fields.graphs.keys import is_graph
from fedsim.fields.graphs.network import Network
from fedsim.fields.graphs.section import graph_in_numbers, network_of
from fedsim.scenario.scenario import Scenario


def lines(scenario: Scenario, seed: int, nodes: int) -> Iterator[str]:
    """Yield the graph of clients without a server in numbers."""
    if not is_graph(scenario.spec.topology):
        return
    network = Network(network_of(scenario), nodes, seed, rounds=1)
    try:
        yield f"graph    {console.graph(graph_in_numbers(network))}"
    except TopologyError as error:
        raise scenario.error(("topology", error.where), str(error)) from None
