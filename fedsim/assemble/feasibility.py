"""What a scenario must satisfy once its links, its data and its model are known: every problem is a place and a remedy.

Each function yields (path, what is wrong there and what to do) for `build.problems.Problems.check`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import jax
from pydantic import BaseModel

from fedsim.assemble.programs import Training
from fedsim.assemble.wire import remembers
from fedsim.fleet import Cohort, Fleet, Plan, Timetable
from fedsim.fleet.selection import COLUMNS, FEEDBACK, HISTORY
from fedsim.scenario.expected import value_in_words
from fedsim.scenario.order import index_of_rule
from fedsim.scenario.reader import Path
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import Malicious
from fedsim.types import OWN_SAMPLES, Client, Rule

Found = Iterator[tuple[Path, str]]
LABELS = "needs classes, and these targets are numbers; take data with labels, or another method"
NEEDS = {
    "classes": LABELS,
    "labels": LABELS,
    "features": "compares features, and this model tells none; take mlp or cnn, or a model with `features`",
}
BOUNDS = (
    "f",
    "trim",
    "select",
    "neighbours",
)  # hyper-parameters that decide how many rows a link needs


def unmet_needs(
    scenario: Scenario, client: Client, classes: int, per_token: bool, features: bool
) -> Found:
    """What a client method wants to know, and samples (number of classes) or model (whether it has features) do not tell."""
    known = {"classes": classes > 0, "labels": classes > 0, "features": features}
    if per_token and (client.needs & {"labels", "features"}):
        text = (
            "is for samples with one label each, and here every token has one; take another method"
        )
        yield ("client", "kind"), f"{scenario.spec.client.kind} {text}"
    elif missing := [name for name in sorted(client.needs) if not known[name]]:
        yield ("client", "kind"), f"{scenario.spec.client.kind} {NEEDS[missing[0]]}"


def unknown_columns(scenario: Scenario, cohort: Cohort, classes: int, per_token: bool) -> Found:
    """A cohort that looks at what nobody knows: at clients' classes, where there are none, or one for every token."""
    if unknown := sorted(cohort.needs - COLUMNS):
        text = f"{scenario.spec.cohort.kind} needs {unknown[0]}, and a cohort may need {', '.join(sorted(COLUMNS))}"
        yield ("cohort", "kind"), f"{text}; change its `needs`"
    if "labels" in cohort.needs and (per_token or not classes):
        targets = "every token has one" if per_token else "these targets are numbers"
        kind = scenario.spec.cohort.kind
        yield (
            ("cohort", "kind"),
            f"{kind} is for samples with one class each, and here {targets}; take another cohort",
        )


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
            yield (
                ("client", name),
                f"{section.kind} makes no use of it, and would do the same without; take it out",
            )


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
        instead = (
            f"lower {' or '.join(names)}, or enlarge the cohort" if names else "enlarge the cohort"
        )
        yield (*path, *names[:1]), f"{text}; {instead}"


def too_many_rows(path: Path, section: Any, made: Any, K: int) -> Found:
    """A link that cannot take as many rows as the nominal cohort has; survivors are checked again in every round."""
    most = made.most if isinstance(made, Rule) else None
    if most is not None and most < K:
        names = bounds_of(section)
        yield (
            (*path, *names[:1]),
            f"{at_most(section, most)}, the cohort has {K}; lower f, or write a smaller cohort",
        )


def at_most(section: Any, most: int) -> str:
    """What a rule that goes through subsets says of its bound."""
    return f"{section.kind} goes through all subsets without f={section.f} clients, of at most {most} clients"


def bounds_of(section: Any) -> list[str]:
    """The hyper-parameters of a link that decide how many rows it needs, where they are given."""
    return [name for name in BOUNDS if getattr(section, name, None) is not None]


def merged_rows(links: list[tuple[Path, Any, Any]]) -> Found:
    """A stage that makes rows of several clients, before a rule that remembers an update of each."""
    rule = next(((section, made) for _, section, made in links if isinstance(made, Rule)), None)
    if rule is None or not remembers(rule[1]):
        return
    for path, section, _ in links:
        if section.kind == "bucket":
            text = f"bucket makes rows of several clients, and {rule[0].kind} remembers something of each client"
            yield path, f"{text}; take it out, or take another rule"


