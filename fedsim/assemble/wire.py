"""What must hold for codecs on the wire, as checks like those of `feasibility`."""

from typing import Any

from fedsim.assemble.facts import Facts
from fedsim.assemble.links import Link
from fedsim.assemble.problems import Findings
from fedsim.compose import max_bytes
from fedsim.engine.footprint import coding_bytes
from fedsim.errors import OutOfMemoryError
from fedsim.limits import MAX_INTEGER, require_memory
from fedsim.scenario.scenario import Scenario
from fedsim.types import Codec, Rule, forgetful, no_row


def second_codec(facts: Facts) -> Findings:
    """A second codec: a message is encoded once."""
    codecs = []
    for link in facts.links:
        if link.section.family == "codec" or isinstance(link.made, Codec):
            codecs.append(link)
    for link in codecs[1:]:
        text = f"{link.section.kind} is a second codec, after {codecs[0].section.kind}"
        nested = "top_k(values: ...) for the values that a sparsifier keeps"
        memory = "error_feedback(codec: ...) for a memory"
        remedy = f"remove one, or write one into the other: {nested}, {memory}"
        yield link.path, f"{text}; a message is encoded once, {remedy}"


def works_on_nothing(link: Link) -> bool:
    """Whether a link does no harm where clients send no parameters."""
    return link.section.kind == "mean" or link.section.family == "optimizer"


def check_size(scenario: Scenario, link: Link, params: Any) -> None:
    """Refuse a codec whose messages have too many bytes to count or to encode."""
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
