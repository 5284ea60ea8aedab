"""Privacy: what must hold for ε to be true, as checks like those of `feasibility`.

ε counts what leaves the clients as one sum of clipped updates a round, with noise on it. Whatever
else would leave them, or would make one client's data move more than its own update, is refused.
"""

from fedsim.assemble.facts import Facts
from fedsim.assemble.links import Link, factory_of
from fedsim.assemble.problems import Findings
from fedsim.assemble.traits import SILENT, Reason, Voice
from fedsim.fields.privacy.counting.records import DISTRIBUTED
from fedsim.fields.privacy.keys import PRIVATE_MEAN
from fedsim.fields.privacy.mechanism import Mechanism
from fedsim.types import RowStage

# Mechanisms that the accountant knows.
MECHANISMS = ("gaussian", "tree", "banded", "blt", *DISTRIBUTED)

PATH = ("privacy",)


def with_noised_codec(facts: Facts, links: list[Link]) -> list[Link]:
    """Return the links that messages pass, with the codec by which clients add noise, if any."""
    privacy = facts.spec.privacy
    if privacy is None or privacy.mechanism.kind not in DISTRIBUTED:
        return links
    mechanism: Mechanism = factory_of(privacy.mechanism)()
    assert mechanism.wire is not None
    codec = Link(("privacy", "mechanism"), privacy.mechanism, mechanism.wire(1.0, 0.0)[-1])
    first = len(facts.spec.wire)
    return [*links[:first], codec, *links[first:]]


def privacy_voice(facts: Facts) -> Voice:
    """Privacy of clients."""
    if facts.spec.privacy is None:
        return SILENT
    voice = voice_of_privacy()
    mechanism = facts.spec.privacy.mechanism.kind
    if mechanism in DISTRIBUTED:
        text = f"{mechanism} sums messages as integers before the server sees any"
        voice.takes.append(Reason("rows", text))
    return voice


def voice_of_privacy() -> Voice:
    """Privacy of clients, whatever its noise."""
    noises = "privacy adds noise to the mean of the updates alone"
    whole = "epsilon is counted for updates of one whole model"
    summed = "write privacy.mechanism: distributed_skellam in place of it, or remove privacy"
    needs = [
        Reason("server", "privacy noises the mean of a server"),
        Reason("one_model", whole),
        Reason("whole_messages", whole),
        Reason("changes", "privacy clips what clients send"),
        Reason("federation", "privacy noises what clients send", at_taker=True),
        Reason("mean", "privacy bounds how far one client moves a mean", at_taker=True),
        Reason("noised_mean", noises, at_taker=True),
        Reason("update_alone", noises, at_taker=True),
        Reason("rows", "privacy clips every update before the sum", summed, at_taker=True),
        Reason("counted_draws", "epsilon is counted for rounds of a cohort", at_taker=True),
    ]
    text = "epsilon does not cover earlier updates that leave with later ones"
    return Voice(PATH, "remove privacy", needs, [Reason("message_memory", text)])


def private_mean(facts: Facts) -> Findings:
    """A mean whose weights depend on the samples or on who came."""
    rule = facts.rule
    if facts.spec.privacy is None or rule is None or rule.section.kind != "mean":
        return
    reasons = {
        "weights": "a client's weight would depend on its data",
        "denominator": "a client's share would depend on who else came",
    }
    for name, wanted in PRIVATE_MEAN.items():
        value = getattr(rule.section, name)
        if value != wanted:
            yield (*rule.path, name), f"is {value}, and {reasons[name]}; write {wanted}"


def unknown_mechanism(facts: Facts) -> Findings:
    """Noise that no accountant knows."""
    privacy = facts.spec.privacy
    if privacy is not None and privacy.mechanism.kind not in MECHANISMS:
        text = f"no accountant knows {privacy.mechanism.kind}"
        yield ("privacy", "mechanism"), f"{text}; use {', '.join(MECHANISMS)}"


def second_codec(facts: Facts) -> Findings:
    """A codec on the wire, where clients add their noise by one."""
    privacy = facts.spec.privacy
    if privacy is None or privacy.mechanism.kind not in DISTRIBUTED:
        return
    codecs = [section.kind for section in facts.spec.wire if section.family == "codec"]
    if codecs:
        text = f"{privacy.mechanism.kind} is a second codec, after {codecs[0]}"
        yield ("privacy", "mechanism"), f"{text}; a message is encoded once, remove one"


def private_numbers(facts: Facts) -> Findings:
    """Messages that are not finite, which no clip bounds."""
    spec = facts.spec
    if spec.privacy is not None and spec.on_nonfinite != "drop":
        text = f"{spec.on_nonfinite} makes the run depend on one message without bound"
        yield ("on_nonfinite",), f"{text}; write drop"


def local_message(facts: Facts) -> Findings:
    """Noise of clients that is not on their messages."""
    links = facts.links
    for i, link in enumerate(links):
        kind = link.section.kind
        if not (isinstance(link.made, RowStage) and link.made.noises):
            continue
        encoded = [before.section for before in links[:i] if before.section.family == "codec"]
        if link.path[0] == "server":
            text = f"{kind} is noise of the clients, and at the server it protects nothing"
            yield link.path, f"{text}; move it into wire"
        elif encoded:
            text = f"what {encoded[0].kind} encodes is noised first"
            yield link.path, f"{text}; move {kind} before it"
