"""The section `topology`: its graphs for a run, and `fedsim.mixing`."""

from typing import Annotated, Any

import numpy as np

from fedsim.assemble.accounting import require_whole
from fedsim.assemble.links import factory_of
from fedsim.assemble.stack_inputs import argument_error, checked
from fedsim.errors import LinkError, TopologyError
from fedsim.fleet.network import Network, NetworkSettings
from fedsim.scenario.sections import TOPOLOGIES
from fedsim.topology import matrix_of

TOPOLOGY = Annotated[Any, TOPOLOGIES]


def network_settings(section: Any) -> NetworkSettings:
    """Return what the section `topology` says of every round.

    Raises:
      TopologyError: for weights that one-way links do not have.
    """
    topology = factory_of(section)()
    is_directed = section.directed or topology.one_way
    if is_directed and section.weights not in (None, "uniform"):
        text = f"{section.weights} is for links that go both ways; one-way ones hand out equal parts"
        raise TopologyError("weights", f"{text}; remove weights, or directed")
    return NetworkSettings(
        topology=topology,
        weights=None if is_directed else section.weights or "metropolis",
        every=section.every,
        redraw=section.redraw,
        fail=section.fail,
    )


def mixing(topology: Any, nodes: int, seed: int = 0) -> np.ndarray:
    """Return the mixing matrix W of a topology: in round 1, nodes do x_i ← Σ_j W_ij x_j.

    Args:
      topology: the section `topology` of a scenario: a kind, `"torus(rows=4)"`, or a mapping.
      nodes: n, the number of nodes.
      seed: the run's seed, which random graphs depend on.

    Returns:
      W `[n, n]` in float64; rows and columns add up to one, of directed graphs the columns alone.

    Raises:
      ScenarioError: for a graph that does not fit the nodes or is not connected; names the key and
        the remedy.

    >>> mixing("star", nodes=4).round(2).tolist()[0]
    [0.25, 0.25, 0.25, 0.25]
    """
    section = checked("mixing", "topology", topology, TOPOLOGY)
    require_whole("mixing", "nodes", nodes, least=2)
    require_whole("mixing", "seed", seed, least=0)
    try:
        network = Network(network_settings(section), nodes, seed, rounds=1)
        network.require_usable()
        matrix = network.mixing(section.every)
    except TopologyError as error:
        raise argument_error("mixing", f"topology.{error.where}", str(error)) from None
    except LinkError as error:
        raise argument_error("mixing", "topology", str(error)) from None
    return matrix_of(matrix)
