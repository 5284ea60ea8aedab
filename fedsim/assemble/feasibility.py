"""What must hold between numbers of a scenario, once its links, data and model are known.

Every function yields problems: a path, and what is wrong there and what to do.
"""

from typing import Any, get_args

from pydantic import BaseModel

from fedsim.assemble.facts import Facts
from fedsim.assemble.links import Link
from fedsim.assemble.problems import UNKNOWN, Findings
from fedsim.assemble.traits import Reason, Voice
from fedsim.disk.scores import mean_of
from fedsim.fleet import Plan
from fedsim.fleet.selection import COLUMNS
from fedsim.scenario.expected import value_in_words
from fedsim.scenario.index import NEED, SCORE, missing_field, refusal
from fedsim.scenario.reader import KeyPath
from fedsim.scenario.sections import METRICS, Malicious
from fedsim.types.client import POOLED

# What a client method may need of samples and model, besides `solo` and `no KEY`.
OF_SAMPLES = ("classes", "features", "labels", "softmax")

# Hyper-parameters that decide how many rows a link needs.
BOUNDS = ("f", "trim", "select", "neighbours")


def unreached_commits(facts: Facts) -> Findings:
    """Rounds of `checkpoint.keep` that the run does not have."""
    rounds = facts.spec.rounds
    for index, round in enumerate(facts.spec.checkpoint.keep):
        if round > rounds:
            text = f"round {round} is beyond the last one, {rounds}; remove it, or raise rounds"
            yield ("checkpoint", "keep", index), text


def unknown_needs(facts: Facts) -> Findings:
    """A client method that needs what nobody knows."""
    section = facts.spec.client
    unused = {f"no {key}" for key in type(section).model_fields}
    unknown = sorted(facts.client.needs - {*OF_SAMPLES, "solo", *unused})
    if unknown:
        words = f"{', '.join(OF_SAMPLES)}, solo, or no KEY of client"
        text = f"{section.kind} needs {unknown[0]}, and a method may need {words}"
        yield ("client", "kind"), f"{text}; change its `needs`"


def missing_needs(facts: Facts) -> Findings:
    """A rule that reads what a field would make that is not installed."""
    rule = facts.rule
    if rule is None:
        return
    for need in sorted(rule.made.needs):
        if field := missing_field(NEED, need):
            yield rule.path, f"{rule.section.kind} reads {need}: {refusal(field)}"


def unknown_columns(facts: Facts) -> Findings:
    """A cohort that needs what nobody knows."""
    kind = facts.spec.cohort.kind
    unknown = sorted(facts.cohort.needs - COLUMNS)
    if unknown:
        text = f"{kind} needs {unknown[0]}, and a cohort may need {', '.join(sorted(COLUMNS))}"
        yield ("cohort", "kind"), f"{text}; change its `needs`"


def foreign_metric(facts: Facts) -> Findings:
    """A metric for other labels than the samples have; one of clients without scores."""
    metric = facts.spec.evaluate.metric
    classes = facts.classes
    if field := missing_field(SCORE, metric):
        yield ("evaluate", "metric"), f"{metric}: {refusal(field)}"
    loss = facts.maybe("loss")
    has_accuracy = classes or (loss is not UNKNOWN and "sets" in loss.targets)
    of_clients = metric.startswith(("client_", "personal_"))
    if of_clients and not facts.spec.evaluate.personal:
        text = f"{metric} is measured with evaluate.personal"
        yield ("evaluate", "metric"), f"{text}; set it to true, or write test_accuracy"
    if mean_of(metric) not in get_args(METRICS):
        return  # a kind of metric, which says by itself what it is for
    if of_clients and "accuracy" in metric and not has_accuracy:
        text = f"{metric} is for classes, and these targets are numbers"
        yield ("evaluate", "metric"), f"{text}; write {metric.replace('accuracy', 'mae')}"
    if has_accuracy and ("mae" in metric or metric == "test_r2"):
        text = f"{metric} is for targets that are numbers, and these are classes"
        other = metric.replace("mae", "accuracy").replace("r2", "accuracy")
        yield ("evaluate", "metric"), f"{text}; write {other}"
    if metric == "test_perplexity" and not facts.per_token:
        text = "test_perplexity is for samples in which every token has a label"
        yield ("evaluate", "metric"), f"{text}; write test_loss"


def unscored_clients(facts: Facts) -> Findings:
    """Scores of clients while the run lasts, where clients keep no samples for them."""
    if not facts.spec.evaluate.personal:
        return
    own = facts.partitioned.validation_holders
    if own is None or not len(own.indices):
        text = "clients keep too few samples of their own to be scored on"
        yield ("evaluate", "personal"), f"{text}; set data.client_test=0.3, or remove it"


