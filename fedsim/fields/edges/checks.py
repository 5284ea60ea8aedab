"""Clients of edges, and their cloud: what they are for a run, and what must hold."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from fedsim.assemble.facts import Facts
from fedsim.assemble.feasibility import at_most
from fedsim.assemble.links import Link, factory_of, links_at
from fedsim.assemble.problems import Findings
from fedsim.assemble.traits import SILENT, Reason, Voice
from fedsim.assemble.wire import remembers
from fedsim.compose import reads_updates_alone
from fedsim.compose.groups import NOBODY, group_of
from fedsim.fields.edges.hierarchical import Hierarchy
from fedsim.fields.edges.times import EdgeTimes
from fedsim.fields.graphs.keys import TopologyCommon, is_graph
from fedsim.types import Bank, Client, Grouping, Rule

PATH = ("topology",)


def hierarchy_of(topology: Any) -> Hierarchy | None:
    """Return the edges and the cloud of a section `topology`; None where it has none."""
    if topology is None or is_graph(topology):
        return None
    return factory_of(topology)()


class Edges(NamedTuple):
    """The server's state of its groups."""

    cluster: Int[Array, " N"]  # the edge of every client
    clusters: Int[Array, ""]  # edges


def with_edges(client: Client, hierarchy: Hierarchy | None) -> Client:
    """Return a method whose clients have the model of their edge in place of a shared one.

    It is unchanged where there are no edges.
    """
    if hierarchy is None:
        return client
    groups = hierarchy.groups

    def init(task, params, present, k):
        del task, params
        edge_of = group_of(groups, len(present))
        return Edges(jnp.asarray(edge_of), jnp.asarray(k, jnp.int32))

    return client._replace(server=Bank(models=hierarchy.edges, grouping=Grouping(init)))


def edge_times(hierarchy: Hierarchy, clients: int, model_bytes: int) -> EdgeTimes:
    """Return how long edges and their cloud take."""
    seconds = 2 * hierarchy.cloud_latency
    if hierarchy.cloud_up is not None:
        seconds += model_bytes / hierarchy.cloud_up
    if hierarchy.cloud_down is not None:
        seconds += model_bytes / hierarchy.cloud_down
    return EdgeTimes(
        edge_of=group_of(hierarchy.groups, clients),
        every=hierarchy.edge_rounds,
        cloud_seconds=seconds,
    )


def edges_voice(facts: Facts) -> Voice:
    """Edges with a cloud, whatever their number."""
    section = facts.spec.topology
    if section is None or is_graph(section):
        return SILENT
    return voice_of_edges()


def voice_of_edges() -> Voice:
    """Edges with a cloud."""
    alone = "every edge has a model of its own"
    needs = [
        Reason("federation", "edges add up what clients send", at_taker=True),
        Reason("one_model", alone, at_taker=True),
        Reason("fresh_clients", alone, at_taker=True),
        Reason("all_leaves", "edges mix whole models", at_taker=True),
        Reason("whole_messages", "edges mix whole models"),
    ]
    takes = [Reason(noun, alone) for noun in ("one_model", "message_memory", "update_memory")]
    remedy = "use a topology of nodes, such as ring"
    takes.append(Reason("graph", "clients of edges have servers", remedy))
    return Voice(PATH, "remove topology", needs, takes)


def beside_edges(facts: Facts) -> Findings:
    """Sections and keys that mean nothing where edges have servers of their own."""
    section = facts.spec.topology
    if section is None or is_graph(section):
        return
    if facts.scenario.document.values.get("server"):
        text = "says what one server does, and edges and their cloud are several"
        yield ("server",), f"{text}; write topology.inner, topology.outer, or both"
    for name, field in TopologyCommon.model_fields.items():
        if getattr(section, name) != field.default:
            text = f"is for graphs, and {section.kind} has servers"
            yield ("topology", name), f"{text}; remove it"


def unusable_edges(facts: Facts) -> Findings:
    """Edges without clients, or clients without an edge."""
    if facts.hierarchy is None:
        return
    N = facts.N
    path = ("topology", "groups")
    groups = facts.hierarchy.groups
    if isinstance(groups, int):
        if groups > N:
            yield path, f"{groups} edges for {N} clients; write at most {N}"
        return
    largest = max(map(max, groups))
    if largest >= N:
        yield path, f"there is no client {largest}, they are 0 to {N - 1}; remove it"
        return
    without = np.flatnonzero(group_of(groups, N) == NOBODY)
    if len(without):
        text = f"{len(without)} of {N} clients are in no group, such as client {without[0]}"
        yield path, f"{text}; name every client once"


def unfit_cloud(facts: Facts) -> Findings:
    """Links of the cloud that ask for more than updates, or for another number of them."""
    hierarchy = facts.hierarchy
    if hierarchy is None:
        return
    for link in cloud_links(facts.spec.topology):
        kind = link.section.kind
        most = getattr(link.made, "most", None)
        there_are = f"and there are {hierarchy.edges} edges; use another rule"
        if remembers(link.made):
            text = f"{kind} remembers something of every client, and a cloud sees edges"
            yield link.path, f"{text}; use another rule, such as mean"
        elif isinstance(link.made, Rule) and not reads_updates_alone(link.made):
            text = f"{kind} asks for more than updates"
            yield link.path, f"{text}; use a rule that reads the updates alone, as mean"
        elif getattr(link.made, "least", 0) > hierarchy.edges:
            yield link.path, f"{kind} needs at least {link.made.least} updates, {there_are}"
        elif most is not None and most < hierarchy.edges:
            yield link.path, f"{at_most(link.section, most)}, {there_are}"


def cloud_links(topology: Any) -> list[Link]:
    """Return the links of a cloud."""
    sections = links_at(("topology", "outer"), topology.outer)
    return [Link(path, section, factory_of(section)()) for path, section in sections]
