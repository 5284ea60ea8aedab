"""The section `topology`: its graphs for a run, what may stand beside it, and `fedsim.mixing`."""

from collections.abc import Iterator
from typing import Annotated, Any

import jax
import numpy as np

from fedsim import tree
from fedsim.assemble.accounting import require_whole
from fedsim.assemble.data_files import path_of, resolved_file
from fedsim.assemble.links import factory_of
from fedsim.assemble.problems import Findings
from fedsim.assemble.stack_inputs import argument_error, checked
from fedsim.clients.nodes import AFTER
from fedsim.compose import max_bytes
from fedsim.errors import DataError, LinkError, OrderError, TopologyError
from fedsim.fleet.network import Network, NetworkSettings
from fedsim.scenario.named_files import TOPOLOGY
from fedsim.scenario.order import index_of_rule
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import TOPOLOGIES
from fedsim.topology import MixingMatrix, gap_of, matrix_of
from fedsim.types import Client, Gossip, forgetful

ANNOTATION = Annotated[Any, TOPOLOGIES]

# Sections of a scenario with a server, and what they say.
WITH_SERVER = {
    "server": "says what a server does with updates",
    "cohort": "says whom a server draws",
    "broadcast": "says how a server sends its model",
    "privacy": "noises the mean of a server",
}

# Methods that a refusal names.
NODE_METHODS = ("sgd", "gradient_tracking", "push_sum")


def network_settings(section: Any, **file: str) -> NetworkSettings:
    """Return what the section `topology` says of every round.

    Args:
      section: as checked.
      **file: `path`, where the section names a file.

    Raises:
      TopologyError: for weights that one-way links do not have.
    """
    topology = factory_of(section)(**file)
    is_directed = section.directed or topology.one_way
    if is_directed and section.weights not in (None, "uniform"):
        text = (
            f"{section.weights} is for links that go both ways; one-way ones hand out equal parts"
        )
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


def mix_rule_of(section: Any) -> list[Any]:
    """Return the stages and the rule that nodes apply to what they hear; none by default."""
    links = section.mix_rule
    if links is None:
        return []
    return links if isinstance(links, list) else [links]


def network_of(scenario: Scenario) -> NetworkSettings:
    """Return `network_settings` of a scenario with a topology.

    Raises:
      LinkError: for a kind that refuses its hyper-parameters.
      ScenarioError: as `network_settings` refuses.
      DataError: for a file that lists no edges.
    """
    try:
        return network_settings(scenario.spec.topology, **path_of(scenario, TOPOLOGY))
    except DataError as error:
        error.section = TOPOLOGY
        raise
    except TopologyError as error:
        raise scenario.error(("topology", error.where), str(error)) from None


def unusable_graphs(scenario: Scenario, network: NetworkSettings, N: int) -> Findings:
    """Graphs that do not fit the clients, or over which they never agree."""
    for seed in scenario.spec.seeds:
        try:
            Network(network, N, seed, scenario.spec.rounds).require_usable()
        except TopologyError as error:
            suffix = "" if len(scenario.spec.seeds) == 1 else f" (seed {seed})"
            yield ("topology", error.where), f"{error}{suffix}"
            return


def beside_topology(scenario: Scenario) -> Findings:
    """Sections that mean nothing where there is no server."""
    spec = scenario.spec
    if spec.topology is None:
        return
    for name, text in WITH_SERVER.items():
        if scenario.document.values.get(name):
            yield (name,), f"{text}, and nodes of a topology have no server; remove one of the two"
    if spec.schedule.kind != "sync":
        text = f"{spec.schedule.kind} says when a server steps, and nodes have none"
        yield ("schedule",), f"{text}; use schedule: sync"
    if spec.evaluate.diagnostics:
        text = "measures updates of one shared model, and every node trains its own"
        yield ("evaluate", "diagnostics"), f"{text}; remove it, consensus is measured anyway"
    for i, section in enumerate(spec.wire):
        if section.family == "codec":
            text = f"{section.kind} encodes updates of one shared model, which nodes do not have"
            yield ("wire", i), f"{text}; write client: {{kind: choco, codec: {section.kind}}}"


