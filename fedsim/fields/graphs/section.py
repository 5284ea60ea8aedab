"""The section `topology`: its graphs for a run, and `fedsim.mixing`."""

from typing import Annotated, Any

import jax
import numpy as np

from fedsim import tree
from fedsim.assemble.data_files import path_of, resolved_file
from fedsim.assemble.links import factory_of
from fedsim.assemble.stack_inputs import argument_error, checked, require_whole
from fedsim.compose import max_bytes
from fedsim.errors import DataError, LinkError, TopologyError
from fedsim.fields.graphs.keys import TOPOLOGIES, TOPOLOGY
from fedsim.fields.graphs.network import Network, NetworkSettings
from fedsim.fields.graphs.topology import MixingMatrix, Topology, gap_of, matrix_of
from fedsim.scenario.scenario import Scenario
from fedsim.types import Client

ANNOTATION = Annotated[Any, TOPOLOGIES]


def network_settings(section: Any, **file: str) -> NetworkSettings:
    """Return what the section `topology` says of every round.

    Args:
      **file: `path`, where the section names a file.
    """
    topology = factory_of(section)(**file)
    if not isinstance(topology, Topology):
        text = f"{section.kind} has servers, and no graph of clients"
        raise TopologyError("kind", f"{text}; use another kind, such as ring")
    is_directed = section.directed or topology.one_way
    if is_directed and section.weights not in (None, "uniform"):
        text = f"{section.weights} is for undirected edges; directed ones hand out equal parts"
        raise TopologyError("weights", f"{text}; remove weights, or directed")
    return NetworkSettings(
        topology=topology,
        weights=None if is_directed else section.weights or "metropolis",
        every=section.every,
        redraw=section.redraw,
        fail=section.fail,
        by_rule=section.mix_rule is not None,
    )


def resolved_topology(scenario: Scenario) -> Any:
    """Return the section `topology` with the path and the hash of its file written out."""
    section = scenario.spec.topology
    if section is None:
        return None
    return section.model_copy(update=resolved_file(scenario, TOPOLOGY))


def network_of(scenario: Scenario) -> NetworkSettings:
    """Return `network_settings` of a scenario with a topology."""
    try:
        return network_settings(scenario.spec.topology, **path_of(scenario, TOPOLOGY))
    except DataError as error:
        error.section = TOPOLOGY
        raise
    except TopologyError as error:
        raise scenario.error(("topology", error.where), str(error)) from None


def graph_in_numbers(network: Network) -> dict[str, Any]:
    """Return edges, degrees and gap of a run's first graph."""
    matrix = network.first
    heard = network.heard
    return {
        "edges": len(matrix.target),
        "degree_min": int(heard.min()),
        "degree_max": int(heard.max()),
        "gap": gap_of(matrix),
    }


def node_message_bytes(scenario: Scenario, client: Client, shapes: Any) -> int:
    """Return the most bytes of what a node sends to each neighbour."""
    codec = getattr(scenario.spec.client, "codec", None)
    if codec is not None:
        return max_bytes(factory_of(codec)(), shapes["params"])
    key = jax.eval_shape(jax.random.key, 0)
    row = jax.eval_shape(client.memory, shapes, key)
    assert client.gossip is not None
    values, _ = jax.eval_shape(client.gossip.send, row, row, key)
    return tree.payload_bytes(values)


def mixing(topology: Any, nodes: int, seed: int = 0) -> np.ndarray:
    """Return the mixing matrix W of a topology, by which nodes do x_i ← Σ_j W_ij x_j.

    It is that of the first graph, whose edges all work.

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
    require_whole("mixing", "nodes", nodes, least=2)
    require_whole("mixing", "seed", seed, least=0)
    return matrix_of(first_graph(topology, nodes, seed))


def first_graph(topology: Any, nodes: int, seed: int) -> MixingMatrix:
    """Return the mixing matrix of a topology's first graph; arguments as of `mixing`."""
    section = checked("mixing", "topology", topology, ANNOTATION)
    try:
        network = Network(network_settings(section), nodes, seed, rounds=1)
        network.require_usable()
        return network.first
    except TopologyError as error:
        raise argument_error("mixing", f"topology.{error.where}", str(error)) from None
    except DataError as error:
        raise argument_error("mixing", "topology.path", str(error)) from None
    except LinkError as error:
        raise argument_error("mixing", "topology", str(error)) from None
