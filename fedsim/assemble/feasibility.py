"""What a scenario must satisfy once its links, its data and its model are known.

Every function yields problems for `Problems.check`: a path, and what is wrong there and what to do.
"""

from collections.abc import Iterable
from typing import Any

import jax
from pydantic import BaseModel

from fedsim import tree
from fedsim.assemble.links import Link
from fedsim.assemble.problems import Findings
from fedsim.assemble.wire import remembers
from fedsim.data import Federation
from fedsim.engine.recording import why_unrecorded
from fedsim.fleet import Cohort, Fleet, Plan
from fedsim.fleet.selection import COLUMNS
from fedsim.scenario.expected import value_in_words
from fedsim.scenario.reader import KeyPath
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import Malicious
from fedsim.types import SERVER_SAMPLE_NEEDS, Client, Codec, Rule
from fedsim.types.client import ALONE, POOLED

LABELS = "needs classes, and these targets are numbers; use data with labels, or another method"
FEATURES = (
    "compares features, and this model returns none; use mlp or cnn, or a model with `features`"
)
MISSING = {"classes": LABELS, "labels": LABELS, "features": FEATURES}

# Hyper-parameters that decide how many rows a link needs.
BOUNDS = ("f", "trim", "select", "neighbours")


def unreached_commits(scenario: Scenario) -> Findings:
    """Rounds of `checkpoint.keep` that the run does not have."""
    rounds = scenario.spec.rounds
    for index, round in enumerate(scenario.spec.checkpoint.keep):
        if round > rounds:
            text = f"round {round} is beyond the last one, {rounds}; remove it, or raise rounds"
            yield ("checkpoint", "keep", index), text


def unkept_updates(scenario: Scenario, client: Client, links: list[Link]) -> Findings:
    """`checkpoint.updates` where the server receives no updates of single clients.

    Args:
      scenario: as read.
      client: the client method.
      links: those of `wire` and `server`.
    """
    if not scenario.spec.checkpoint.updates:
        return
    made = [link.made for link in links]
    rule = next((link for link in made if isinstance(link, Rule)), None)
    codec = next((link for link in made if isinstance(link, Codec)), None)
    reason = why_unrecorded(client, rule, codec)
    if reason:
        yield ("checkpoint", "updates"), f"there are none of single clients: {reason}; remove it"


def unmet_needs(
    scenario: Scenario, client: Client, classes: int, per_token: bool, features: bool
) -> Findings:
    """A client method that needs what nobody knows, or what samples or model do not have.

    Args:
      scenario: as read.
      client: the client method.
      classes: number of classes; 0 for regression targets.
      per_token: whether every token has a label.
      features: whether the model returns features.
    """
    section = scenario.spec.client
    kind = section.kind
    unused = {f"no {key}" for key in type(section).model_fields}
    unknown = sorted(client.needs - {*MISSING, "solo", *unused})
    if unknown:
        words = f"{', '.join(sorted(MISSING))}, solo, or no KEY of client"
        text = f"{kind} needs {unknown[0]}, and a method may need {words}"
        yield ("client", "kind"), f"{text}; change its `needs`"
        return
    if per_token and client.needs & {"labels", "features"}:
        text = "is for samples with one label each, and here every token has one"
        yield ("client", "kind"), f"{kind} {text}; use another method"
        return

    available = {"classes": classes > 0, "labels": classes > 0, "features": features}
    missing = sorted(name for name in client.needs & MISSING.keys() if not available[name])
    if missing:
        yield ("client", "kind"), f"{kind} {MISSING[missing[0]]}"


def unknown_columns(scenario: Scenario, cohort: Cohort, classes: int, per_token: bool) -> Findings:
    """A cohort that needs what nobody knows, or classes where samples do not have one each."""
    kind = scenario.spec.cohort.kind
    unknown = sorted(cohort.needs - COLUMNS)
    if unknown:
        text = f"{kind} needs {unknown[0]}, and a cohort may need {', '.join(sorted(COLUMNS))}"
        yield ("cohort", "kind"), f"{text}; change its `needs`"
    if "labels" in cohort.needs and (per_token or not classes):
        targets = "every token has one" if per_token else "these targets are numbers"
        text = f"{kind} is for samples with one class each, and here {targets}"
        yield ("cohort", "kind"), f"{text}; use another cohort"


