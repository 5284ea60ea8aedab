"""What edges and their cloud add to how a scenario is checked and built."""

from collections.abc import Hashable
from typing import Any

from fedsim.assemble.facts import Facts
from fedsim.assemble.links import links_at, locate_link_errors
from fedsim.assemble.section_keys import HashableSection
from fedsim.assemble.traits import Voice
from fedsim.engine.meters.meter import Columns, Meter, Since
from fedsim.engine.records import DispatchedRound
from fedsim.field import Field, RunSetting, SeedSetting, ServerParts, ServerSetting
from fedsim.fields.clusters.bank import BankServer
from fedsim.fields.edges import checks
from fedsim.fields.edges.checks import edge_times, hierarchy_of, with_edges
from fedsim.fields.edges.cloud import RECEIVED, SENT, Cloud
from fedsim.fields.edges.hierarchical import Hierarchy
from fedsim.fields.edges.times import WaitingEdges
from fedsim.fields.graphs.keys import is_graph
from fedsim.fleet.plan import Conditions
from fedsim.rules.mean import mean
from fedsim.scenario.reader import KeyPath
from fedsim.scenario.scenario import Scenario
from fedsim.types import Client, Model, Rule, ServerLinks

INNER = ("topology", "inner")

# Keys of a hierarchy that the plan reads, and the program does not.
CLOUD_LINK_KEYS = ("cloud_up", "cloud_down", "cloud_latency")


def _has_edges(spec: Any) -> bool:
    return spec.topology is not None and not is_graph(spec.topology)


def _components(facts: Facts) -> None:
    """Make the edges and their cloud, and the method as it trains under them."""
    hierarchy = facts.attempt(_hierarchy, facts.scenario, reads=[("topology",)])
    client = facts.attempt(with_edges, facts.maybe("client"), hierarchy)
    facts.learn(hierarchy=hierarchy, at_server=client)


@locate_link_errors
def _hierarchy(scenario: Scenario) -> Hierarchy | None:
    return hierarchy_of(scenario.spec.topology)


def _links(spec: Any) -> list[tuple[KeyPath, Any]] | None:
    """What an edge does in place of the only server."""
    if not _has_edges(spec) or spec.topology.inner is None:
        return None
    return links_at(INNER, spec.topology.inner)


def _served(spec: Any) -> list[Any] | None:
    links = _links(spec)
    return None if links is None else [section for _, section in links]


def _method(spec: Any, rule: Rule | None) -> Hashable:
    """The topology by what decides how clients of edges train."""
    if not _has_edges(spec):
        return None
    without = set(type(spec.topology).model_fields) - {"kind", "groups"}
    return HashableSection(spec.topology, without)


def _client(method: Client, key: Any, model: Model) -> Client:
    return with_edges(method, hierarchy_of(key.section))


def _server(spec: Any) -> Hashable:
    if not _has_edges(spec):
        return None
    return HashableSection(spec.topology, {"inner", *CLOUD_LINK_KEYS})


def _serves(parts: ServerParts, key: Any, setting: ServerSetting) -> ServerParts:
    if key is None:
        return parts
    hierarchy = hierarchy_of(key.section)
    assert hierarchy is not None
    cloud = Cloud(
        links=hierarchy.outer or ServerLinks(stages=[], rule=mean(), steps=[]),
        every=hierarchy.edge_rounds,
        edges=hierarchy.edges,
        client=setting.client,
        drops_nonfinite=setting.drop,
    )
    return parts._replace(make=BankServer, kept=[*parts.kept, cloud.kept])


def _planned(facts: Facts) -> Any:
    return facts.maybe("hierarchy")


def _conditions(conditions: Conditions, setting: SeedSetting) -> Conditions:
    """Edges go on by themselves; they and the cloud send whole models."""
    times = edge_times(setting.planned, setting.federation.N, model_bytes=setting.down)
    return conditions._replace(waiting=lambda plan: [WaitingEdges(times)])


class CloudTraffic(Meter):
    """Counts the bytes between edges and their cloud, which send whole models."""

    stored = ("cloud_totals",)

    def __init__(self, model_bytes: int):
        self.model_bytes = model_bytes
        self.cloud_totals = {"cloud_bytes_up": 0, "cloud_bytes_down": 0}

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        """Count a round."""
        info = dispatched.report.info
        self.cloud_totals["cloud_bytes_up"] += self.model_bytes * int(info[SENT])
        self.cloud_totals["cloud_bytes_down"] += self.model_bytes * int(info[RECEIVED])

    def row(self, round: int, since: Since) -> Columns:
        """Return the totals."""
        return dict(self.cloud_totals)


def _meters(setting: RunSetting) -> list[Meter]:
    with_clocks = any(isinstance(part, WaitingEdges) for part in setting.plan.waiting)
    return [CloudTraffic(int(setting.plan.cost.down))] if with_clocks else []


def _method_name(spec: Any, is_plain: bool) -> str | None:
    return "hierfavg" if is_plain and _has_edges(spec) else None


def _voice_of_kind(kind: str, made: Any) -> Voice | None:
    return checks.voice_of_edges() if isinstance(made, Hierarchy) else None


FIELD = Field(
    voices=[checks.edges_voice],
    calculations=[checks.beside_edges, checks.unusable_edges, checks.unfit_cloud],
    components=_components,
    counts_models=("topology.groups",),
    links=_links,
    served=_served,
    method=_method,
    client=_client,
    server=_server,
    serves=_serves,
    planned=_planned,
    conditions=_conditions,
    meters=_meters,
    method_name=_method_name,
    voices_of_kinds={"topology": _voice_of_kind},
)
