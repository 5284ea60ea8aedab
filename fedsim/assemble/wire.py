"""What must hold for codecs on the wire, as checks like those of `feasibility`."""

from typing import Any

from fedsim.assemble.links import Link
from fedsim.assemble.problems import Findings
from fedsim.compose import max_bytes
from fedsim.engine.footprint import coding_bytes
from fedsim.errors import OutOfMemoryError
from fedsim.fleet import Cohort
from fedsim.limits import MAX_INTEGER, require_memory
from fedsim.scenario.scenario import Scenario
from fedsim.types import Client, Codec, Rule, forgetful, no_row, reported


def second_codec(links: list[Link]) -> Findings:
    """A second codec: a message is encoded once."""
    codecs = []
    for link in links:
        if link.section.family == "codec" or isinstance(link.made, Codec):
            codecs.append(link)
    for link in codecs[1:]:
        text = f"{link.section.kind} is a second codec, after {codecs[0].section.kind}"
        nested = "top_k(values: ...) for the values that a sparsifier keeps"
        memory = "error_feedback(codec: ...) for a memory"
        remedy = f"remove one, or write one into the other: {nested}, {memory}"
        yield link.path, f"{text}; a message is encoded once, {remedy}"


def forgotten(scenario: Scenario, link: Link, client: Client) -> Findings:
    """A stage that remembers one message a round, with a method that sends two.

    A rule that remembers sees the second message alone.
    """
    sends_two = client.probe is not None
    if sends_two and remembers(link.made) and not isinstance(link.made, Rule):
        kind = scenario.spec.client.kind
        text = f"{link.section.kind} remembers one message of a client"
        reason = f"{kind} sends two a round, a gradient at the shared model first"
        yield link.path, f"{text}, and {reason}; use another method, or leave it out"


def no_downlink(link: Link) -> Findings:
    """A codec for updates that means nothing between one model and the next."""
    section = link.section
    kind = section.kind
    if kind == "error_feedback":
        text = f"{kind} adds what it left out of one model to the next one"
        remedy = f"use ef21(codec: {section.codec.kind}), which sends differences"
        yield (
            link.path,
            f"{text}, and clients would train from the sum; {remedy}, or the codec alone",
        )
    elif isinstance(link.made, Codec) and link.made.server is not None:
        text = f"{kind} with k has a memory behind the rule, and a broadcast has no rule"
        yield link.path, f"{text}; leave k out"
    elif isinstance(link.made, Codec) and link.made.wraps is not None:
        text = f"{kind} hides messages in their sum, and a broadcast is a single message"
        yield link.path, f"{text}; use another codec, such as stochastic_quantise"


def works_on_nothing(link: Link) -> bool:
    """Whether a link does no harm where clients send no parameters."""
    return link.section.kind == "mean" or link.section.family == "optimizer"


def undiagnosed(scenario: Scenario) -> Findings:
    """Diagnostics of updates, where clients send no parameters."""
    if scenario.spec.evaluate.diagnostics:
        text = f"diagnostics compare updates, and {scenario.spec.client.kind} sends none"
        yield ("evaluate", "diagnostics"), f"{text}; remove it, or use another method"


def without_parameters(scenario: Scenario, link: Link) -> Findings:
    """A link that works on parameters, of which the method sends none."""
    kind = link.section.kind
    reason = f"{scenario.spec.client.kind} sends none"
    remedy = "use the rule mean" if isinstance(link.made, Rule) else "remove it"
    yield link.path, f"{kind} works on parameters, and {reason}; {remedy}"


def check_size(scenario: Scenario, link: Link, params: Any) -> None:
    """Refuse a codec whose messages have too many bytes to count or to encode.

    Args:
      scenario: whose document knows the link's place in the file.
      link: any link; one that is not a codec passes.
      params: shapes of the parameters that a message has.

    Raises:
      ScenarioTooLargeError: for a message whose size does not fit into an int32, or whose arrays
        do not fit into memory.
    """
    codec = link.made
    kind = link.section.kind
    if not isinstance(codec, Codec):
        return

    message_bytes = max_bytes(codec, params)
    if message_bytes > MAX_INTEGER:
        text = f"{kind}: a message of {message_bytes} bytes; at most {MAX_INTEGER} can be counted"
        raise scenario.too_large(link.path, f"{text}; make it smaller")
    try:
        require_memory(codec=coding_bytes(codec, params))
    except OutOfMemoryError as error:
        raise scenario.too_large(link.path, f"{kind}: {error}; make it smaller") from None


