"""What a field adds to how a scenario is checked and built.

The types are imported for annotations alone: a field's module may be read before JAX is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fedsim.assemble.facts import Facts
    from fedsim.assemble.links import Link
    from fedsim.assemble.problems import Findings
    from fedsim.assemble.traits import Voice
    from fedsim.data import Federation
    from fedsim.engine.downlink import Downlink
    from fedsim.engine.forms import OneModel
    from fedsim.engine.lanes import Private
    from fedsim.engine.meters import Meter
    from fedsim.engine.meters.traffic import Traffic
    from fedsim.engine.observer import Observer
    from fedsim.engine.own_work import OwnWork
    from fedsim.engine.pipeline import Pipeline
    from fedsim.engine.program import Program
    from fedsim.engine.scoring.rows import Measures
    from fedsim.engine.sending import Sender
    from fedsim.engine.server import Server
    from fedsim.engine.server_records import ServerState
    from fedsim.fleet import Cohort, Plan
    from fedsim.fleet.plan import Conditions
    from fedsim.scenario.reader import KeyPath
    from fedsim.scenario.scenario import Scenario
    from fedsim.tree import Tree
    from fedsim.types import Client, Model, Rule, Shared

Speaker = Callable[["Facts"], "Voice | Iterable[Voice]"]
Calculation = Callable[["Facts"], "Findings"]


class Alteration(NamedTuple):
    """How a field changes the samples, once they are partitioned and skewed.

    Attributes:
      path: of its key.
      reads: other keys that it reads.
      alter: (scenario, federation, seed) -> the federation.
      decides: (spec) -> what decides the samples besides the section `data`.
    """

    path: KeyPath
    reads: Sequence[KeyPath]
    alter: Callable[[Scenario, Federation, int], Federation]
    decides: Callable[[Any], Any]


class ServerParts(NamedTuple):
    """What the program of a server is made of."""

    wire: list[Any]
    stages: list[Any]
    rule: Rule
    steps: list[Any]
    make: Callable[..., Any]  # the class of the program
    kept: list[Any]  # states on the device that only some servers have (`engine.close.Kept`)
    sender: Callable[[Pipeline], Sender]  # makes what the clients receive


class ServerSetting(NamedTuple):
    """What a field may know when it changes the parts of a server."""

    client: Client  # as the lanes run it
    width: int  # lanes
    drop: bool  # whether messages that are not finite are left out


class SeedSetting(NamedTuple):
    """What a field may know when it changes the conditions of a seed's plan."""

    scenario: Scenario
    federation: Federation
    seed: int
    planned: Any  # what the field's `planned` returned
    down: int  # the most bytes that a client receives in a round
    up: int  # the most bytes that it sends


class ProgramSetting(NamedTuple):
    """What a field may know when it adds something to a scenario's program."""

    spec: Any
    server: Server
    inputs: Any  # those of `programs.training`


class RunSetting(NamedTuple):
    """What a field may know when it adds meters to a run."""

    program: Program
    plan: Plan
    traffic: Traffic
    planned: Any  # what the field's `planned` returned


class ShareOfClients(NamedTuple):
    """A share of some clients that a scenario asks for.

    Attributes:
      path: where it is written.
      share: from 0 to 1.
      clients: how many it is a share of.
      count: how many it is.
    """

    path: KeyPath
    share: float
    clients: int
    count: int


def nothing(*arguments: Any) -> None:
    """Return None, as a field does that has nothing to add."""


def no_sections(spec: Any) -> dict[str, Any]:
    """Return nothing, as a field does whose sections are resolved as they are."""
    return {}