def foreign_metric(scenario: Scenario, classes: int, per_token: bool) -> Findings:
    """A metric for other labels than the samples have; one of clients without scores."""
    metric = scenario.spec.evaluate.metric
    of_clients = metric.startswith(("client_", "personal_"))
    if of_clients and not scenario.spec.evaluate.personal:
        text = f"{metric} is measured with evaluate.personal"
        yield ("evaluate", "metric"), f"{text}; set it to true, or write test_accuracy"
    if of_clients and "accuracy" in metric and not classes:
        text = f"{metric} is for classes, and these targets are numbers"
        yield ("evaluate", "metric"), f"{text}; write {metric.replace('accuracy', 'mae')}"
    if classes and ("mae" in metric or metric == "test_r2"):
        text = f"{metric} is for targets that are numbers, and these are classes"
        other = metric.replace("mae", "accuracy").replace("r2", "accuracy")
        yield ("evaluate", "metric"), f"{text}; write {other}"
    if metric == "test_perplexity" and not per_token:
        text = "test_perplexity is for samples in which every token has a label"
        yield ("evaluate", "metric"), f"{text}; write test_loss"


def idle_statistics(scenario: Scenario, client: Client, shapes: Any) -> Findings:
    """Running statistics that are to be pooled, where none are sent.

    Args:
      scenario: as read.
      client: the client method.
      shapes: shapes of the variables.
    """
    if scenario.spec.client.statistics == "averaged":
        return
    if not jax.tree.leaves(shapes["stats"]):
        text = "the model has no running statistics"
    elif client.travel.stats == "kept" or client.not_federated:
        text = f"under {scenario.spec.client.kind} no running statistics are sent"
    else:
        return
    yield ("client", "statistics"), f"{text}; remove it"


def unscored_clients(scenario: Scenario, federation: Federation) -> Findings:
    """Scores of clients while the run lasts, where clients keep no samples for them."""
    if not scenario.spec.evaluate.personal:
        return
    own = federation.validation_holders
    if own is None or not len(own.indices):
        text = "clients keep too few samples of their own to be scored on"
        yield ("evaluate", "personal"), f"{text}; set data.client_test=0.3, or remove it"


def idle_keys(scenario: Scenario, client: Client) -> Findings:
    """Keys that the client method does not use, where they differ from their defaults."""
    section = scenario.spec.client
    unused = [need.removeprefix("no ") for need in client.needs if need.startswith("no ")]
    for name in sorted(unused):
        value = getattr(section, name)
        default: Any = type(section).model_fields[name].default
        if isinstance(value, BaseModel):  # a kind: its default is a name
            value = value.model_dump(exclude_defaults=True)
            default = {"kind": default}
        if value != default:
            yield ("client", name), f"{section.kind} does not use it; remove it"


def idle_links(scenario: Scenario, client: Client) -> Findings:
    """What has no effect on a baseline, which sends no messages.

    The methods `centralised` and `local_only` leave all of it out.
    """
    if not client.not_federated:
        return
    spec = scenario.spec
    remedy = f"remove it, or write method: {spec.client.kind}, which leaves it out"
    text = f"{spec.client.kind} sends no messages"
    for name in ("wire", "broadcast"):
        if getattr(spec, name):
            yield (name,), f"{text}; {remedy}"
    for i, link in enumerate(spec.server):
        if link.kind != "mean":
            yield ("server", i), f"{text}; {remedy}"
    if spec.fleet.malicious not in (0, []):
        yield ("fleet", "malicious"), f"{text}, and nobody attacks it; {remedy}"
    if spec.fleet.without and client.not_federated == POOLED:
        text = f"{spec.client.kind} trains on the samples of all clients; remove it"
        yield ("fleet", "without"), text


def unknown_updates(scenario: Scenario, client: Client, cohort: Cohort) -> Findings:
    """A cohort that looks at the updates of clients that send none."""
    if client.server == ALONE and {"norm", "sketch"} & cohort.needs:
        text = f"{scenario.spec.cohort.kind} looks at what clients send"
        yield ("cohort",), f"{text}, and {scenario.spec.client.kind} sends nothing; use another"