def repeated_clients(scenario: Scenario, section: Any, cohort: Cohort, rule: Rule) -> Found:
    """A cohort that draws a client twice, before a rule that cannot weigh it."""
    if not (cohort.repeats or cohort.factors):
        return
    kind, does = (
        scenario.spec.cohort.kind,
        "gives clients factors" if cohort.factors else "draws a client twice",
    )
    if remembers(rule):
        text = f"{kind} {does}, and {section.kind} remembers one update of each"
        yield ("cohort",), f"{text}; take the cohort uniform or poisson, or another rule"
    elif rule.fold is None:
        text = f"{kind} {does}, which only a rule that is a sum can weigh"
        yield ("cohort",), f"{text}; use the rule mean, or another cohort"


def unknown_shares(
    scenario: Scenario, path: Path, cohort: Cohort, rule: Rule, fleet: Fleet
) -> Found:
    """A rule that divides by what a round has on average, behind a cohort, a schedule or a fleet that does not tell."""
    asynchronous = scenario.spec.schedule.kind != "sync"
    if "expected" in rule.needs and (cohort.share is None or asynchronous or fleet.selective):
        kind = scenario.spec.schedule.kind if asynchronous else scenario.spec.cohort.kind
        kind = "the fleet" if fleet.selective else kind
        text = f"{kind} does not tell how often a client is drawn"
        yield (*path, "denominator"), f"{text}; write actual, or take the cohort uniform or poisson"


def unknown_probabilities(scenario: Scenario, rule: Rule, plans: Iterable[Plan]) -> Found:
    """A rule that divides by how often each client takes part, where nobody knows, or a client never does."""
    if "share" not in rule.needs:
        return
    spec = scenario.spec
    at = index_of_rule(spec.server)
    for plan in plans:
        if plan.shares is None:
            kind = spec.schedule.kind if plan.timetable.asynchronous else spec.cohort.kind
            under = (
                ""
                if plan.timetable.asynchronous or not plan.machines.fleet.selective
                else " under this fleet"
            )
            instead = "write reported, take the rule fedau, or the cohort poisson and an availability that stays the same"
            yield (
                ("server", at, "shares"),
                f"how often {kind} has a client{under} is not known; {instead}",
            )
            return
        never = plan.eligible[(plan.shares <= 0)[plan.eligible] | (plan.steps == 0)[plan.eligible]]
        if len(never):
            text = f"client {never[0]} never takes part, and no weights make up for it"
            yield ("server", at, "shares"), f"{text}; write reported, or let it take part"
            return


def unknown_clients(scenario: Scenario, N: int) -> Found:
    """Clients that are written by id, or counted, and are not there."""
    spec = scenario.spec
    if isinstance(spec.client.steps, list) and len(spec.client.steps) != N:
        text = f"{len(spec.client.steps)} numbers of steps for {N} clients; write one per client, or a single number"
        yield ("client", "steps"), text
    yield from _malicious(spec.fleet.malicious, N)


def _malicious(section: Any, N: int) -> Found:
    """Malicious clients that are not there, or not said in one way."""
    path = ("fleet", "malicious")
    if not isinstance(section, Malicious):
        yield from _beyond(section, N, path)
        return
    given = [name for name in ("share", "count", "ids") if getattr(section, name) is not None]
    if len(given) != 1:
        yield path, f"give one of share, count and ids, found {' and '.join(given) or 'none'}"
    if section.ids is not None and section.per == "round":
        yield (
            (*path, "per"),
            "ids are the same clients in every round; take it out, or give a share or a count",
        )
    yield from _beyond(section.ids, N, (*path, "ids"))
    if section.count is not None and section.count > N:
        yield (*path, "count"), f"is {section.count}, and there are {N} clients"


def unknown_members(scenario: Scenario, cohort: Cohort, N: int) -> Found:
    """Clients that the cohort names in the scenario and are not there; those in a file are `require_members`' affair."""
    if getattr(scenario.spec.cohort, "path", None) is None:
        yield from _beyond(
            getattr(scenario.spec.cohort, "rounds", cohort.names), N, ("cohort", "rounds")
        )


def large_cohort(scenario: Scenario, cohort: Cohort, eligible: int) -> Found:
    """A cohort that is larger than what can be drawn."""
    for name, noun in {"size": "a cohort", "candidates": "candidates"}.items():
        size = getattr(scenario.spec.cohort, name, None)
        if isinstance(size, int) and size > eligible and not cohort.repeats:
            counted = f"{noun} of {size}" if name == "size" else f"{size} {noun}"
            yield (
                ("cohort", name),
                f"{counted} of {eligible} clients with samples; write at most {eligible}",
            )


