"""Clients as the nodes of a graph: what must hold, as checks like those of `feasibility`."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from fedsim.assemble.facts import Facts
from fedsim.assemble.links import factory_of, links_within
from fedsim.assemble.problems import Findings
from fedsim.assemble.traits import SILENT, Reason, Voice
from fedsim.compose import reads_updates_alone
from fedsim.errors import OrderError, TopologyError
from fedsim.fields.graphs.clients.nodes import AFTER
from fedsim.fields.graphs.keys import is_graph
from fedsim.fields.graphs.network import Network
from fedsim.scenario.order import index_of_rule
from fedsim.scenario.scenario import Scenario
from fedsim.types import Gossip, Rule, forgetful

PATH = ("topology",)


def graph_voice(facts: Facts) -> Voice:
    """A graph of clients in place of a server; without one, what only it has."""
    section = facts.spec.topology
    if is_graph(section):
        return voice_of_graph()
    if section is None:
        takes = [Reason("graph", "there is no topology")]
        return Voice(PATH, "add a topology, such as ring", [], takes)
    return SILENT


def voice_of_graph() -> Voice:
    """A graph of clients."""
    mixes = "nodes of a topology mix whole models"
    needs = [
        Reason("federation", "nodes of a topology mix what they send", at_taker=True),
        Reason("all_leaves", mixes, at_taker=True),
        Reason("stateless_model", "nodes mix parameters alone", at_taker=True),
        Reason("whole_messages", mixes),
        Reason("sample_losses", "nodes of a topology are scored by the losses of samples"),
    ]
    takes = [Reason("server", "nodes of a topology have no server")]
    return Voice(PATH, "remove topology", needs, takes)


def unusable_graphs(facts: Facts) -> Findings:
    """Graphs that do not fit the clients, or over which they never agree."""
    if facts.network is None:
        return
    seeds = facts.spec.seeds
    for seed in seeds:
        try:
            Network(facts.network, facts.N, seed, facts.spec.rounds).require_usable()
        except TopologyError as error:
            suffix = "" if len(seeds) == 1 else f" (seed {seed})"
            yield ("topology", error.where), f"{error}{suffix}"
            return


def unfit_node(facts: Facts) -> Findings:
    """A method of graphs that needs another graph, or other keys."""
    client = facts.client
    if facts.network is None or facts.refused("topology", "client.kind"):
        return
    spec = facts.spec
    kind = spec.client.kind
    gossip = client.gossip or AFTER
    if gossip != AFTER and spec.topology.mix == "before":
        yield ("topology", "mix"), f"{kind} says itself when it mixes; remove mix: before"
    if gossip != AFTER and spec.client.optimizer_state == "carry":
        text = f"{kind} has a memory of its own"
        yield ("client", "optimizer_state"), f"{text}; write reset"
    graphs = Network(facts.network, facts.N, spec.seeds[0], spec.rounds)
    yield from _unfit_matrices(facts.scenario, gossip, graphs)
    if "every_round" in gossip.needs and facts.network.every > 1:
        text = f"{kind} mixes in every round"
        yield ("topology", "every"), f"{text}; remove it, and write more client.steps"
    if "one_step" in gossip.needs and spec.client.steps != 1:
        text = f"{kind} corrects one gradient a round"
        yield ("client", "steps"), f"{text}; write client.steps: 1"


def node_without_samples(facts: Facts) -> Findings:
    """A node without samples, where the method needs a step of every node."""
    gossip = facts.client.gossip
    if facts.network is None or gossip is None or "samples" not in gossip.needs:
        return
    missing = facts.N - facts.eligible
    if missing == 0 or facts.refused("topology"):
        return
    kind = facts.spec.client.kind
    text = f"{kind} takes a step at every node, and {missing} of {facts.N} have no samples"
    yield ("client", "kind"), f"{text}; write data.partition.min_samples: 1, or use exact_diffusion"


def _unfit_matrices(scenario: Scenario, gossip: Gossip, graphs: Network) -> Findings:
    """A graph whose matrices do not have what the method needs."""
    kind = scenario.spec.client.kind
    path = ("topology", "kind")
    if graphs.settings.symmetric:
        return
    if "symmetric" in gossip.needs:
        text = f"{kind} needs undirected edges"
        yield path, f"{text}; use an undirected graph, or push_sum"
        return
    if "rows" not in gossip.needs:
        return
    fleet = scenario.spec.fleet
    may_be_away = any(getattr(fleet, key, None) for key in ("availability", "dropout", "deadline"))
    missing = ""
    if not graphs.balanced:
        missing = "do not"
    elif graphs.settings.fail or may_be_away:
        missing = "do not where edges or nodes may fail"
    if missing:
        text = f"{kind} needs rows of W that add up to one, and those of directed edges {missing}"
        yield path, f"{text}; use client: push_sum, or an undirected graph"


def unfit_mix_rule(facts: Facts) -> Findings:
    """A rule that nodes cannot apply to what they hear."""
    if facts.network is None or facts.refused("topology"):
        return
    section = facts.spec.topology
    path = ("topology", "mix_rule")
    links = links_within(section, "mix_rule")
    if not links:
        return
    if facts.client.gossip not in (None, AFTER) or section.mix == "before":
        text = "takes the place of a plain mix after the training"
        yield path, f"{text}; use client: sgd, mix: after, or remove it"
    try:
        index_of_rule(links)
    except OrderError as error:
        yield path, str(error)
        return
    heard = Network(facts.network, facts.N, facts.spec.seeds[0], facts.spec.rounds).heard
    fewest = 1 + int(heard.min())
    for link in links:
        made = factory_of(link)()
        yield from ((path, text) for text in _needs_server(link, made, facts.shapes["params"]))
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
