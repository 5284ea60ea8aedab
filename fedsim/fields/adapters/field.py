"""What adapters add to how a scenario is checked and built."""

import functools
from collections.abc import Hashable
from typing import Any, NamedTuple

from fedsim.assemble.facts import Facts
from fedsim.assemble.links import factory_of
from fedsim.assemble.message_bytes import bytes_up
from fedsim.assemble.programs import MAX_CACHED, partly_frozen
from fedsim.assemble.section_keys import HashableSection
from fedsim.engine.downlink import Downlink
from fedsim.engine.server import Server
from fedsim.field import Field
from fedsim.fields.adapters import checks
from fedsim.fields.adapters.adapted import adapted, begun_anew, merged
from fedsim.fields.adapters.beginning_anew import beginning_anew
from fedsim.fields.adapters.downlink import MergedDownlink
from fedsim.fields.adapters.in_turns import in_turns
from fedsim.fleet import Plan
from fedsim.tree import Tree
from fedsim.types import MERGED, AdapterLeaves, Client, Model, Rule, Shared


class Rounds(NamedTuple):
    """What a rule makes of the rounds of clients, as a key."""

    turns: tuple[tuple[str, ...], ...]  # leaves that nobody trains, for rounds in turn
    anew: bool  # whether clients begin with new adapters


def _of_rule(rule: Rule | None) -> AdapterLeaves:
    return AdapterLeaves() if rule is None else rule.adapter


def _method(spec: Any, rule: Rule | None) -> Hashable:
    leaves = _of_rule(rule)
    rounds = Rounds(leaves.freezes if len(leaves.freezes) > 1 else (), bool(leaves.merges))
    return None if rounds == Rounds((), anew=False) else rounds


def _client(method: Client, rounds: Rounds, model: Model) -> Client:
    if rounds.turns:
        method = in_turns(method, rounds.turns)
    adapter = model.adapter
    if rounds.anew and adapter is not None:
        draw = lambda shared, key: begun_anew(shared, adapter, key)
        method = beginning_anew(method, draw, adapter.leaves)
    return method


@functools.lru_cache(MAX_CACHED)
def _with_adapter(model: Model, section: HashableSection) -> Model:
    """A model with the leaves of an adapter; cached, so that it is compiled once."""
    return adapted(model, factory_of(section.section)())


def _model(net: Model, section: Any, rule: Rule | None) -> Model | None:
    """The model with its adapter, whose leaves alone are trained unless `train` names others.

    The rule may freeze some of these for good, and have the server move frozen leaves.
    """
    if section.adapter is None:
        return None
    leaves = _of_rule(rule)
    freeze = section.freeze
    if len(leaves.freezes) == 1:
        freeze = [*(freeze or ()), *leaves.freezes[0]]
    net = _with_adapter(net, HashableSection(section.adapter))
    assert net.adapter is not None
    return partly_frozen(
        net,
        freeze=None if freeze is None else tuple(freeze),
        train=tuple(section.train or ()),
        adapter_leaves=net.adapter.leaves,
        merged=leaves.merges,
    )


def _merged(params: Tree, model: Model) -> Tree | None:
    return None if model.adapter is None else merged(params, model.adapter)


def _message_bytes(facts: Facts) -> tuple[int, int] | None:
    if not checks.merges(facts.rule):
        return None
    down = checks.bytes_down_of_merging(facts.shapes, facts.travelling, facts.K)
    return bytes_up(facts), down


def _downlink(server: Server, plan: Plan, shared: Shared) -> Downlink | None:
    if MERGED not in shared:
        return None
    return MergedDownlink(server.pipeline, shared, plan.federation.N)


FIELD = Field(
    voices=[checks.adapter_voice],
    calculations=[checks.leaves_of_rule, checks.unmergeable, checks.remembered_adapters],
    method=_method,
    client=_client,
    model=_model,
    merged=_merged,
    message_bytes=_message_bytes,
    downlink=_downlink,
)