def asynchronous(
    scenario: Scenario,
    timetable: Timetable,
    cohort: Cohort,
    trained: Training,
    shapes: Any,
    eligible: int,
    links: list[Any],
) -> Found:
    """What needs rounds of one cohort, or a client that sends one message a round, under a schedule that has neither."""
    spec, kind = scenario.spec, scenario.spec.schedule.kind
    if not timetable.asynchronous:
        return
    instead = "take schedule: sync, or another"
    if cohort.feedback or HISTORY in cohort.needs:
        words = " and ".join(f"the {FEEDBACK[name]}" for name in cohort.feedback) or "who took part"
        text = f"{spec.cohort.kind} looks at {words} of the round before, and {kind} has none"
        yield ("cohort",), f"{text}; {instead} cohort"
    if timetable.concurrency > eligible:
        text = f"{timetable.concurrency} clients at a time of {eligible} with samples; write at most {eligible}"
        yield ("schedule", "concurrency"), text
    row = jax.eval_shape(trained.client.memory, shapes, jax.eval_shape(jax.random.key, 0))
    if jax.tree.leaves(row):
        text = "a client remembers a row of its last round, and may send two messages between two steps of the server"
        where = ("client", "optimizer_state" if spec.client.optimizer_state == "carry" else "kind")
        yield where, f"{text} under {kind}; {instead} method"
    if sends_twice(timetable, cohort):
        yield from _forgetting(kind, links)
    if spec.broadcast:
        yield (
            ("broadcast",),
            f"clients of {kind} get the model at different times; {instead} downlink",
        )
    losses = any("loss" in getattr(link, "needs", ()) for link in links)
    if trained.client.probe is not None or losses:
        text = f"has a pass at the model of the round before training, and {kind} has clients with several models"
        yield (
            ("client", "kind") if not losses else ("server",),
            f"the method {text}; {instead} method",
        )


def sends_twice(timetable: Timetable, cohort: Cohort) -> bool:
    """Whether a step of an asynchronous server may have two messages of one client.

    Not where it takes one message at a time. Else a client that has reported may be back before the step, unless
    all wait for it; and a cohort that names its clients may name one twice, which a drawn one does not.
    """
    waits_for_the_step = timetable.waits and not cohort.names
    return timetable.buffer > 1 and not waits_for_the_step


def _forgetting(kind: str, links: list[Any]) -> Found:
    """Links that remember one message of a client, where a step may have two."""
    remembering = [link for link in links if remembers(link)]
    if kind == "fedbuff":
        instead = "write restart: flush and a cohort that is drawn, or buffer: 1, or take another"
    else:
        instead = "take a cohort that is drawn, or another"
    if any(not isinstance(link, Rule) for link in remembering):
        text = "a link remembers a client's last message, and it may send two between two steps"
        yield ("wire",), f"{text}; {instead} link"
    if any(isinstance(link, Rule) for link in remembering):
        text = "the rule remembers one update of a client, and a buffer may have two"
        yield ("schedule",), f"{text}; {instead} rule"


def _beyond(ids: Any, N: int, path: Path) -> Found:
    """Every client in a list, or in lists of a list, that is not there."""
    for i, id in enumerate(ids if isinstance(ids, list | tuple) else ()):
        if isinstance(id, list):
            yield from _beyond(id, N, (*path, i))
        elif id >= N:
            yield (*path, i), f"there is no client {id}; clients are 0 to {N - 1}, take it out"


def own_samples(scenario: Scenario, path: Path, section: Any, rule: Rule) -> Found:
    """Samples that the server keeps and the rule does not ask for: they are lost to the clients, which makes sense beside a
    method that reads them, in a comparison; and a rule that asks for samples where the server keeps none.
    """
    samples, reads = scenario.spec.data.server.samples, rule.needs & OWN_SAMPLES
    if reads and not samples:
        text = f"{section.kind} reads samples that the server keeps for itself, and it keeps none"
        yield (
            path,
            f"{text}; write them into the data section, as server: {{samples: 100}}, or take another rule",
        )
    if "reference" in reads and isinstance(scenario.spec.client.steps, list):
        text = f"{section.kind} trains the server as one more client, and these are steps of the others"
        yield ("client", "steps"), f"{text}; write a single number, or epochs"
    if samples and not reads and not scenario.spec.compare.methods:
        text = (
            f"no link of server reads the server's own samples, and these {samples} would be lost"
        )
        yield (
            ("data", "server", "samples"),
            f"{text} to the clients; take it out, or compare with trust or zeno",
        )
