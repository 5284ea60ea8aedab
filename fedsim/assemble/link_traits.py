"""What links need, and what they take away: read from the entries of their records."""

from collections.abc import Iterator

from fedsim.assemble.facts import Facts
from fedsim.assemble.links import Link
from fedsim.assemble.problems import UNKNOWN
from fedsim.assemble.traits import Reason, Voice
from fedsim.assemble.wire import remembers, sums_rows, works_on_nothing
from fedsim.types import LOW_RANK, Aim, Codec, RowStage, Rule, Stage, reported

PRODUCT = "use lora_mean(how=product)"


def link_voices(facts: Facts) -> Iterator[Voice]:
    """The links of `wire` and `server`, in their order."""
    links = facts.links
    for i, link in enumerate(links):
        if link.made is not UNKNOWN:
            is_behind = link.path[0] != "wire" or any(map(_is_linear, links[:i]))
            yield voice_of_link(link, sees_payloads=is_behind)


def voice_of_link(link: Link, sees_payloads: bool = True) -> Voice:
    """A link alone.

    Args:
      sees_payloads: whether a linear codec may stand before it.
    """
    needs = list(needs_messages(link))
    if isinstance(link.made, Rule):
        needs += _rule_needs(link)
        return Voice(link.path, "use the rule mean", needs, list(_rule_takes(link)))
    if isinstance(link.made, Codec):
        needs += _codec_needs(link)
        instead = f"remove {link.section.kind}"
        return Voice(link.path, instead, needs, list(_codec_takes(link)))
    needs += _stage_needs(link, sees_payloads)
    return Voice(link.path, f"remove {link.section.kind}", needs, list(_stage_takes(link)))


def _is_linear(link: Link) -> bool:
    return isinstance(link.made, Codec) and link.made.linear


def needs_messages(link: Link) -> Iterator[Reason]:
    """Yield what all links but a mean and optimizers need: something to work on."""
    kind = link.section.kind
    if kind == "mean":
        return
    if link.path[0] == "server":
        yield Reason("messages", f"{kind} works on what clients send")
    if not works_on_nothing(link):
        yield Reason("parameters", f"{kind} works on parameters")


def _rule_needs(link: Link) -> Iterator[Reason]:
    rule = link.made
    kind = link.section.kind
    if len(rule.adapter.freezes) > 1:
        yield Reason("rounds", f"{kind} trains leaves in turn", PRODUCT)
    if "loss" in rule.needs:
        text = f"{kind} has a pass at the model of the round before training"
        yield Reason("rounds", text, path=link.path[:1])
    if remembers(rule):
        yield Reason("update_memory", f"{kind} remembers one update of every client")
    elif "expected" in rule.needs:
        text = f"{kind} divides by the clients of an average round"
        yield Reason("one_model", text, "write denominator: actual")
    elif rule.needs or rule.evaluated:
        yield Reason("one_model", f"{kind} is about one model")
    if not sums_rows(rule):
        yield Reason("rows", f"{kind} compares single updates")
    elif rule.weights is not reported:
        path = (*link.path, "weights") if kind == "mean" else ()
        text = f"{kind} weighs messages"
        yield Reason("seen_messages", text, "use mean(weights: uniform)", path)
    if kind != "mean":
        yield Reason("whole_rows", f"{kind} compares whole updates")
    if not set(LOW_RANK) <= set(rule.adapter.leaves) or rule.adapter.freezes:
        text = f"{kind} takes pairs of one rank"
        yield Reason("same_ranks", text, PRODUCT)
    if kind == "mean" and link.section.denominator != "actual":
        path = (*link.path, "denominator")
        text = f"{kind} expects the same clients for every number"
        yield Reason("whole_rows", text, "write denominator: actual", path)


def _rule_takes(link: Link) -> Iterator[Reason]:
    rule = link.made
    kind = link.section.kind
    if kind != "mean":
        yield Reason("mean", f"{kind} is no mean")
    if rule.fold is None and not remembers(rule):
        yield Reason("factors", f"{kind} is no sum in which an update counts twice or by a factor")
    if "loss" in rule.needs:
        yield Reason("update_alone", f"clients send {kind} their loss as well")
        yield Reason("noised_gradients", f"clients send {kind} the losses on their samples")
    if rule.adapter.merges:
        text = f"{kind} moves frozen weights and gives clients new adapters in every round"
        yield Reason("server_leaves", text, PRODUCT)
        yield Reason("message_memory", text, PRODUCT)


def _stage_needs(link: Link, sees_payloads: bool) -> Iterator[Reason]:
    kind = link.section.kind
    works_on_updates = link.section.family in ("stage", "attack")
    if remembers(link.made):
        yield Reason("message_memory", f"{kind} remembers one message of every client")
    if works_on_updates and sees_payloads:
        remedy = f"remove {kind}, or put it before the codec"
        yield Reason("rows", f"{kind} works on updates", remedy)
    if works_on_updates or link.section.family == "aggregate_stage":
        if not isinstance(link.made, RowStage) or remembers(link.made):
            yield Reason("whole_messages", f"{kind} works on whole updates")
    if isinstance(link.made, RowStage) and link.made.noises:
        yield Reason("update_alone", f"{kind} noises the update alone")


def _stage_takes(link: Link) -> Iterator[Reason]:
    kind = link.section.kind
    if isinstance(link.made, Stage | Aim):
        yield Reason("noised_mean", f"{kind} sees all updates, so that one client moves several")
    elif isinstance(link.made, RowStage) and link.made.after is not None:
        remedy = f"write privacy.clip: {{kind: adaptive}} in place of {kind}"
        yield Reason("noised_mean", f"{kind} learns from all updates without noise", remedy)
    if kind == "bucket":
        text = "bucket makes rows of several clients"
        yield Reason("update_memory", text, at_taker=True)


def _codec_needs(link: Link) -> Iterator[Reason]:
    kind = link.section.kind
    if link.path[0] == "wire":
        text = f"{kind} encodes updates of one shared model"
        yield Reason("server", text, f"write client: {{kind: choco, codec: {kind}}}")
    if remembers(link.made):
        yield Reason("message_memory", f"{kind} remembers one message of every client")
    yield Reason("whole_messages", f"{kind} encodes whole updates")
    if _hides_messages(link):
        yield Reason("update_alone", f"{kind} sums the updates alone")


def _codec_takes(link: Link) -> Iterator[Reason]:
    kind = link.section.kind
    if _hides_messages(link):
        text = f"{kind} sums messages as integers before the server sees any"
        yield Reason("seen_messages", text)
        yield Reason("rows", text)
    elif link.made.linear:
        text = f"{kind} sends payloads, which are decoded as a sum behind the rule"
        yield Reason("rows", text, "use a codec that is decoded row by row, such as top_k")


def _hides_messages(link: Link) -> bool:
    """Whether a codec sums messages as integers, so that the server sees none."""
    return link.made.linear and link.made.wraps is not None
