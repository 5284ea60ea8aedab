"""`client.width`: clients that train a part of the model, and what cannot work with that."""

from typing import Any

import jax
import numpy as np

from fedsim.assemble.links import Link
from fedsim.assemble.problems import Findings
from fedsim.assemble.wire import remembers
from fedsim.clients.submodels import Widths
from fedsim.engine.shared_leaves import bytes_without_part
from fedsim.fleet import levels
from fedsim.fleet.levels import Levels
from fedsim.scenario.scenario import Scenario
from fedsim.types import Client, Codec, Model, RowStage, Rule, Shared

WIDTH = ("client", "width")
# Attributes of a client method that do not tell what it sends or remembers; `aux` is looked at.
HARMLESS = {"aux", "needs", "unused", "solo", "stats"}
ASSIGN = {"by_speed": levels.by_speed, "listed": levels.listed, "uniform": levels.uniform}


def levels_of(section: Any) -> Levels | None:
    """Return who has which width, from a client section; None: everybody trains the whole model."""
    if section.width is None:
        return None
    values = section.width.widths
    return Levels(levels.sizes_of(values), ASSIGN[section.width.kind](values))


def widths_of(section: Any) -> Widths | None:
    """Return how wide the parts of a client section are; None: everybody trains the whole model."""
    if section.width is None:
        return None
    width = section.width
    return Widths(
        levels.sizes_of(width.widths),
        rolls=width.window == "rolling",
        scaler=width.scaler,
        masked_loss=width.masked_loss,
    )


def with_costs(sizes: Levels | None, client: Client, params: Any) -> Levels | None:
    """Return the sizes with what each of them saves.

    Args:
      sizes: as `levels_of` returns them.
      client: the method, with its parts.
      params: shapes of the parameters.
    """
    if sizes is None or client.part is None:
        return sizes
    kept = np.sum(jax.tree.leaves(client.part.kept(params)), axis=0)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(params))
    return sizes._replace(
        left_out=bytes_without_part(client.part, params),
        work=kept / parameters,
    )


def unknown_widths(scenario: Scenario, N: int) -> Findings:
    """Widths of other clients than there are, and speeds that do not differ."""
    section = scenario.spec.client.width
    if section is None:
        return
    if section.kind == "listed" and len(section.widths) != N:
        text = f"{len(section.widths)} widths for {N} clients"
        yield (*WIDTH, "widths"), f"{text}; write one per client, or kind: uniform"
    if section.kind == "by_speed" and scenario.spec.fleet.speed is None:
        text = "all clients are equally fast"
        yield (*WIDTH, "kind"), f"{text}; write fleet.speed, or kind: uniform"


def loss_without_classes(scenario: Scenario, classes: int, per_token: bool) -> Findings:
    """A masked loss of targets that no client can lack."""
    section = scenario.spec.client.width
    if section is not None and section.masked_loss and (per_token or not classes):
        text = "a loss is masked by the classes that a client lacks, and every sample has one"
        yield (*WIDTH, "masked_loss"), f"{text}; remove it, or use data with labels of samples"


def model_without_parts(scenario: Scenario, model: Model) -> Findings:
    """A model that cannot be cut, or of which not everything is trained."""
    if scenario.spec.client.width is None:
        return
    section = scenario.spec.model
    if section.freeze or section.train or section.adapter is not None:
        text = "parts are of models of which everything is trained"
        yield WIDTH, f"{text}; remove it, or freeze, train and adapter of the model"
    elif not model.hidden:
        text = "parts are known of the models mlp, cnn and lenet"
        yield WIDTH, f"{text}; use one of them, or remove it"


def method_without_parts(scenario: Scenario, client: Client, shared: Any) -> Findings:
    """A client method that sends or remembers more than an update of the whole model.

    Args:
      scenario: as read.
      client: the method.
      shared: shapes of the start variables.
    """
    spec = scenario.spec
    if spec.client.width is None or spec.topology is not None:  # which is refused as it is
        return
    kind = spec.client.kind
    if spec.client.dp_sgd is not None:
        text = "noise on gradients is for clients that train the whole model"
        yield WIDTH, f"{text}; remove it, or client.dp_sgd"
    if spec.client.optimizer_state == "carry":
        text = "a client's optimizer would continue with other units"
        yield WIDTH, f"{text}; remove it, or write optimizer_state: reset"
    elif _does_more(client, shared):
        text = f"{kind} sends, keeps or measures more than an update of the model"
        yield WIDTH, f"{text}; remove it, or use the method sgd or fedprox"


def _does_more(client: Client, shared: Shared) -> bool:
    """Whether a method does more than to train what it receives and to send the difference."""
    for name, default in Client._field_defaults.items():
        if name not in HARMLESS and getattr(client, name) != default:
            return True
    row = jax.eval_shape(client.memory, shared, jax.eval_shape(jax.random.key, 0))
    return bool(jax.tree.leaves((row, shared["aux"])))


def sections_beside_parts(scenario: Scenario) -> Findings:
    """Sections that know whole models alone."""
    spec = scenario.spec
    if spec.client.width is None:
        return
    text = "clients train parts of the model"
    if spec.privacy is not None:
        yield ("privacy",), f"{text}, for which ε is not counted; remove it, or client.width"
    if spec.topology is not None:
        yield ("topology",), f"{text}, and nodes and edges mix whole ones; remove one of the two"
    if spec.schedule.kind != "sync":
        reason = f"{spec.schedule.kind} mixes updates of several rounds"
        yield ("schedule",), f"{text}, and {reason}; use schedule: sync, or remove client.width"
    if spec.broadcast:
        yield ("broadcast",), f"{text}, and a codec encodes all of it; remove it, or client.width"
    if spec.evaluate.diagnostics:
        yield (
            ("evaluate", "diagnostics"),
            f"{text}, and diagnostics compare whole updates; remove it, or client.width",
        )


def links_beside_parts(scenario: Scenario, all_links: list[Link]) -> Findings:
    """Links that look at several rows together, or at what no row has."""
    if scenario.spec.client.width is None:
        return
    text = "clients send parts of the model"
    for link in all_links:
        kind = link.section.kind
        if isinstance(link.made, Codec):
            yield link.path, f"{text}, and {kind} encodes all of it; remove it, or client.width"
        elif isinstance(link.made, Rule) and kind != "mean":
            yield link.path, f"{text}, and {kind} compares whole updates; use mean"
        elif isinstance(link.made, Rule) and link.section.denominator != "actual":
            reason = "how many have each of its numbers is known of those that report"
            yield (*link.path, "denominator"), f"{text}, and {reason}; write actual"
        elif link.section.family in ("stage", "attack", "aggregate_stage") and not _is_row_wise(
            link
        ):
            yield link.path, f"{text}, and {kind} works on whole updates; remove it"


def _is_row_wise(link: Link) -> bool:
    """Whether a link works on one message at a time, and remembers none."""
    return isinstance(link.made, RowStage) and not remembers(link.made)
