"""What a field adds to how a scenario is checked and built."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.assemble.facts import Facts
from fedsim.assemble.problems import Findings
from fedsim.assemble.traits import Voice
from fedsim.data import Federation
from fedsim.engine.forms import OneModel
from fedsim.engine.lanes import Private
from fedsim.engine.meters import Meter
from fedsim.engine.meters.traffic import Traffic
from fedsim.engine.program import Program
from fedsim.fleet import Plan
from fedsim.fleet.plan import Conditions
from fedsim.scenario.reader import KeyPath
from fedsim.scenario.scenario import Scenario
from fedsim.types import Client, Model, Rule, Shared

Speaker = Callable[[Facts], Voice | Iterable[Voice]]
Calculation = Callable[[Facts], Findings]


class ServerParts(NamedTuple):
    """What the program of a server is made of."""

    wire: list[Any]
    stages: list[Any]
    rule: Rule
    steps: list[Any]
    make: Callable[..., Any]  # the class of the program


class ServerSetting(NamedTuple):
    """What a field may know when it changes the parts of a server."""

    client: Client  # as the lanes run it
    model: Model
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


class RunSetting(NamedTuple):
    """What a field may know when it adds meters to a run."""

    program: Program
    plan: Plan
    planned: Any  # what the field's `planned` returned


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
      counts_models: keys that say how many models there are: none is made where one is refused.
      links: (spec) -> (path, section) of the links that stand in place of `server`; None: those of
        the section.
      served: (spec) -> sections of the links in the server's program; None: those of `server`.
      method: (spec, rule) -> what decides how it changes the method, as a key; None: not at all.
      client: (method, that key, model) -> the method.
      gradients: (client section) -> how gradients of single samples are made private; None: not.
      server: (spec) -> what decides how it changes the server's program, as a key.
      serves: (parts, that key, setting) -> the parts of the program.
      planned: (facts) -> what it plans, of all seeds; None: nothing.
      conditions: (conditions, setting) -> those of a seed's plan; only where something is planned.
      message_bytes: (facts) -> the most bytes of a message up and down; None: as counted.
      form: (method, plan, variables at the start) -> the form of the server; None: another one.
      traffic: (plan) -> the class that counts messages; None: another one.
      meters: (setting) -> what it counts in a run.
      resolved: (scenario) -> name -> its sections, with everything written out.
      method_name: (spec, whether training and mean are plain) -> the name of a scenario that names
        no method; None: another one.
      stacks: (spec) -> what of it holds all messages of a round, for `fedsim check`.
      voices_of_kinds: family -> (kind, what its factory made) -> what it needs and takes away
        alone; None: another field's kind.
      sections: path of a section or key -> a scenario that writes it, for what it needs alone.
      lacking: name of a section that lacks something -> its path, and what is known of it.
      forecast: (experiment, rounds) -> what `fedsim check` says of it.
      remarks: (experiment) -> lines of `fedsim check` and `fedsim run`: what nobody may have meant.
    """

    voices: Sequence[Speaker] = ()
    calculations: Sequence[Calculation] = ()
    components: Callable[[Facts], None] = nothing
    solved_before_model: Sequence[Callable[[Facts], None]] = ()
    solved_last: Sequence[Callable[[Facts], None]] = ()
    counts_models: tuple[str, ...] = ()
    links: Callable[[Any], list[tuple[KeyPath, Any]] | None] = nothing
    served: Callable[[Any], list[Any] | None] = nothing
    method: Callable[[Any, Rule | None], Hashable] = nothing
    client: Callable[[Client, Any, Model], Client] | None = None
    gradients: Callable[[Any], Private | None] = nothing
    server: Callable[[Any], Hashable] = nothing
    serves: Callable[[ServerParts, Any, ServerSetting], ServerParts] | None = None
    planned: Callable[[Facts], Any] = nothing
    conditions: Callable[[Conditions, SeedSetting], Conditions] | None = None
    message_bytes: Callable[[Facts], tuple[int, int] | None] = nothing
    form: Callable[[Client, Plan, Shared], OneModel | None] = nothing
    traffic: Callable[[Plan], type[Traffic] | None] = nothing
    meters: Callable[[RunSetting], list[Meter]] = lambda setting: []
    resolved: Callable[[Scenario], dict[str, Any]] = no_sections
    method_name: Callable[[Any, bool], str | None] = nothing
    stacks: Callable[[Any], list[str]] = lambda spec: []
    voices_of_kinds: Mapping[str, Callable[[str, Any], Voice | None]] = {}
    sections: Mapping[str, Any] = {}
    lacking: Mapping[str, tuple[str, dict[str, Any]]] = {}
    forecast: Callable[[Any, Sequence[Any]], dict[str, Any]] = lambda experiment, rounds: {}
    remarks: Callable[[Any], list[str]] = lambda experiment: []
