"""Shares of clients that a scenario asks for, as numbers of clients."""

from collections.abc import Iterator

from fedsim.assemble.facts import Facts
from fedsim.assemble.fields import fields
from fedsim.assemble.problems import Findings
from fedsim.data import Federation
from fedsim.data.apportionment import count_of
from fedsim.errors import dotted
from fedsim.field import ShareOfClients
from fedsim.fleet import Cohort
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import Malicious, TestClients


def shares_of_nobody(facts: Facts) -> Findings:
    """Positive shares of the clients that come to no client."""
    shares = _shares(facts.scenario, facts.federation, facts.cohort)
    for path, share, clients, count in shares:
        if share > 0 and count == 0:
            text = f"{share:g} of {clients:,} clients is nobody"
            yield path, f"{text}; write at least {1 / clients:.2g}, or 0"


def rounded_shares(scenario: Scenario, federation: Federation, cohort: Cohort) -> list[str]:
    """Return a line for every share that is not a whole number of clients."""
    lines = []
    for path, share, clients, count in _shares(scenario, federation, cohort):
        if abs(share * clients - count) > 1e-9 * clients:
            lines.append(f"{dotted(path)}: {share:g} of {clients:,} clients is {count:,}")
    return lines


def _shares(scenario: Scenario, federation: Federation, cohort: Cohort) -> Iterator[ShareOfClients]:
    fleet = scenario.spec.fleet
    data = scenario.spec.data
    federation = federation.unpooled
    N = federation.N

    path = ("fleet", "malicious")
    if isinstance(fleet.malicious, float):
        yield ShareOfClients(path, fleet.malicious, N, count_of(fleet.malicious, N))
    elif isinstance(fleet.malicious, Malicious) and fleet.malicious.share is not None:
        share = fleet.malicious.share
        yield ShareOfClients((*path, "share"), share, N, count_of(share, N))

    for field in fields().values():
        yield from field.shares(scenario.spec, N, cohort)

    if data.partition.kind == "mixed":
        share = data.partition.share
        yield ShareOfClients(("data", "partition", "share"), share, N, count_of(share, N))

    share = data.test.clients if isinstance(data.test, TestClients) else None
    if isinstance(share, float) and federation.held_out.any():
        drawn = int(federation.held_out.sum())
        trained = int((federation.sizes > 0).sum())
        yield ShareOfClients(("data", "test", "clients"), share, drawn + trained, drawn)
