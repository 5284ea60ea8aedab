"""`client.width` and `client.rank`: clients that train a part, and what cannot work with that."""

from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim.assemble.links import Link
from fedsim.assemble.problems import Findings
from fedsim.assemble.wire import remembers
from fedsim.clients.submodels import Widths
from fedsim.engine.frozen import merged_section, without_frozen
from fedsim.engine.shared_leaves import bytes_without_part
from fedsim.fleet import levels
from fedsim.fleet.levels import Levels
from fedsim.scenario.scenario import Scenario
from fedsim.types import LOW_RANK, Client, Codec, Model, RowStage, Rule, Shared

WIDTH = ("client", "width")
RANK = ("client", "rank")
# Attributes of a client method that do not tell what it sends or remembers; `aux` is looked at.
HARMLESS = {"aux", "needs"}
ASSIGN = {"by_speed": levels.by_speed, "listed": levels.listed, "uniform": levels.uniform}

# Multiplications that a step makes for a number: forward, back to the activations, its gradient.
OF_FROZEN = 2
OF_TRAINED = 3


class _Parts(NamedTuple):
    """What a client section says about parts."""

    path: tuple[str, str]
    kind: str  # who has which
    values: list[Any]  # widths, or ranks

    @property
    def key(self) -> str:
        return ".".join(self.path)


def _parts_of(section: Any) -> _Parts | None:
    """The parts of a client section; None: everybody trains the whole model."""
    if section.width is not None:
        return _Parts(WIDTH, section.width.kind, section.width.widths)
    if section.rank is not None:
        return _Parts(RANK, section.rank.kind, section.rank.ranks)
    return None


def levels_of(section: Any) -> Levels | None:
    """Return who has which part, from a client section; None: everybody trains the whole model."""
    parts = _parts_of(section)
    if parts is None:
        return None
    _, name = parts.path
    return Levels(name, levels.sizes_of(parts.values), ASSIGN[parts.kind](parts.values))


def widths_of(section: Any) -> Widths | None:
    """Return how wide the sub-models of a client section are; None: there are none."""
    if section.width is None:
        return None
    width = section.width
    return Widths(
        levels.sizes_of(width.widths),
        rolls=width.window == "rolling",
        scaler=width.scaler,
        masked_loss=width.masked_loss,
    )


def ranks_of(section: Any) -> tuple[int, ...]:
    """Return the ranks of a client section, the largest first; empty: there are none."""
    return () if section.rank is None else tuple(sorted(set(section.rank.ranks), reverse=True))


def with_costs(sizes: Levels | None, client: Client, start: Any, params: Any) -> Levels | None:
    """Return the sizes with what each of them saves.

    Args:
      sizes: as `levels_of` returns them.
      client: the method, with its parts.
      start: shapes of the start variables.
      params: shapes of the parameters that travel.
    """
    if sizes is None or client.travel.part is None:
        return sizes
    left_out = bytes_without_part(client.travel.part, params)
    shared, frozen = without_frozen(start)
    merged = merged_section(shared)
    return sizes._replace(
        left_out=left_out,
        left_out_down=0 if merged else left_out,  # what is merged is sent whole
        work=_work(client, params, (frozen, merged)),
    )


def _work(client: Client, params: Any, frozen: Any) -> np.ndarray:
    """The share of the time of a local step, by level: that of its multiplications.

    Where nothing is frozen, it is that of the parameters.
    """
    assert client.travel.part is not None
    kept = np.sum(jax.tree.leaves(client.travel.part.kept(params)), axis=0)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(params))
    others = OF_FROZEN / OF_TRAINED * sum(leaf.size for leaf in jax.tree.leaves(frozen))
    return (kept + others) / (parameters + others)


def two_kinds_of_parts(scenario: Scenario) -> Findings:
    """Widths and ranks together."""
    client = scenario.spec.client
    if client.width is not None and client.rank is not None:
        text = "a client has a width or a rank of its own, not both"
        yield RANK, f"{text}; remove it, or client.width"


def unknown_levels(scenario: Scenario, N: int) -> Findings:
    """Parts of other clients than there are, and speeds that do not differ."""
    parts = _parts_of(scenario.spec.client)
    if parts is None:
        return
    values = f"{parts.path[-1]}s"
    if parts.kind == "listed" and len(parts.values) != N:
        text = f"{len(parts.values)} {values} for {N} clients"
        yield (*parts.path, values), f"{text}; write one per client, or kind: uniform"
    if parts.kind == "by_speed" and scenario.spec.fleet.speed is None:
        text = "all clients are equally fast"
        yield (*parts.path, "kind"), f"{text}; write fleet.speed, or kind: uniform"


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