def idle_keys(facts: Facts) -> Findings:
    """Keys that the client method does not use, where they differ from their defaults."""
    section = facts.spec.client
    unused = [need.removeprefix("no ") for need in facts.client.needs if need.startswith("no ")]
    for name in sorted(unused):
        value = getattr(section, name)
        default: Any = type(section).model_fields[name].default
        if isinstance(value, BaseModel):  # a kind: its default is a name
            value = value.model_dump(exclude_defaults=True)
            default = {"kind": default}
        if value != default:
            yield ("client", name), f"{section.kind} does not use it; remove it"


def absent_of_pooled(facts: Facts) -> Findings:
    """Clients that are left out of what has no clients."""
    spec = facts.spec
    if spec.fleet.without and facts.client.not_federated == POOLED:
        text = f"{spec.client.kind} trains on the samples of all clients; remove it"
        yield ("fleet", "without"), text


def wrong_partners(facts: Facts) -> Findings:
    """A rule that belongs to one client method, without it or with other hyper-parameters."""
    link = facts.rule
    facts.require_sound(("client",), ("method",))
    if link is None or link.made.client is None:
        return
    kind, shared_values = link.made.client
    client = facts.spec.client
    if client.kind != kind:
        text = f"{link.section.kind} undoes what the client method {kind} does"
        reason = f"client.kind is {client.kind}"
        yield link.path, f"{text}, and {reason}; write method: {kind}, or another rule"
        return

    for name, value in shared_values.items():
        client_value = getattr(client, name)
        if client_value != value:
            value_text = value_in_words(value)
            client_text = value_in_words(client_value)
            both = f"is {value_text} here and {client_text} in client.{name}"
            text = f"{both}; both sides need the same"
            yield (*link.path, name), text


def small_cohort(facts: Facts) -> Findings:
    """Links that need more rows than a nominal cohort of K clients has.

    Survivors are counted again in every round.
    """
    for link in facts.made_links:
        if getattr(link.made, "least", 1) > facts.K:
            yield _small_cohort(link, facts.K)


def _small_cohort(link: Link, K: int) -> tuple[KeyPath, str]:
    least = link.made.least
    names = bounds_of(link.section)
    text = f"{link.section.kind} needs at least {least} reporting clients, the cohort has {K}"
    remedy = "enlarge the cohort"
    if names:
        remedy = f"lower {' or '.join(names)}, or enlarge the cohort"
    return (*link.path, *names[:1]), f"{text}; {remedy}"


def unknown_groups(facts: Facts) -> Findings:
    """Groups of clients that do not exist, or that leave a client out."""
    link = facts.rule
    if link is None or link.section.kind != "hierarchical" or link.section.groups is None:
        return
    groups = link.section.groups
    N = facts.N
    path = (*link.path, "groups")
    if isinstance(groups, int):
        if groups > N:
            yield path, f"{N} clients cannot be split into {groups} groups; lower it"
        return
    listed = {client for group in groups for client in group}
    beyond = sorted(client for client in listed if client >= N)
    if beyond:
        yield path, f"there is no client {beyond[0]} (clients are 0 to {N - 1}); remove it"
        return
    left_out = next((client for client in range(N) if client not in listed), None)
    if left_out is not None:
        yield path, f"client {left_out} is in no group; name every client once"


def too_many_rows(facts: Facts) -> Findings:
    """A rule that cannot take as many rows as a nominal cohort of K clients has.

    Survivors are counted again in every round.
    """
    link = facts.rule
    if link is None or link.made.most is None or link.made.most >= facts.K:
        return
    names = bounds_of(link.section)
    text = f"{at_most(link.section, link.made.most)}, the cohort has {facts.K}"
    yield (*link.path, *names[:1]), f"{text}; lower f, or write a smaller cohort"


def at_most(section: Any, most: int) -> str:
    """The bound of a rule that goes through subsets, in words."""
    subsets = f"goes through all subsets without f={section.f} clients"
    return f"{section.kind} {subsets}, of at most {most} clients"


def bounds_of(section: Any) -> list[str]:
    """The hyper-parameters of a link that decide how many rows it needs, where they are given."""
    return [name for name in BOUNDS if getattr(section, name, None) is not None]


def poisson_keys(facts: Facts) -> Findings:
    """Keys that mean nothing for Poisson batches."""
    section = facts.spec.client
    if section.shuffle == "poisson" and section.drop_last:
        text = "Poisson batches are not cut from an epoch, and none of them is its last"
        yield ("client", "drop_last"), f"{text}; remove it"
    has_passes = any(phase.held_out or phase.whole for phase in facts.client.phases)
    if section.shuffle == "poisson" and has_passes:
        text = f"{section.kind} passes over samples, and Poisson batches repeat"
        yield ("client", "shuffle"), f"{text} and leave out some; write shuffle: true"