def remembers(made: Any) -> bool:
    """Whether a link stores a row for every client."""
    if isinstance(made, Rule):
        return made.before is not None and remembers(made.before)
    nothing = no_row if isinstance(made, Codec) else forgetful
    return getattr(made, "memory", nothing) is not nothing


def sums_rows(rule: Rule) -> bool:
    """Whether a rule sums rows as they are, so that it may sum what they are encoded as."""
    return rule.fold is not None and rule.fold.linear and rule.before is None


def linear_partners(links: list[Link]) -> Findings:
    """Links behind a linear codec that do more than sum its payloads."""
    index = _index_of_linear_codec(links)
    if index is None:
        return
    kind = links[index].section.kind
    reason = f"{kind} sends their payloads, which are decoded as a sum behind the rule"

    for link in links[index + 1 :]:
        text = f"{link.section.kind} works on updates, and {reason}"
        if link.section.family in ("stage", "attack"):
            yield link.path, f"{text}; remove it, or put it before the codec"
        if isinstance(link.made, Rule) and not sums_rows(link.made):
            remedy = "use the rule mean, or a codec that is decoded row by row"
            yield link.path, f"{text}; {remedy}"


def whole_messages(
    scenario: Scenario, links: list[Link], cohort: Cohort, client: Client, shapes: Any
) -> Findings:
    """What a server that sees a sum of integers alone cannot do to the messages in it.

    Args:
      scenario: the scenario.
      links: of wire and server.
      cohort: how clients are drawn.
      client: the client method.
      shapes: of the start variables.
    """
    index = _index_of_linear_codec(links)
    if index is None or links[index].made.wraps is None:
        return
    codec = links[index]
    spec = scenario.spec
    kind = codec.section.kind

    for link in links[index + 1 :]:
        made = link.made
        if isinstance(made, Rule) and sums_rows(made) and made.weights is not reported:
            text = f"{link.section.kind} weighs messages, and {kind} shows the server none of them"
            path = link.path
            if link.section.kind == "mean":
                path = (*path, "weights")
            yield path, f"{text}; use mean(weights: uniform)"
    if cohort.factors:
        text = f"{spec.cohort.kind} weighs messages, and {kind} shows the server none of them"
        yield ("cohort",), f"{text}; use another cohort, such as uniform"
    if spec.schedule.kind != "sync":
        text = f"{spec.schedule.kind} takes messages one by one, and {kind} sums those of a round"
        yield ("schedule",), f"{text}; use schedule: sync"
    if spec.on_nonfinite == "keep":
        text = f"no integer of {kind} stands for a number that is not finite"
        yield ("on_nonfinite",), f"{text}; write drop or stop"
    if besides := sent_besides(scenario, links, client, shapes):
        text = f"{kind} sums the updates, and {besides} as well"
        yield codec.path, f"{text}; use a method and a model whose clients send it alone"


def sent_besides(scenario: Scenario, links: list[Link], client: Client, shapes: Any) -> str:
    """Return what a client sends besides its update, in words; empty if it is nothing."""
    method = scenario.spec.client.kind
    if client.probe is not None:
        return f"{method} sends a gradient at the shared model"
    sent = [name for name, how in client.reduce.items() if isinstance(how, str)]
    if sent:
        return f"{method} sends {', '.join(sent)}"
    if shapes["stats"]:
        return f"clients send batch statistics of {scenario.spec.model.kind}"
    for link in links:
        if isinstance(link.made, Rule) and "loss" in link.made.needs:
            return f"clients send {link.section.kind} their loss"
    return ""


def _index_of_linear_codec(links: list[Link]) -> int | None:
    for i, link in enumerate(links):
        if isinstance(link.made, Codec) and link.made.linear:
            return i
    return None