def model_without_ranks(scenario: Scenario, model: Model) -> Findings:
    """Ranks without an adapter that has one, or above its own."""
    section = scenario.spec.client.rank
    if section is None:
        return
    adapter = model.adapter
    if adapter is None or not adapter.rank:
        text = "ranks are of adapters with a pair A B, and the model has none"
        yield RANK, f"{text}; write model: {{adapter: lora}}, or remove it"
    elif max(section.ranks) > adapter.rank:
        text = f"{max(section.ranks)} is more than model.adapter.rank {adapter.rank}"
        yield (*RANK, "ranks"), f"{text}, which is the server's; raise that, or lower it"


def method_without_parts(scenario: Scenario, client: Client, shared: Any) -> Findings:
    """A client method that sends or remembers more than an update of the whole model.

    Args:
      scenario: as read.
      client: the method.
      shared: shapes of the start variables.
    """
    spec = scenario.spec
    parts = _parts_of(spec.client)
    if parts is None or spec.topology is not None:  # which is refused as it is
        return
    kind = spec.client.kind
    if spec.client.dp_sgd is not None:
        text = "noise on gradients is for clients that train the whole model"
        yield parts.path, f"{text}; remove it, or client.dp_sgd"
    if spec.client.optimizer_state == "carry":
        text = "a client's optimizer would continue with other units"
        yield parts.path, f"{text}; remove it, or write optimizer_state: reset"
    elif does_more(client, shared):
        text = f"{kind} sends, keeps or measures more than an update of the model"
        yield parts.path, f"{text}; remove it, or use the method sgd or fedprox"


def does_more(client: Client, shared: Shared) -> bool:
    """Whether a method does more than to train what it receives and to send the difference."""
    client = client._replace(travel=client.travel._replace(stats="averaged"))
    for name, default in Client._field_defaults.items():
        if name not in HARMLESS and getattr(client, name) != default:
            return True
    row = jax.eval_shape(client.memory, shared, jax.eval_shape(jax.random.key, 0))
    return bool(jax.tree.leaves((row, shared["aux"])))


def sections_beside_parts(scenario: Scenario) -> Findings:
    """Sections that know whole models alone."""
    spec = scenario.spec
    parts = _parts_of(spec.client)
    if parts is None:
        return
    key = parts.key
    text = "clients train parts of the model"
    if spec.privacy is not None:
        yield ("privacy",), f"{text}, for which ε is not counted; remove it, or {key}"
    if spec.topology is not None:
        yield ("topology",), f"{text}, and nodes and edges mix whole ones; remove one of the two"
    if spec.schedule.kind != "sync":
        reason = f"{spec.schedule.kind} mixes updates of several rounds"
        yield ("schedule",), f"{text}, and {reason}; use schedule: sync, or remove {key}"
    if spec.broadcast:
        yield ("broadcast",), f"{text}, and a codec encodes all of it; remove it, or {key}"
    if spec.evaluate.diagnostics:
        yield (
            ("evaluate", "diagnostics"),
            f"{text}, and diagnostics compare whole updates; remove it, or {key}",
        )


def links_beside_parts(scenario: Scenario, all_links: list[Link]) -> Findings:
    """Links that look at several rows together, or at what no row has."""
    parts = _parts_of(scenario.spec.client)
    if parts is None:
        return
    key = parts.key
    text = "clients send parts of the model"
    for link in all_links:
        kind = link.section.kind
        if isinstance(link.made, Codec):
            yield link.path, f"{text}, and {kind} encodes all of it; remove it, or {key}"
        elif isinstance(link.made, Rule) and parts.path == RANK:
            if not _takes_ranks(link.made):
                reason = f"pairs of different ranks, and {kind} has no mean of these"
                yield link.path, f"clients send {reason}; use lora_mean(how=product)"
        elif isinstance(link.made, Rule) and kind != "mean":
            yield link.path, f"{text}, and {kind} compares whole updates; use mean"
        elif isinstance(link.made, Rule) and link.section.denominator != "actual":
            reason = "how many have each of its numbers is known of those that report"
            yield (*link.path, "denominator"), f"{text}, and {reason}; write actual"
        elif link.section.family in ("stage", "attack", "aggregate_stage") and not _is_row_wise(
            link
        ):
            yield link.path, f"{text}, and {kind} works on whole updates; remove it"


def _takes_ranks(rule: Rule) -> bool:
    """Whether a rule fills up pairs of lower ranks."""
    return set(LOW_RANK) <= set(rule.adapter.leaves) and not rule.adapter.freezes


def _is_row_wise(link: Link) -> bool:
    """Whether a link works on one message at a time, and remembers none."""
    return isinstance(link.made, RowStage) and not remembers(link.made)
