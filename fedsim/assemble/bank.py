"""What cannot work with a server that has several models, as checks like those of `feasibility`."""

from typing import Any

from fedsim.assemble.links import Link
from fedsim.assemble.problems import Findings
from fedsim.assemble.wire import remembers
from fedsim.fleet import Timetable
from fedsim.scenario.scenario import Scenario
from fedsim.types import Client, Rule


def client_of_models(scenario: Scenario, client: Client, eligible: int, K: int) -> Client:
    """Return a client method whose server has no more models than there are clients for.

    Args:
      scenario: the scenario.
      client: its client method.
      eligible: clients that can take part.
      K: clients of a nominal cohort.

    Raises:
      ScenarioError: for more models, none of which has been made yet.
    """
    bank = client.bank
    if bank is None:
        return client
    path = ("client", "clusters")
    if bank.choice is not None and bank.models > eligible:
        text = f"{bank.models} models for {eligible} clients with samples"
        raise scenario.error(path, f"{text}; write at most {eligible}")
    if bank.grouping is not None and (bank.grouping.least or 1) > K:
        text = f"{bank.grouping.least} groups of the {K} clients of a round"
        raise scenario.error(path, f"{text}; write at most {K}, or enlarge the cohort")
    return client


def memory_beside_models(scenario: Scenario, client: Client) -> Findings:
    """Clients that remember something of one of several models."""
    if client.bank is None:
        return
    kind = scenario.spec.client.kind
    if scenario.spec.client.optimizer_state == "carry":
        text = f"{kind} has several models, and an optimizer's state belongs to one of them"
        yield ("client", "optimizer_state"), f"{text}; remove it"


def sections_beside_models(scenario: Scenario, client: Client, timetable: Timetable) -> Findings:
    """Sections that know a single model."""
    if client.bank is None:
        return
    spec = scenario.spec
    kind = spec.client.kind
    several = _several_models(scenario)
    if timetable.asynchronous:
        text = f"{several}, and {spec.schedule.kind} has clients with older ones"
        yield ("schedule",), f"{text}; use schedule: sync, or another method"
    if spec.broadcast:
        text = f"{several}, and a codec of the broadcast encodes one"
        yield ("broadcast",), f"{text}; remove it, or use another method"
    if spec.privacy is not None:
        text = f"{several}, and which one a client takes tells about its samples"
        yield ("privacy",), f"{text}, which ε does not cover; remove it, or use another method"
    if spec.evaluate.diagnostics:
        text = f"{several}, and diagnostics compare updates of one"
        yield ("evaluate", "diagnostics"), f"{text}; remove it, or use another method"
    if not client.bank.regroups:
        return
    assert client.bank.grouping is not None
    if client.bank.grouping.least is None and spec.cohort.kind != "all":
        text = f"{kind} compares the updates of all clients in a round"
        yield ("cohort",), f"{text}, and {spec.cohort.kind} leaves some out; write cohort: all"
    if spec.wire:
        text = f"{kind} compares updates as the clients made them"
        yield ("wire",), f"{text}, and a wire changes them; remove it, or use another method"


def sections_beside_made_models(scenario: Scenario, client: Client) -> Findings:
    """Sections that change what travels, where the server makes the clients' models."""
    if client.travel.instead is None:
        return
    spec = scenario.spec
    server = f"the server of {spec.client.kind}"
    makes = f"{server} makes something else of each update before it adds them up"
    remedy = "remove it, or use another method"
    if spec.wire:
        yield ("wire",), f"{makes}, and a wire would change that; {remedy}"
    if spec.broadcast:
        text = f"{server} sends every client another model, and a codec of the broadcast"
        yield ("broadcast",), f"{text} encodes one; {remedy}"
    if spec.privacy is not None:
        yield ("privacy",), f"{makes}, and privacy would clip that; {remedy}"


def links_beside_models(scenario: Scenario, client: Client, links: list[Link]) -> Findings:
    """Links that know a single model: those that remember clients, or ask about the model."""
    if client.bank is None:
        return
    several = _several_models(scenario)
    for link in links:
        kind = link.section.kind
        if remembers(link.made):
            text = f"{kind} remembers something of every client at one model"
            yield link.path, f"{text}, and {several}; use another link, as mean"
        elif asks_about_model(link.made):
            text = f"{kind} is about one model, and {several}"
            yield link.path, f"{text}; use a rule that reads the updates alone, as mean"


def asks_about_model(link: Any) -> bool:
    """Whether a link is a rule that looks at the model, besides the updates."""
    return isinstance(link, Rule) and bool(link.needs or link.evaluated)


def _several_models(scenario: Scenario) -> str:
    if scenario.spec.topology is not None:
        return "every edge has a model of its own"
    return f"the server of {scenario.spec.client.kind} has several models"
