"""Privacy: what must hold for ε to be true, as checks like those of `feasibility`.

ε counts what leaves the clients as one sum of clipped updates a round, with noise on it. Whatever
else would leave them, or would make one client's data move more than its own update, is refused.
"""

from typing import Any

from fedsim.assemble.links import Link, factory_of
from fedsim.assemble.problems import Findings
from fedsim.assemble.wire import remembers, sent_besides
from fedsim.fleet import Cohort, Fleet
from fedsim.privacy import DISTRIBUTED
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import PRIVATE_MEAN
from fedsim.types import Aim, Client, Codec, Mechanism, RowStage, Stage

# Kinds of availability under which no data and no other client decide who can be reached.
INDEPENDENT = ("bernoulli", "lognormal", "markov")

# Mechanisms that the accountant knows.
MECHANISMS = ("gaussian", "tree", "banded", "blt", *DISTRIBUTED)

# Cohorts that the accountant knows.
SAMPLERS = ("all", "poisson", "uniform", "cyclic", "separated", "cyclic_poisson")

# Stages that noise a client's message before it leaves.
LOCAL = ("local_gaussian", "local_laplace")

NOISED_ALONE = "privacy adds noise to the updates alone"


def with_noised_codec(scenario: Scenario, links: list[Link]) -> list[Link]:
    """Return the links with the codec by which clients add noise, at the end of the wire."""
    privacy = scenario.spec.privacy
    if privacy is None or privacy.mechanism.kind not in DISTRIBUTED:
        return links
    mechanism: Mechanism = factory_of(privacy.mechanism)()
    assert mechanism.wire is not None
    codec = mechanism.wire(1.0, 0.0)[-1]
    first = len(scenario.spec.wire)
    path = ("privacy", "mechanism")
    return [*links[:first], Link(path, privacy.mechanism, codec), *links[first:]]


def private_rule(scenario: Scenario, rule: Link) -> Findings:
    """A rule that is no mean, or a mean whose weights depend on the samples or on who came."""
    if scenario.spec.privacy is None:
        return
    section = rule.section
    if section.kind != "mean":
        text = f"{section.kind} is no mean, and how far one client moves it is not bounded by clip"
        yield rule.path, f"{text}; use the rule mean, or remove privacy"
        return
    reasons = {
        "weights": "a client's weight would depend on its data",
        "denominator": "a client's share would depend on who else came",
    }
    for name, wanted in PRIVATE_MEAN.items():
        value = getattr(section, name)
        if value != wanted:
            yield (*rule.path, name), f"is {value}, and {reasons[name]}; write {wanted}"


def private_link(scenario: Scenario, link: Link) -> Findings:
    """A link before the noise through which one client's data would move more than its own row."""
    if scenario.spec.privacy is None:
        return
    made = link.made
    kind = link.section.kind
    if isinstance(made, Codec) and made.linear:
        text = f"{kind} sends payloads, which cannot be clipped before they are summed"
        remedy = "use a codec that is decoded row by row"
        if made.wraps is not None:
            remedy = f"remove it, privacy.mechanism: {DISTRIBUTED[0]} sends such sums"
        yield link.path, f"{text}; {remedy}"
    elif isinstance(made, Codec | Stage | RowStage) and remembers(made):
        text = f"{kind} has a memory of earlier updates, which would leave with later ones"
        yield link.path, f"{text}; use a link without one, or remove privacy"
    elif isinstance(made, Stage | Aim):
        text = f"{kind} sees the rows of all clients, so that one client would move several"
        yield link.path, f"{text}; use a link for one row, or remove it"
    elif isinstance(made, RowStage) and made.after is not None:
        text = f"{kind} learns from all updates without noise"
        yield link.path, f"{text}; remove it, privacy.clip: {{kind: adaptive}} adds some"


def private_client(scenario: Scenario, client: Client) -> Findings:
    """A client method that sends more than its update."""
    if scenario.spec.privacy is None:
        return
    path = ("client", "kind")
    kind = scenario.spec.client.kind
    remedy = "use a method whose clients send their update alone, such as fedavg or fedprox"
    if client.not_federated:
        yield path, f"{kind} sends no updates that could be noised; {remedy}, or remove privacy"
    elif client.probe is not None:
        text = f"{kind} sends a gradient at the shared model first, and {NOISED_ALONE}"
        yield path, f"{text}; {remedy}"
    elif client.travel.sends is not None:
        text = f"{kind} sends clients what it makes of the models of others"
        yield path, f"{text}, without noise; {remedy}"
    elif client.reduce:
        names = ", ".join(client.reduce)
        text = f"{kind} makes its shared {names} of more than the noised mean"
        yield path, f"{text}; {remedy}"