def expected_voice(facts: Facts) -> Voice:
    """A rule that divides by the clients of an average round."""
    rule = facts.rule
    needs = []
    if rule is not None and "expected" in rule.made.needs and not facts.expects_drawn:
        path = (*rule.path, "denominator")
        text = f"{rule.section.kind} divides by the clients of an average round"
        remedy = "write denominator: actual"
        needs.append(Reason("known_share", text, remedy, path))
    return Voice(() if rule is None else rule.path, "", needs, [])


def unknown_probabilities(facts: Facts) -> Findings:
    """A rule that divides by how often each client takes part, of which nobody knows, or never."""
    rule = facts.rule
    if rule is None or "share" not in rule.made.needs:
        return
    spec = facts.spec
    path = (*rule.path, "shares")
    for plan in facts.plans.values():
        if plan.shares is None:
            text = f"how often {_who_selects(spec, plan)} is not known"
            rules = "write reported, use the rule fedau"
            cohorts = "or the cohort poisson and an availability that stays the same"
            yield path, f"{text}; {rules}, {cohorts}"
            return

        absent = (plan.shares <= 0) | (plan.steps == 0)  # [N]
        never = plan.eligible[absent[plan.eligible]]
        if len(never):
            text = f"client {never[0]} never takes part, and no weights make up for it"
            yield path, f"{text}; write reported, or let it take part"
            return


def _who_selects(spec: Any, plan: Plan) -> str:
    """`KIND has a client`, for the kind that decides who takes part."""
    if plan.timetable.asynchronous:
        return f"{spec.schedule.kind} has a client"
    if plan.machines.selective:
        return f"{spec.cohort.kind} has a client under this fleet"
    return f"{spec.cohort.kind} has a client"


def unknown_clients(facts: Facts) -> Findings:
    """Steps for other clients than there are, and malicious clients that do not exist."""
    spec = facts.spec
    N = facts.N
    steps = spec.client.steps
    if isinstance(steps, list) and len(steps) != N:
        text = f"{len(steps)} numbers of steps for {N} clients"
        yield ("client", "steps"), f"{text}; write one per client, or a single number"
    yield from _unknown_malicious(spec.fleet.malicious, N)
    yield from _beyond(spec.fleet.without, N, ("fleet", "without"))


def _unknown_malicious(section: Any, N: int) -> Findings:
    """Malicious clients that do not exist, or that are given in several ways."""
    path = ("fleet", "malicious")
    if not isinstance(section, Malicious):
        yield from _beyond(section, N, path)
        return

    given = [name for name in ("share", "count", "ids") if getattr(section, name) is not None]
    if len(given) != 1:
        yield path, f"give one of share, count and ids, found {' and '.join(given) or 'none'}"
    if section.ids is not None and section.per == "round":
        text = "ids are the same clients in every round"
        yield (*path, "per"), f"{text}; remove it, or give a share or a count"
    yield from _beyond(section.ids, N, (*path, "ids"))
    if section.count is not None and section.count > N:
        yield (*path, "count"), f"is {section.count}, and there are {N} clients"


def unknown_members(facts: Facts) -> Findings:
    """Clients that the scenario lists in its cohort and that do not exist.

    Those that a file lists are left to `cohort.require_members`.
    """
    section = facts.spec.cohort
    if getattr(section, "path", None) is None:
        members = getattr(section, "rounds", facts.cohort.names)
        yield from _beyond(members, facts.N, ("cohort", "rounds"))


def _beyond(ids: Any, N: int, path: KeyPath) -> Findings:
    """Every client in a list, or in lists of a list, that does not exist."""
    if not isinstance(ids, list | tuple):
        return
    for i, id in enumerate(ids):
        if isinstance(id, list):
            yield from _beyond(id, N, (*path, i))
        elif id >= N:
            yield (*path, i), f"there is no client {id} (clients are 0 to {N - 1}); remove it"


def large_cohort(facts: Facts) -> Findings:
    """A cohort that is larger than the clients that can be drawn."""
    if facts.cohort.repeats:
        return
    section = facts.spec.cohort
    eligible = facts.eligible
    size = getattr(section, "size", None)
    candidates = getattr(section, "candidates", None)
    limit = f"of {eligible} clients with samples; write at most {eligible}"
    if isinstance(size, int) and size > eligible:
        yield ("cohort", "size"), f"a cohort of {size} {limit}"
    if isinstance(candidates, int) and candidates > eligible:
        yield ("cohort", "candidates"), f"{candidates} candidates {limit}"
