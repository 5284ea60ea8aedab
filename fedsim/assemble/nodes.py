"""Clients as the nodes of a graph: what must hold, as checks like those of `feasibility`."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from fedsim.assemble.links import factory_of, links_within
from fedsim.assemble.problems import Findings
from fedsim.clients import hooks
from fedsim.clients.nodes import AFTER
from fedsim.compose import reads_updates_alone
from fedsim.errors import OrderError, TopologyError
from fedsim.fleet.network import Network, NetworkSettings
from fedsim.scenario.order import index_of_rule
from fedsim.scenario.scenario import Scenario
from fedsim.types import Client, Gossip, Rule, forgetful

# Sections of a scenario with a server, and what they say.
WITH_SERVER = {
    "server": "says what a server does with updates",
    "cohort": "says whom a server draws",
    "broadcast": "says how a server sends its model",
    "privacy": "noises the mean of a server",
}

# Methods that a refusal names.
NODE_METHODS = ("sgd", "gradient_tracking", "push_sum")


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
    written = scenario.document.values
    for name, text in WITH_SERVER.items():
        if not written.get(name):
            continue
        if name == "server" and written.get("method"):
            yield ("method",), "steps at a server, and a topology has none; remove one of the two"
        else:
            yield (name,), f"{text}, and nodes of a topology have no server; remove one of the two"
    if spec.model.freeze or spec.model.train or spec.model.adapter:
        text = "nodes of a topology mix whole models"
        yield ("model",), f"{text}; remove freeze, train and adapter, or topology"
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


def unfit_node(scenario: Scenario, client: Client, network: NetworkSettings, N: int) -> Findings:
    """A client method that needs a server, or another graph."""
    spec = scenario.spec
    kind = spec.client.kind
    path = ("client", "kind")
    if client.not_federated:
        yield path, f"{kind} is a baseline in which nothing is mixed; remove topology"
        return
    sends_update_alone = client.finish is hooks.finish and client.memory is hooks.no_memory
    has_models = client.bank or client.travel.sends or client.scored.personal
    others = client.reduce or client.probe or client.travel.shares or has_models
    if client.gossip is None and (others or not sends_update_alone):
        text = f"{kind} needs a server: its clients send or remember something else than a model"
        yield path, f"{text}; use {', '.join(NODE_METHODS)}, or remove topology"
        return

    gossip = client.gossip or AFTER
    is_plain = gossip == AFTER
    if not is_plain and spec.topology.mix == "before":
        yield ("topology", "mix"), f"{kind} says itself when it mixes; remove mix: before"
    if not is_plain and spec.client.optimizer_state == "carry":
        text = f"{kind} has a memory of its own"
        yield ("client", "optimizer_state"), f"{text}; write reset"
    graphs = Network(network, N, spec.seeds[0], spec.rounds)
    yield from _unfit_matrices(scenario, gossip, graphs)
    if "every_round" in gossip.needs and network.every > 1:
        text = f"{kind} mixes in every round"
        yield ("topology", "every"), f"{text}; remove it, and write more client.steps"
    if "one_step" in gossip.needs and spec.client.steps != 1:
        text = f"{kind} corrects one gradient a round"
        yield ("client", "steps"), f"{text}; write client.steps: 1"


def node_without_samples(scenario: Scenario, client: Client, nodes: int, eligible: int) -> Findings:
    """A node without samples, where the method needs a step of every node.

    Args:
      scenario: as read.
      client: the method.
      nodes: number of nodes.
      eligible: nodes with samples, under the seed that has the fewest.
    """
    if client.gossip is None or "samples" not in client.gossip.needs or eligible == nodes:
        return
    kind = scenario.spec.client.kind
    text = f"{kind} takes a step at every node, and {nodes - eligible} of {nodes} have no samples"
    yield ("client", "kind"), f"{text}; write data.partition.min_samples: 1, or use exact_diffusion"


def _unfit_matrices(scenario: Scenario, gossip: Gossip, graphs: Network) -> Findings:
    """A graph whose matrices do not have what the method needs."""
    kind = scenario.spec.client.kind
    path = ("topology", "kind")
    if graphs.settings.symmetric:
        return
    if "symmetric" in gossip.needs:
        text = f"{kind} needs links that go both ways"
        yield path, f"{text}; use an undirected graph, or push_sum"
        return
    if "rows" not in gossip.needs:
        return
    fleet = scenario.spec.fleet
    may_be_away = fleet.availability is not None or fleet.dropout or fleet.deadline
    missing = ""
    if not graphs.balanced:
        missing = "do not"
    elif graphs.settings.fail or may_be_away:
        missing = "do not where links or nodes may fail"
    if missing:
        text = f"{kind} needs rows of W that add up to one, and those of one-way links {missing}"
        yield path, f"{text}; use client: push_sum, or an undirected graph"


def unfit_mix_rule(
    scenario: Scenario, client: Client, network: NetworkSettings, N: int, shapes: Any
) -> Findings:
    """A rule that nodes cannot apply to what they hear."""
    section = scenario.spec.topology
    path = ("topology", "mix_rule")
    links = links_within(section, "mix_rule")
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
    elif isinstance(made, Rule) and not reads_updates_alone(made):
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