def private_statistics(scenario: Scenario, shapes: Any) -> Findings:
    """A model with statistics, which clients send beside their update."""
    if scenario.spec.privacy is None or not shapes["stats"]:
        return
    text = f"{scenario.spec.model.kind} has batch statistics that clients send as well"
    yield ("model",), f"{text}, and {NOISED_ALONE}; use a norm without them, such as group"


def private_cohort(scenario: Scenario, cohort: Cohort, fleet: Fleet) -> Findings:
    """A cohort or a fleet of which nobody can tell how often a client takes part."""
    spec = scenario.spec
    if spec.privacy is None:
        return
    if spec.privacy.mechanism.kind not in MECHANISMS:
        text = f"no accountant knows {spec.privacy.mechanism.kind}"
        yield ("privacy", "mechanism"), f"{text}; use {', '.join(MECHANISMS)}"
    if spec.schedule.kind != "sync":
        text = f"{spec.schedule.kind} lets clients take part whenever they are ready"
        yield ("schedule",), f"{text}, which no accountant counts; use schedule: sync"
    if cohort.sampling is None:
        text = f"no accountant counts how {spec.cohort.kind} draws clients"
        yield ("cohort",), f"{text}; use one of {', '.join(SAMPLERS)}"
    yield from _private_fleet(spec, fleet)


def _private_fleet(spec: Any, fleet: Fleet) -> Findings:
    """A fleet in which data, or other clients, decide whose message counts."""
    section = spec.fleet
    yield from _lost_noise(spec)
    available = section.availability
    if available is not None and available.kind != "always":
        path = ("fleet", "availability")
        if spec.cohort.kind == "uniform":
            text = "uniform draws its size among fewer clients than are counted"
            yield path, f"{text}; use the cohort poisson"
        elif available.kind not in INDEPENDENT:
            text = f"under {available.kind}, who can be reached depends on samples or on others"
            yield path, f"{text}; use {' or '.join(INDEPENDENT)}"
    if section.deadline is not None:
        text = "who is late depends on sizes and on who else came"
        yield ("fleet", "deadline"), f"{text}; remove it, or write fleet.dropout"
    if section.over_select > 1:
        text = "who counts depends on who else came"
        yield ("fleet", "over_select"), f"{text}; remove it"
    if section.stragglers is not None:
        text = "who is slow depends on who else came"
        yield ("fleet", "stragglers"), f"{text}; remove it, or write fleet.dropout"


def _lost_noise(spec: Any) -> Findings:
    """Clients that leave with the noise that they would have added."""
    mechanism = spec.privacy.mechanism
    if mechanism.kind not in DISTRIBUTED or mechanism.shares is not None:
        return
    text = f"a client that is missing takes its share of the noise {mechanism.kind} along"
    remedy = "write privacy.mechanism.shares, the messages that a round needs"
    available = spec.fleet.availability
    if available is not None and available.kind != "always":
        yield ("fleet", "availability"), f"{text}; {remedy}, or remove it"
    if spec.fleet.dropout:
        yield ("fleet", "dropout"), f"{text}; {remedy}, or remove it"


def private_numbers(scenario: Scenario) -> Findings:
    """Messages that are not finite, which no clip bounds."""
    spec = scenario.spec
    if spec.privacy is not None and spec.on_nonfinite != "drop":
        text = f"{spec.on_nonfinite} makes the run depend on one message without bound"
        yield ("on_nonfinite",), f"{text}; write drop"


def local_message(scenario: Scenario, links: list[Link], client: Client, shapes: Any) -> Findings:
    """Noise of clients that is not on their messages, or messages with more than is noised."""
    for i, link in enumerate(links):
        kind = link.section.kind
        if kind not in LOCAL:
            continue
        encoded = [before.section for before in links[:i] if before.section.family == "codec"]
        if link.path[0] == "server":
            text = f"{kind} is noise of the clients, and behind the wire it protects nothing"
            yield link.path, f"{text}; move it into wire"
        elif encoded:
            text = f"what {encoded[0].kind} encodes is noised first"
            yield link.path, f"{text}; move {kind} before it"
        elif besides := sent_besides(scenario, links, client, shapes):
            text = f"{kind} noises the update, and {besides} as well"
            yield link.path, f"{text}; use a method and a model whose clients send it alone"