class Field(NamedTuple):
    """What a field adds, asked in the order of `fedsim.installed.fields`; every entry is optional.

    Attributes:
      voices: what its sections and kinds need and take away.
      calculations: what must hold between numbers.
      components: learns what its sections make, before samples are known.
      solved_before_model: keys that the check fills in before the model is made.
      solved_last: keys that it fills in once everything else is known.
      alteration: how it changes the samples; None: not at all.
      held_back: (section `data`) -> samples that the server keeps.
      attacks: path -> (spec) -> the kinds of what malicious clients do there.
      counts_models: keys that say how many models there are: none is made where one is refused.
      links: (spec) -> (path, section) of the links that stand in place of `server`; None: those of
        the section.
      served: (spec) -> sections of the links in the server's program; None: those of `server`.
      method: (spec, rule) -> what decides how it changes the method, as a key; None: not at all.
      client: (method, that key, model) -> the method.
      model: (model, its section, rule) -> the model of which some leaves are trained; None: those
        that the section names.
      merged: (parameters, model) -> those of the model without what the field adds to it, which is
        in its weights; None: it adds nothing.
      gradients: (client section) -> how gradients of single samples are made private; None: not.
      server: (spec) -> what decides how it changes the server's program, as a key.
      serves: (parts, that key, setting) -> the parts of the program.
      beside: (spec) -> name -> (server) -> variables that are scored beside the server's own, in
        columns `NAME/test_accuracy` and so on.
      measures: (spec, names of the classes) -> what is measured of a model's outputs on a set, in
        columns `test_NAME` and so on; None: nothing.
      cohort: (scenario, cohort, clients that can be drawn) -> the cohort that is drawn.
      planned: (facts) -> what it plans, of all seeds; None: nothing.
      conditions: (conditions, setting) -> those of a seed's plan; only where something is planned.
      passed: (facts, links of messages) -> those links with its own.
      message_bytes: (facts) -> the most bytes of a message up and down; None: as counted.
      form: (method, plan, variables at the start) -> the form of the server; None: another one.
      traffic: (plan) -> the class that counts messages; None: another one.
      own_work: (setting) -> what the server does by itself; None: nothing.
      observer: (setting) -> what looks on while clients train; None: nothing.
      downlink: (server, plan, shared variables) -> what counts the bytes that clients receive;
        None: another one.
      meters: (setting) -> what it counts in a run.
      resolved: (scenario) -> name -> its sections, with everything written out.
      method_name: (spec, whether training and mean are plain) -> the name of a scenario that names
        no method; None: another one.
      stacks: (spec) -> what of it holds all messages of a round, for `fedsim check`.
      voices_of_kinds: family -> (kind, what its factory made) -> what it needs and takes away
        alone; None: another field's kind.
      notes: (spec) -> what of it a user may not have meant, for `fedsim check`.
      sections: path of a section or key -> a scenario that writes it, for what it needs alone.
      lacking: name of a section that lacks something -> its path, and what is known of it.
      forecast: (experiment, rounds) -> what `fedsim check` says of it.
      keeps_away: keys by which clients may miss rounds, two or more.
      shares: (spec, clients, cohort) -> the shares of clients that it asks for.
      remarks: (experiment) -> lines of `fedsim check` and `fedsim run`: what nobody may have meant.
    """

    voices: Sequence[Speaker] = ()
    calculations: Sequence[Calculation] = ()
    components: Callable[[Facts], None] = nothing
    solved_before_model: Sequence[Callable[[Facts], None]] = ()
    solved_last: Sequence[Callable[[Facts], None]] = ()
    alteration: Alteration | None = None
    held_back: Callable[[Any], int] = lambda data: 0
    attacks: Mapping[str, Callable[[Any], list[str]]] = {}
    counts_models: tuple[str, ...] = ()
    links: Callable[[Any], list[tuple[KeyPath, Any]] | None] = nothing
    served: Callable[[Any], list[Any] | None] = nothing
    method: Callable[[Any, Rule | None], Hashable] = nothing
    client: Callable[[Client, Any, Model], Client] | None = None
    model: Callable[[Model, Any, Rule | None], Model | None] = nothing
    merged: Callable[[Tree, Model], Tree | None] = nothing
    gradients: Callable[[Any], Private | None] = nothing
    server: Callable[[Any], Hashable] = nothing
    serves: Callable[[ServerParts, Any, ServerSetting], ServerParts] | None = None
    beside: Callable[[Any], dict[str, Callable[[ServerState], Shared]]] = no_sections
    measures: Callable[[Any, Sequence[Any]], Measures | None] = nothing
    cohort: Callable[[Scenario, Cohort, int], Cohort] = lambda scenario, cohort, eligible: cohort
    planned: Callable[[Facts], Any] = nothing
    conditions: Callable[[Conditions, SeedSetting], Conditions] | None = None
    passed: Callable[[Facts, list[Link]], list[Link]] = lambda facts, links: links
    message_bytes: Callable[[Facts], tuple[int, int] | None] = nothing
    form: Callable[[Client, Plan, Shared], OneModel | None] = nothing
    traffic: Callable[[Plan], type[Traffic] | None] = nothing
    own_work: Callable[[ProgramSetting], OwnWork | None] = nothing
    observer: Callable[[ProgramSetting], Observer | None] = nothing
    downlink: Callable[[Server, Plan, Shared], Downlink | None] = nothing
    meters: Callable[[RunSetting], list[Meter]] = lambda setting: []
    resolved: Callable[[Scenario], dict[str, Any]] = no_sections
    method_name: Callable[[Any, bool], str | None] = nothing
    stacks: Callable[[Any], list[str]] = lambda spec: []
    notes: Callable[[Any], list[str]] = lambda spec: []
    voices_of_kinds: Mapping[str, Callable[[str, Any], Voice | None]] = {}
    sections: Mapping[str, Any] = {}
    lacking: Mapping[str, tuple[str, dict[str, Any]]] = {}
    forecast: Callable[[Any, Sequence[Any]], dict[str, Any]] = lambda experiment, rounds: {}
    keeps_away: tuple[str, ...] = ()
    shares: Callable[[Any, int, Cohort], Iterable[ShareOfClients]] = lambda spec, N, cohort: ()
    remarks: Callable[[Any], list[str]] = lambda experiment: []