def wrong_partners(scenario: Scenario, link: Link) -> Findings:
    """A rule that belongs to one client method, without it or with other hyper-parameters."""
    if link.made.client is None:
        return
    kind, shared_values = link.made.client
    client = scenario.spec.client
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


def leaves_of_rule(scenario: Scenario, link: Link, travelling: Any) -> Findings:
    """A rule about leaves of an adapter, where the model has none or clients do not send them.

    Args:
      scenario: as read.
      link: the rule.
      travelling: shapes of the variables that travel.
    """
    adapter = link.made.adapter
    if not adapter.leaves:
        return
    kind = link.section.kind
    leaves = " and ".join(adapter.leaves)
    if scenario.spec.model.adapter is None:
        text = f"{kind} is about {leaves}, and the model has no adapter"
        yield link.path, f"{text}; write model: {{adapter: lora}}, or use mean"
        return
    sent = {name.split(".")[-1] for name in tree.leaf_names(travelling["params"])}
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


def small_cohort(link: Link, K: int) -> Findings:
    """A link that needs more rows than a nominal cohort of K clients has.

    Survivors are counted again in every round.
    """
    least = getattr(link.made, "least", 1)
    if least <= K:
        return
    names = bounds_of(link.section)
    text = f"{link.section.kind} needs at least {least} reporting clients, the cohort has {K}"
    remedy = "enlarge the cohort"
    if names:
        remedy = f"lower {' or '.join(names)}, or enlarge the cohort"
    yield (*link.path, *names[:1]), f"{text}; {remedy}"


def unknown_groups(link: Link, N: int) -> Findings:
    """Groups of clients that do not exist, or that leave a client out."""
    groups = getattr(link.section, "groups", None)
    if link.section.kind != "hierarchical" or groups is None:
        return
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


def too_many_rows(link: Link, K: int) -> Findings:
    """A rule that cannot take as many rows as a nominal cohort of K clients has.

    Survivors are counted again in every round.
    """
    most = link.made.most if isinstance(link.made, Rule) else None
    if most is not None and most < K:
        names = bounds_of(link.section)
        text = f"{at_most(link.section, most)}, the cohort has {K}"
        yield (*link.path, *names[:1]), f"{text}; lower f, or write a smaller cohort"


def at_most(section: Any, most: int) -> str:
    """The bound of a rule that goes through subsets, in words."""
    subsets = f"goes through all subsets without f={section.f} clients"
    return f"{section.kind} {subsets}, of at most {most} clients"


def bounds_of(section: Any) -> list[str]:
    """The hyper-parameters of a link that decide how many rows it needs, where they are given."""
    return [name for name in BOUNDS if getattr(section, name, None) is not None]


def merged_rows(links: list[Link]) -> Findings:
    """A stage that makes rows of several clients, before a rule that remembers each client."""
    rule = next((link for link in links if isinstance(link.made, Rule)), None)
    if rule is None or not remembers(rule.made):
        return
    for link in links:
        if link.section.kind == "bucket":
            text = "bucket makes rows of several clients"
            reason = f"{rule.section.kind} remembers something of each client"
            yield link.path, f"{text}, and {reason}; remove it, or use another rule"


def repeated_clients(scenario: Scenario, cohort: Cohort, rule: Link) -> Findings:
    """A cohort that draws a client twice or gives it a factor, before a rule that ignores that."""
    if not (cohort.repeats or cohort.factors):
        return
    does = "gives clients factors" if cohort.factors else "draws a client twice"
    text = f"{scenario.spec.cohort.kind} {does}"
    if remembers(rule.made):
        reason = f"{rule.section.kind} remembers one update of each"
        remedy = "use the cohort uniform or poisson, or another rule"
        yield ("cohort",), f"{text}, and {reason}; {remedy}"
    elif rule.made.fold is None:
        reason = "which only a rule that is a sum can weigh"
        yield ("cohort",), f"{text}, {reason}; use the rule mean, or another cohort"


