"""What a broadcast cannot work with."""

from collections.abc import Iterator

from fedsim.assemble.facts import Facts
from fedsim.assemble.link_traits import needs_messages
from fedsim.assemble.problems import Findings
from fedsim.assemble.traits import Reason, Voice
from fedsim.types import Codec

NOUNS = (
    "server",
    "messages",
    "rounds",
    "one_model",
    "changes",
    "whole_messages",
    "server_leaves",
)


def broadcast_voices(facts: Facts) -> Iterator[Voice]:
    """The section `broadcast`, where it is written."""
    if facts.spec.broadcast:
        text = "a broadcast encodes the model for all clients of a round"
        needs = [Reason(noun, text) for noun in NOUNS]
        yield Voice(("broadcast",), "remove broadcast", needs, [])


def codec_voices(facts: Facts) -> Iterator[Voice]:
    """The links of `broadcast`."""
    for link in facts.broadcast:
        yield Voice(link.path, f"remove {link.section.kind}", list(needs_messages(link)), [])


def no_downlink(facts: Facts) -> Findings:
    """Codecs for updates that mean nothing between one model and the next."""
    for link in facts.broadcast:
        kind = link.section.kind
        codec = link.made
        if kind == "error_feedback":
            text = f"{kind} adds what it left out of one model to the next one"
            reason = "clients would train from the sum"
            remedy = f"use ef21(codec: {link.section.codec.kind}), which sends differences"
            yield link.path, f"{text}, and {reason}; {remedy}, or the codec alone"
        elif isinstance(codec, Codec) and codec.server is not None:
            text = f"{kind} with k has a memory behind the rule, and a broadcast has no rule"
            yield link.path, f"{text}; leave k out"
        elif isinstance(codec, Codec) and codec.wraps is not None:
            text = f"{kind} hides messages in their sum, and a broadcast is a single message"
            yield link.path, f"{text}; use another codec, such as stochastic_quantise"
