"""What graphs of clients add to how a scenario is checked and built."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from fedsim.assemble.facts import Facts
from fedsim.assemble.forecast import mean_of
from fedsim.assemble.links import links_within
from fedsim.assemble.plans import of_first_seed
from fedsim.assemble.traits import Voice
from fedsim.engine.meters.meter import Columns, Since
from fedsim.engine.meters.traffic import Traffic
from fedsim.engine.records import DispatchedRound
from fedsim.field import Field, SeedSetting
from fedsim.fields.graphs import checks
from fedsim.fields.graphs.clients.nodes import at_node
from fedsim.fields.graphs.form import Graph
from fedsim.fields.graphs.keys import is_graph
from fedsim.fields.graphs.mixing import NodeMixing
from fedsim.fields.graphs.network import Network, active_nodes
from fedsim.fields.graphs.section import (
    graph_in_numbers,
    network_of,
    node_message_bytes,
    resolved_topology,
)
from fedsim.fields.graphs.topology import Topology
from fedsim.fleet import Plan, RoundPlan
from fedsim.fleet.plan import Conditions
from fedsim.scenario.scenario import Scenario
from fedsim.types import Client, Model, Rule, Shared


def _components(facts: Facts) -> None:
    """Make the settings of a graph in place of a server."""
    network = None
    if is_graph(facts.spec.topology):
        network = facts.attempt(network_of, facts.scenario, reads=[("topology",)])
    facts.learn(network=network)


def _served(spec: Any) -> list[Any] | None:
    if not is_graph(spec.topology):
        return None
    return links_within(spec.topology, "mix_rule") or None


def _method(spec: Any, rule: Rule | None) -> Hashable:
    return spec.topology.mix if is_graph(spec.topology) else None


def _client(method: Client, mix: Any, model: Model) -> Client:
    method = at_node(method, mix)
    assert method.gossip is not None
    return method._replace(server=method.gossip._replace(aggregator=NodeMixing))


def _planned(facts: Facts) -> Any:
    return facts.maybe("network")


class WaitingNodes:
    """Nodes of a graph: each waits for those whom it hears."""

    name = "nodes"

    def __init__(self, network: Network):
        self.network = network

    def begin(self) -> Float[np.ndarray, " n"]:
        """Return when each node can begin round 1."""
        return np.zeros(self.network.nodes)

    def next_start(
        self, plan: Plan, work: RoundPlan, ids: np.ndarray, begins: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """Return when each node can begin its next round, as `Waiting`."""
        active = active_nodes(plan, work)
        if not active.any():
            return begins + work.seconds
        seconds = plan.seconds
        if not self.network.mixes(work.round):  # nothing is sent
            seconds = plan.steps * plan.machines.speed.step
        done = np.where(active, begins + seconds, begins)
        return self.network.next_start(work.round, active, done)


def waiting_nodes(network: Network, plan: Plan) -> list[WaitingNodes]:
    """Return the nodes, unless all take equally long in every round: then none waits."""
    unequal = bool(np.ptp(plan.seconds)) or network.settings.every > 1
    return [WaitingNodes(network)] if unequal else []


def _conditions(conditions: Conditions, setting: SeedSetting) -> Conditions:
    """Every node sends to, and receives from, each neighbour, and waits for those it hears."""
    rounds = setting.scenario.spec.rounds
    network = Network(setting.planned, setting.federation.N, setting.seed, rounds)
    return conditions._replace(
        network=network,
        waiting=lambda plan: waiting_nodes(network, plan),
        down=setting.down * network.heard,
        up=setting.up * network.hearers,
    )


def _message_bytes(facts: Facts) -> tuple[int, int] | None:
    """The bytes of a node per neighbour."""
    if facts.network is None:
        return None
    of_node = node_message_bytes(facts.scenario, facts.trained.client, facts.shapes)
    return of_node, of_node


def _form(client: Client, plan: Plan, initial: Shared) -> Graph | None:
    return None if plan.network is None else Graph()


class Exchanges(Traffic):
    """Counts messages between the nodes of a graph: one for every edge of a round."""

    def count_messages(self, dispatched: DispatchedRound) -> None:
        """Count the messages of a round; nodes that are away send and receive nothing."""
        network = self.plan.network
        assert isinstance(network, Network)
        cohort = dispatched.cohort
        source, target = network.traffic(cohort.round, active_nodes(self.plan, cohort)).T
        size = np.asarray(dispatched.report.bytes, np.int64)[source]  # of each edge's message
        np.add.at(self.sent, source, size)
        np.add.at(self.downlink.received, target, size)
        self.totals["bytes_up"] += int(size.sum())
        self.totals["bytes_down"] += int(size.sum())

    def row(self, round: int, since: Since) -> Columns:
        """Return the totals, and that all nodes have one model before the first round."""
        return {**super().row(round, since), "consensus": 0.0}


def _traffic(plan: Plan) -> type[Traffic] | None:
    return None if plan.network is None else Exchanges


def _resolved(scenario: Scenario) -> dict[str, Any]:
    return {"topology": resolved_topology(scenario)}


def _method_name(spec: Any, is_plain: bool) -> str | None:
    if not is_graph(spec.topology):
        return None
    return "dfedavg" if spec.client.kind == "sgd" else spec.client.kind


def _stacks(spec: Any) -> list[str]:
    return [f"topology {spec.topology.kind}"] if is_graph(spec.topology) else []


def _forecast(experiment: Any, rounds: Sequence[RoundPlan]) -> dict[str, Any]:
    """The first graph in numbers, and the most bytes that its nodes send in an average round."""
    plan = of_first_seed(experiment.plans)
    network = plan.network
    if not isinstance(network, Network):
        return {}
    message = np.max(plan.cost.up / np.maximum(network.hearers, 1))
    edges = [len(network.traffic(work.round, active_nodes(plan, work))) for work in rounds]
    exchanged = int(mean_of(edges) * message)
    return {
        "bytes_up_a_round": exchanged,
        "bytes_down_a_round": exchanged,
        "graph": graph_in_numbers(network),
    }


def _voice_of_kind(kind: str, made: Any) -> Voice | None:
    return checks.voice_of_graph() if isinstance(made, Topology) else None


FIELD = Field(
    voices=[checks.graph_voice],
    calculations=[
        checks.unusable_graphs,
        checks.unfit_node,
        checks.node_without_samples,
        checks.unfit_mix_rule,
    ],
    components=_components,
    served=_served,
    method=_method,
    client=_client,
    planned=_planned,
    conditions=_conditions,
    message_bytes=_message_bytes,
    form=_form,
    traffic=_traffic,
    resolved=_resolved,
    method_name=_method_name,
    stacks=_stacks,
    voices_of_kinds={"topology": _voice_of_kind},
    lacking={"no topology": ("topology", {})},
    forecast=_forecast,
)