def unknown_shares(scenario: Scenario, cohort: Cohort, fleet: Fleet, rule: Link) -> Findings:
    """A rule that divides by the clients of an average round, where nobody knows how many."""
    spec = scenario.spec
    # A private mean is over the clients that are drawn, whoever of them is missing.
    if "expected" not in rule.made.needs or spec.privacy is not None:
        return
    if fleet.selective:
        culprit = "the fleet"
    elif spec.schedule.kind != "sync":
        culprit = spec.schedule.kind
    elif cohort.share is None:
        culprit = spec.cohort.kind
    else:
        return
    text = f"{culprit} does not tell how often a client is drawn"
    remedy = "write actual, or use the cohort uniform or poisson"
    yield (*rule.path, "denominator"), f"{text}; {remedy}"


def unknown_probabilities(scenario: Scenario, rule: Link, plans: Iterable[Plan]) -> Findings:
    """A rule that divides by how often each client takes part, of which nobody knows, or never."""
    if "share" not in rule.made.needs:
        return
    spec = scenario.spec
    path = (*rule.path, "shares")
    for plan in plans:
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
    if plan.machines.fleet.selective:
        return f"{spec.cohort.kind} has a client under this fleet"
    return f"{spec.cohort.kind} has a client"


def unknown_clients(scenario: Scenario, N: int) -> Findings:
    """Steps for other clients than there are, and malicious clients that do not exist."""
    spec = scenario.spec
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


def unknown_members(scenario: Scenario, cohort: Cohort, N: int) -> Findings:
    """Clients that the scenario lists in its cohort and that do not exist.

    Those that a file lists are left to `machines.require_members`.
    """
    section = scenario.spec.cohort
    if getattr(section, "path", None) is None:
        members = getattr(section, "rounds", cohort.names)
        yield from _beyond(members, N, ("cohort", "rounds"))


def _beyond(ids: Any, N: int, path: KeyPath) -> Findings:
    """Every client in a list, or in lists of a list, that does not exist."""
    if not isinstance(ids, list | tuple):
        return
    for i, id in enumerate(ids):
        if isinstance(id, list):
            yield from _beyond(id, N, (*path, i))
        elif id >= N:
            yield (*path, i), f"there is no client {id} (clients are 0 to {N - 1}); remove it"


def large_cohort(scenario: Scenario, cohort: Cohort, eligible: int) -> Findings:
    """A cohort that is larger than the clients that can be drawn."""
    if cohort.repeats:
        return
    section = scenario.spec.cohort
    size = getattr(section, "size", None)
    candidates = getattr(section, "candidates", None)
    limit = f"of {eligible} clients with samples; write at most {eligible}"
    if isinstance(size, int) and size > eligible:
        yield ("cohort", "size"), f"a cohort of {size} {limit}"
    if isinstance(candidates, int) and candidates > eligible:
        yield ("cohort", "candidates"), f"{candidates} candidates {limit}"


def server_samples(scenario: Scenario, rule: Link) -> Findings:
    """Samples that the server holds and no rule reads, or that a rule reads and it does not hold.

    Unread samples are lost to the clients. In a comparison that makes sense, next to a method that
    reads them.
    """
    spec = scenario.spec
    samples = spec.data.server.samples
    reads = rule.made.needs & SERVER_SAMPLE_NEEDS
    if reads and not samples:
        text = f"{rule.section.kind} reads samples that the server keeps for itself"
        remedy = "write them into the data section, as server: {samples: 100}, or use another rule"
        yield rule.path, f"{text}, and it keeps none; {remedy}"
    if "reference" in reads and isinstance(spec.client.steps, list):
        text = f"{rule.section.kind} trains the server as one more client"
        remedy = "write a single number, or epochs"
        yield ("client", "steps"), f"{text}, and these are steps of the others; {remedy}"
    if samples and not reads and not spec.compare.methods:
        text = "no link of server reads the server's own samples"
        reason = f"these {samples} would be lost to the clients"
        remedy = "remove it, or compare with trust or zeno"
        yield ("data", "server", "samples"), f"{text}, and {reason}; {remedy}"
