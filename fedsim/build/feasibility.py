"""What a scenario must satisfy once its links, its data and its model are known: every problem is a place and a remedy.

Each function yields (path, what is wrong there and what to do) for `build.problems.Problems.check`.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from fedsim.fleet import Cohort
from fedsim.scenario.expected import value_in_words
from fedsim.scenario.reader import Path
from fedsim.scenario.schema import Scenario
from fedsim.types import Client, Rule

Found = Iterator[tuple[Path, str]]
LABELS = "needs classes, and these targets are numbers; take data with labels, or another method"
NEEDS = {
    "classes": LABELS,
    "labels": LABELS,
    "features": "compares features, and this model tells none; take mlp or cnn, or a model with `features`",
}
BOUNDS = ("f", "trim", "select", "neighbours")  # hyper-parameters that decide how many rows a link needs


def unmet_needs(scenario: Scenario, client: Client, classes: int, per_token: bool, features: bool) -> Found:
    """What a client method wants to know, and samples (number of classes) or model (whether it has features) do not tell."""
    known = {"classes": classes > 0, "labels": classes > 0, "features": features}
    if per_token and (client.needs & {"labels", "features"}):
        text = "is for samples with one label each, and here every token has one; take another method"
        yield ("client", "kind"), f"{scenario.spec.client.kind} {text}"
    elif missing := [name for name in sorted(client.needs) if not known[name]]:
        yield ("client", "kind"), f"{scenario.spec.client.kind} {NEEDS[missing[0]]}"


def foreign_metric(scenario: Scenario, classes: int) -> Found:
    """A metric of the other kind of targets."""
    metric = scenario.spec.evaluate.metric
    if classes and metric in ("test_r2", "test_mae"):
        yield (
            ("evaluate", "metric"),
            f"{metric} is for targets that are numbers, and these are classes; write test_accuracy",
        )


def idle_keys(scenario: Scenario, client: Client) -> Found:
    """Keys that the client method makes no use of: better a line than a number that means something else."""
    section = scenario.spec.client
    for name in sorted(client.unused):
        value = getattr(section, name)
        default: Any = type(section).model_fields[name].default
        if isinstance(value, BaseModel):  # kind and whatever else was written
            value, default = value.model_dump(exclude_defaults=True), {"kind": default}
        if value != default:
            yield ("client", name), f"{section.kind} makes no use of it, and would do the same without; take it out"


def wrong_partners(scenario: Scenario, path: Path, section: Any, rule: Rule) -> Found:
    """A rule that makes sense behind one client method alone stands behind it, with the same hyper-parameters."""
    if rule.client is None:
        return
    (kind, same), client = rule.client, scenario.spec.client
    if client.kind != kind:
        text = f"{section.kind} undoes what the client method {kind} does, and client.kind is {client.kind}"
        yield path, f"{text}; write method: {kind}, or another rule"
        return
    for name, value in same.items():
        if (other := getattr(client, name)) != value:
            text = f"is {value_in_words(value)} here and {value_in_words(other)} in client.{name}; both sides need the same"
            yield (*path, name), text


def small_cohort(path: Path, section: Any, made: Any, K: int) -> Found:
    """A link that needs more rows than the nominal cohort has; survivors are checked again in every round."""
    least = getattr(made, "least", 1)
    if least > K:
        names = bounds_of(section)
        text = f"{section.kind} needs at least {least} reporting clients, the cohort has {K}"
        instead = f"lower {' or '.join(names)}, or enlarge the cohort" if names else "enlarge the cohort"
        yield (*path, *names[:1]), f"{text}; {instead}"


def too_many_rows(path: Path, section: Any, made: Any, K: int) -> Found:
    """A link that cannot take as many rows as the nominal cohort has; survivors are checked again in every round."""
    most = getattr(made, "most", None)
    if most is not None and most < K:
        names = bounds_of(section)
        yield (*path, *names[:1]), f"{at_most(section, most)}, the cohort has {K}; lower f, or write a smaller cohort"


def at_most(section: Any, most: int) -> str:
    """What a rule that goes through subsets says of its bound."""
    return f"{section.kind} goes through all subsets without f={section.f} clients, of at most {most} clients"


def bounds_of(section: Any) -> list[str]:
    """The hyper-parameters of a link that decide how many rows it needs, where they are given."""
    return [name for name in BOUNDS if getattr(section, name, None) is not None]


def repeated_clients(scenario: Scenario, cohort: Cohort, rule: Rule) -> Found:
    """A cohort that draws a client twice, before a rule that cannot weigh it."""
    if cohort.repeats and rule.fold is None:
        text = f"{scenario.spec.cohort.kind} draws a client twice, which only a rule that is a sum can weigh"
        yield ("cohort",), f"{text}; use the rule mean, or another cohort"


def unknown_clients(scenario: Scenario, N: int) -> Found:
    """Clients that are written by id, or counted, and are not there."""
    spec = scenario.spec
    if isinstance(spec.client.steps, list) and len(spec.client.steps) != N:
        text = f"{len(spec.client.steps)} numbers of steps for {N} clients; write one per client, or a single number"
        yield ("client", "steps"), text
    yield from _beyond(spec.fleet.malicious, N, ("fleet", "malicious"))


def unknown_members(scenario: Scenario, cohort: Cohort, N: int) -> Found:
    """Clients that the cohort names and are not there."""
    yield from _beyond(getattr(scenario.spec.cohort, "rounds", cohort.names), N, ("cohort", "rounds"))


def large_cohort(scenario: Scenario, cohort: Cohort, eligible: int) -> Found:
    """A cohort that is larger than what can be drawn."""
    size = getattr(scenario.spec.cohort, "size", 0)
    if size > eligible and not cohort.repeats:
        yield ("cohort", "size"), f"a cohort of {size} of {eligible} clients with samples; write at most {eligible}"


def _beyond(ids: Any, N: int, path: Path) -> Found:
    """Every client in a list, or in lists of a list, that is not there."""
    for i, id in enumerate(ids if isinstance(ids, list | tuple) else ()):
        if isinstance(id, list):
            yield from _beyond(id, N, (*path, i))
        elif id >= N:
            yield (*path, i), f"there is no client {id}; clients are 0 to {N - 1}, take it out"


def unread_server_samples(scenario: Scenario, rule: Rule) -> Found:
    """Samples that the server keeps, and the rule does not ask for: they are lost to the clients."""
    samples = scenario.spec.data.server.samples
    if samples and "server" not in rule.needs:
        text = f"no link of server reads the server's own samples, and these {samples} would be lost"
        yield ("data", "server", "samples"), f"{text} to the clients; take it out"
