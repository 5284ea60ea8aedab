"""What the factories of a scenario make without samples or a model."""

import contextlib
import inspect
import math
from typing import Any, Literal, NamedTuple

from fedsim.assemble.edges import hierarchy_of, unfit_edge_client, with_edges
from fedsim.assemble.hooks import make_link
from fedsim.assemble.links import Link, factory_of, links_at, locate_link_errors
from fedsim.assemble.machines import cohort_of, fleet_of
from fedsim.assemble.parts import levels_of
from fedsim.assemble.plans import PlanInputs
from fedsim.assemble.problems import UNKNOWN, Problems, all_known
from fedsim.assemble.rates import client_rate
from fedsim.assemble.topology import network_of
from fedsim.compose import FAMILIES
from fedsim.fleet import Cohort, Fleet, Local, Timetable
from fedsim.fleet.levels import Levels
from fedsim.fleet.network import NetworkSettings
from fedsim.scenario.reader import KeyPath
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import is_graph
from fedsim.topology import Hierarchy
from fedsim.types import Client, Rule


class Components(NamedTuple):
    """What the factories of a scenario made; UNKNOWN where one refused its hyper-parameters."""

    cohort: Cohort
    timetable: Timetable
    fleet: Fleet
    local: Local
    client: Client
    broadcast: list[Link]
    links: list[Link]  # of `wire` and `server`, or of edges
    network: NetworkSettings | None  # of clients that have no server
    hierarchy: Hierarchy | None  # of clients that have edges
    levels: Levels | None  # sizes of the model that clients train

    @property
    def rule(self) -> Link | None:
        """The rule, where it was made."""
        return next((link for link in self.links if isinstance(link.made, Rule)), None)

    @property
    def plan_inputs(self) -> PlanInputs:
        """What decides the rounds."""
        pools = UNKNOWN if self.client is UNKNOWN else _pooled_steps(self.client)
        local = self.local
        if all_known(local, self.client):
            local = local._replace(phases=self.client.phases)
        return PlanInputs(
            cohort=self.cohort,
            timetable=self.timetable,
            fleet=self.fleet,
            local=local,
            pools=pools,
            network=self.network,
            hierarchy=self.hierarchy,
            levels=self.levels,
        )


def _pooled_steps(client: Client) -> Literal["client", "cohort"] | None:
    """Whose steps a round takes on the samples of all clients; None: they are not pooled."""
    if isinstance(client.server, str) and client.server != "alone":
        return client.server
    return None


def make_components(problems: Problems) -> Components:
    """Make the components of a scenario; what is refused is recorded."""
    scenario = problems.scenario
    spec = scenario.spec
    client_section = spec.client

    def make(path: KeyPath, section: Any) -> Link:
        made = problems.attempt(make_link, scenario, path, section, reads=[path])
        return Link(path, section, made)

    cohort = problems.attempt(cohort_of, scenario, reads=[("cohort",)])
    timetable = make(("schedule",), spec.schedule).made
    make_fleet = locate_link_errors(fleet_of)
    fleet = problems.attempt(make_fleet, scenario, reads=[("fleet",), ("cohort",)])

    hook_keys = _hook_keys(client_section)
    client = problems.attempt(make_link, scenario, ("client",), client_section, reads=hook_keys)
    make_hierarchy = locate_link_errors(_hierarchy)
    hierarchy = problems.attempt(make_hierarchy, scenario, reads=[("topology",)])
    if hierarchy is not None:
        problems.check(unfit_edge_client, scenario, client)
        client = problems.attempt(with_edges, client, hierarchy)
    work_keys = [("client", key) for key in ("batch", "steps", "epochs")]
    local = problems.attempt(_local_of, client_section, reads=work_keys)

    # The program makes the optimizer once more, for learning rates that are traced.
    make_optimizer = factory_of(client_section.optimizer)
    problems.attempt(make_optimizer, 0.1, reads=[("client", "optimizer")])

    broadcast = [make(("broadcast", i), section) for i, section in enumerate(spec.broadcast)]
    links = [make(path, section) for path, section in links_of(spec)]
    return Components(
        cohort=cohort,
        timetable=timetable,
        fleet=fleet,
        local=local,
        client=client,
        broadcast=broadcast,
        links=links,
        network=_network(problems),
        hierarchy=hierarchy,
        levels=levels_of(client_section),
    )


def _hierarchy(scenario: Scenario) -> Hierarchy | None:
    return hierarchy_of(scenario.spec.topology)


def _network(problems: Problems) -> NetworkSettings | None:
    """Return the settings of a graph in place of a server; None: there is none."""
    scenario = problems.scenario
    if not is_graph(scenario.spec.topology):
        return None
    return problems.attempt(network_of, scenario, reads=[("topology",)])


def links_of(spec: Any) -> list[tuple[KeyPath, Any]]:
    """Return (path, section) of everything in `wire` and `server`, in this order.

    Edges have what `topology.inner` says in place of `server`.
    """
    wire = [(("wire", i), section) for i, section in enumerate(spec.wire)]
    server = [(("server", i), section) for i, section in enumerate(spec.server)]
    topology = spec.topology
    if topology is not None and not is_graph(topology) and topology.inner is not None:
        server = links_at(("topology", "inner"), topology.inner)
    return wire + server


def not_federated_of(spec: Any) -> str:
    """Return `Client.not_federated` of a scenario's client method.

    It is empty for one that cannot be made, which is refused when the scenario is built.
    """
    with contextlib.suppress(ValueError):
        return factory_of(spec.client)().not_federated
    return ""


def _hook_keys(section: Any) -> list[KeyPath]:
    """Return the paths that decide a client's hooks: its kind and its hyper-parameters."""
    factory = FAMILIES[section.family][section.kind]
    names = inspect.signature(factory).parameters
    return [("method",), ("client", "kind"), *(("client", name) for name in names)]


def _local_of(section: Any) -> Local:
    """Return how much a client trains, from its section."""
    rate = client_rate(section)
    return Local(
        batch=None if section.batch == "full" else section.batch,
        epochs=section.epochs,
        steps=section.steps,
        shuffle=section.shuffle is True,
        drop_last=section.drop_last,
        lr=rate.of_round,
        rate=rate.of_step,
        poisson=section.shuffle == "poisson",
        cap=_cap_of(section),
    )


def _cap_of(section: Any) -> int | None:
    """Return the samples of a Poisson batch at most; None where nothing bounds them."""
    if section.shuffle != "poisson" or section.batch == "full":
        return None
    if section.dp_sgd is not None and section.dp_sgd.cap is not None:
        return section.dp_sgd.cap
    return section.batch + math.ceil(8 * math.sqrt(section.batch)) + 8  # reached once in 10^13
