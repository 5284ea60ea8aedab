"""Rules that move frozen weights by what the clients' adapters learned, and what cannot work so."""

from typing import Any

import jax

from fedsim import tree
from fedsim.assemble.links import Link
from fedsim.assemble.problems import Findings
from fedsim.assemble.programs import Training
from fedsim.assemble.wire import remembers
from fedsim.engine.frozen import adapter_leaves
from fedsim.scenario.scenario import Scenario
from fedsim.types import BASE, LOW_RANK, MERGED, Model, Shared

WHY = "clients begin every round with new adapters"


def merges(rule: Link | None) -> bool:
    """Return whether a rule moves frozen weights."""
    return rule is not None and bool(rule.made.adapter.merges)


def unmergeable(scenario: Scenario, rule: Link, model: Model, travelling: Any) -> Findings:
    """A model whose weights the rule cannot move by A B alone.

    Args:
      scenario: as read.
      rule: the rule.
      model: the model.
      travelling: shapes of the variables that travel.
    """
    adapter = model.adapter
    if not merges(rule) or adapter is None:
        return
    kind = scenario.spec.model.adapter.kind
    others = [leaf for leaf in adapter.leaves if leaf not in LOW_RANK]
    if others and set(LOW_RANK) <= set(adapter.leaves):
        text = f"{rule.section.kind} adds A B to the weights, and {kind} has {others[0]} besides"
        yield rule.path, f"{text}; use the adapter lora, or how: product"
    trained = [name for name in tree.leaf_names(travelling["params"]) if name.endswith(BASE)]
    if trained:
        text = f"names {trained[0]}, which {rule.section.kind} moves"
        yield ("model", "train"), f"{text}; leave it out, or use how: product"


def remembered_adapters(scenario: Scenario, trained: Training, shared: Shared) -> Findings:
    """A client method that goes on with the adapter of an earlier round; `shared`: shapes."""
    if MERGED not in shared:
        return
    spec = scenario.spec
    row = jax.eval_shape(trained.client.memory, shared, jax.eval_shape(jax.random.key, 0))
    names = {part for name in tree.leaf_names((row, shared["aux"])) for part in name.split(".")}
    if names & set(LOW_RANK):
        culprit = "optimizer_state" if spec.client.optimizer_state == "carry" else "kind"
        remedy = "use a method without memory, as sgd or fedprox, or another how"
        yield ("client", culprit), f"what it remembers is of adapters, and {WHY}; {remedy}"


def beside_merging(scenario: Scenario, rule: Link | None, links: list[Link]) -> Findings:
    """Sections and links that compare updates of several rounds, or send whole models."""
    if not merges(rule):
        return
    spec = scenario.spec
    if spec.broadcast:
        text = "clients receive what was added to the weights"
        yield ("broadcast",), f"{text}, and a codec encodes a model; remove it, or use another how"
    if spec.schedule.kind != "sync":
        text = f"{spec.schedule.kind} has clients with several models"
        yield ("schedule",), f"{text}, and {WHY}; use schedule: sync, or another how"
    if spec.evaluate.diagnostics:
        text = "diagnostics compare updates with the aggregate, which is of other leaves here"
        yield ("evaluate", "diagnostics"), f"{text}; remove it, or use another how"
    for link in links:
        if remembers(link.made):
            text = f"{link.section.kind} remembers a client's last message"
            yield link.path, f"{text}, and {WHY}; remove it, or use another how"


def bytes_down_of_merging(shared: Shared, travelling: Any, messages: int) -> int:
    """Return the bytes that a client receives who was there in the round before.

    Args:
      shared: shapes of the start variables.
      travelling: shapes of those that travel.
      messages: of a round.
    """
    pairs = tree.payload_bytes(adapter_leaves(travelling["params"], shared[MERGED]))
    weights = tree.payload_bytes(shared[MERGED])
    return tree.payload_bytes(travelling) - pairs + min(messages * pairs, weights)
