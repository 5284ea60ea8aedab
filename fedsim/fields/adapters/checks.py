"""What cannot work with adapters, and with rules that are about them."""

from typing import Any

from fedsim import tree
from fedsim.assemble.facts import Facts
from fedsim.assemble.links import Link
from fedsim.assemble.problems import Findings
from fedsim.assemble.section_traits import voice_of_frozen_leaves
from fedsim.assemble.traits import SILENT, Voice
from fedsim.fields.adapters.downlink import adapter_leaves
from fedsim.types import BASE, LOW_RANK, MERGED, Shared

WHY = "clients begin every round with new adapters"


def merges(rule: Link | None) -> bool:
    """Return whether a rule moves frozen weights."""
    return rule is not None and bool(rule.made.adapter.merges)


def adapter_voice(facts: Facts) -> Voice:
    """An adapter, next to which all leaves are frozen."""
    section = facts.spec.model
    if section.adapter is None or section.freeze or section.train:
        return SILENT
    return voice_of_frozen_leaves()


def leaves_of_rule(facts: Facts) -> Findings:
    """A rule about leaves of an adapter, where the model has none or clients do not send them."""
    link = facts.rule
    if link is None or not link.made.adapter.leaves:
        return
    adapter = link.made.adapter
    kind = link.section.kind
    leaves = " and ".join(adapter.leaves)
    if facts.spec.model.adapter is None:
        text = f"{kind} is about {leaves}, and the model has no adapter"
        yield link.path, f"{text}; write model: {{adapter: lora}}, or use mean"
        return
    sent = {name.split(".")[-1] for name in tree.leaf_names(facts.travelling["params"])}
    missing = [leaf for leaf in adapter.leaves if leaf not in sent]
    if missing:
        text = f"{kind} is about {leaves}, and clients send no {missing[0]}"
        yield link.path, f"{text}; use mean, or train and share it"
    if len(adapter.freezes) == 1:
        patterns = adapter.freezes[0]
        trained = [name for name in sorted(sent) if tree.matches_any(name, patterns)]
        if trained:
            text = f"names {trained[0]}, which {kind} freezes"
            yield ("model", "train"), f"{text}; remove it, or use another rule"


def unmergeable(facts: Facts) -> Findings:
    """A model whose weights the rule cannot move by A B alone."""
    rule = facts.rule
    adapter = facts.model.adapter
    if not merges(rule) or adapter is None:
        return
    kind = facts.spec.model.adapter.kind
    others = [leaf for leaf in adapter.leaves if leaf not in LOW_RANK]
    if others and set(LOW_RANK) <= set(adapter.leaves):
        text = f"{rule.section.kind} adds A B to the weights, and {kind} has {others[0]} besides"
        yield rule.path, f"{text}; use the adapter lora, or how: product"
    names = tree.leaf_names(facts.travelling["params"])
    trained = [name for name in names if name.endswith(BASE)]
    if trained:
        text = f"names {trained[0]}, which {rule.section.kind} moves"
        yield ("model", "train"), f"{text}; leave it out, or use how: product"


def remembered_adapters(facts: Facts) -> Findings:
    """A client method that goes on with the adapter of an earlier round."""
    shared = facts.shapes
    if MERGED not in shared:
        return
    names = {
        part for name in tree.leaf_names((facts.row, shared["aux"])) for part in name.split(".")
    }
    if names & set(LOW_RANK):
        culprit = "optimizer_state" if facts.spec.client.optimizer_state == "carry" else "kind"
        remedy = "use a method without memory, as sgd or fedprox, or another how"
        yield ("client", culprit), f"what it remembers is of adapters, and {WHY}; {remedy}"


def bytes_down_of_merging(shared: Shared, travelling: Any, messages: int) -> int:
    """Return the bytes that a client receives who was there in the round before."""
    pairs = tree.payload_bytes(adapter_leaves(travelling["params"], shared[MERGED]))
    weights = tree.payload_bytes(shared[MERGED])
    return tree.payload_bytes(travelling) - pairs + min(messages * pairs, weights)