def unfit_node(scenario: Scenario, client: Client, network: NetworkSettings) -> Findings:
    """A client method that needs a server, or another graph."""
    spec = scenario.spec
    kind = spec.client.kind
    path = ("client", "kind")
    if client.not_federated:
        yield path, f"{kind} is a baseline in which nothing is mixed; remove topology"
        return
    if client.reduce or client.probe or client.shares or client.personal:
        text = f"{kind} needs a server that sends more, or less, than one model"
        yield path, f"{text}; use {', '.join(NODE_METHODS)}, or remove topology"
        return

    gossip = client.gossip or AFTER
    is_plain = gossip == AFTER
    if not is_plain and spec.topology.mix == "before":
        yield ("topology", "mix"), f"{kind} says itself when it mixes; remove mix: before"
    if not is_plain and spec.client.optimizer_state == "carry":
        text = f"{kind} has a memory of its own"
        yield ("client", "optimizer_state"), f"{text}; write reset"
    yield from _unfit_matrices(scenario, gossip, network)
    if "every_round" in gossip.needs and network.every > 1:
        text = f"{kind} mixes in every round"
        yield ("topology", "every"), f"{text}; remove it, and write more client.steps"
    if "one_step" in gossip.needs and spec.client.steps != 1:
        text = f"{kind} corrects one gradient a round"
        yield ("client", "steps"), f"{text}; write client.steps: 1"


def _unfit_matrices(scenario: Scenario, gossip: Gossip, network: NetworkSettings) -> Findings:
    """A graph whose matrices do not have what the method needs."""
    kind = scenario.spec.client.kind
    if "symmetric" in gossip.needs and not network.symmetric:
        text = f"{kind} needs links that go both ways"
        yield ("topology", "kind"), f"{text}; use an undirected graph, or push_sum"
        return
    if "rows" not in gossip.needs or network.symmetric:
        return
    fleet = scenario.spec.fleet
    may_be_away = fleet.availability is not None or fleet.dropout or fleet.deadline
    if not network.balanced or may_be_away:
        text = f"{kind} needs rows of W that add up to one, and those of one-way links"
        what = "do not where links or nodes may fail" if network.topology.one_way else "do not"
        yield ("topology", "kind"), f"{text} {what}; use client: push_sum, or an undirected graph"


def unfit_mix_rule(
    scenario: Scenario, client: Client, network: NetworkSettings, N: int, shapes: Any
) -> Findings:
    """A rule that nodes cannot apply to what they hear."""
    section = scenario.spec.topology
    path = ("topology", "mix_rule")
    links = mix_rule_of(section)
    if not links:
        return
    if client.gossip not in (None, AFTER) or section.mix == "before":
        text = "takes the place of a plain mix after the training"
        yield path, f"{text}; use client: sgd, mix: after, or remove it"
    try:
        index_of_rule(links)
    except OrderError as error:
        yield path, str(error)
        return
    heard = Network(network, N, scenario.spec.seeds[0], scenario.spec.rounds).heard
    fewest = 1 + int(heard.min())
    for link in links:
        made = factory_of(link)()
        yield from ((path, text) for text in _needs_server(link, made, shapes["params"]))
        if getattr(made, "least", 1) > fewest:
            text = f"{link.kind} needs at least {made.least} models, and some node has {fewest}"
            yield path, f"{text}, its own among them; use a denser graph, or another rule"


def _needs_server(link: Any, made: Any, params: Any) -> Iterator[str]:
    """What a link asks for that a node does not have."""
    state = jax.eval_shape(made.init, params, jax.ShapeDtypeStruct((1,), np.bool_))
    remembers = getattr(made, "memory", forgetful) is not forgetful
    if jax.tree.leaves(state) or remembers or getattr(made, "before", None) is not None:
        yield f"{link.kind} remembers earlier rounds, and nodes remember only their models"
    elif getattr(made, "needs", None) or getattr(made, "client", None):
        yield f"{link.kind} asks for more than the models that a node hears; use another rule"


def graph_needed(scenario: Scenario, client: Client) -> Findings:
    """A client method whose clients mix with their neighbours, without a topology."""
    if scenario.spec.topology is None and client.gossip is not None:
        text = f"{scenario.spec.client.kind} mixes over a graph, and there is none"
        yield ("client", "kind"), f"{text}; add topology: ring, or another kind"


def node_statistics(scenario: Scenario, shapes: Any) -> Findings:
    """A model with statistics, which nodes do not mix."""
    if scenario.spec.topology is None or not shapes["stats"]:
        return
    text = f"{scenario.spec.model.kind} has batch statistics, and nodes mix parameters alone"
    yield ("model",), f"{text}; use a norm without them, such as group"


def graph_in_numbers(network: Network) -> dict[str, Any]:
    """Return links, degrees and gap of a run's first graph."""
    matrix = network.first
    heard = network.heard
    return {
        "links": len(matrix.target),
        "degree_min": int(heard.min()),
        "degree_max": int(heard.max()),
        "gap": gap_of(matrix),
    }


def node_message_bytes(scenario: Scenario, client: Client, shapes: Any) -> int:
    """Return the most bytes of what a node sends to each neighbour.

    Args:
      scenario: with a topology.
      client: the method, as the lanes run it.
      shapes: of the start variables.
    """
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

    It is that of the first graph, whose links all work.

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
    """Return the mixing matrix of a topology's first graph; arguments as of `mixing`.

    Raises:
      ScenarioError: as of `mixing`.
    """
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
