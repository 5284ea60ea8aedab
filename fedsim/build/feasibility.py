"""What a scenario must satisfy once its data and its model are known: everything else is a line with a place and a remedy."""

from collections.abc import Iterator
from typing import Any

import jax
from pydantic import BaseModel

from fedsim.build.links import link
from fedsim.data import Federation
from fedsim.engine.footprint import widest
from fedsim.fleet import Plan
from fedsim.scenario.expected import shown
from fedsim.scenario.schema import Scenario
from fedsim.types import Model

LABELS = "needs classes, and these targets are numbers; take data with labels, or another method"
NEEDS = {
    "classes": LABELS,
    "labels": LABELS,
    "features": "compares features, and this model tells none; take mlp or cnn, or a model with `features`",
}


def known_needs(scenario: Scenario, needs: frozenset[str], net: Model, classes: int) -> None:
    """What a client method wants to know must be there."""
    there = {"classes": classes > 0, "labels": classes > 0, "features": net.features is not None}
    if missing := [name for name in sorted(needs) if not there[name]]:
        raise scenario.error(("client", "kind"), f"{scenario.spec.client.kind} {NEEDS[missing[0]]}")


def no_idle_key(scenario: Scenario, unused: frozenset[str]) -> None:
    """A key that a client method makes no use of says nothing: better a line than a number that means something else."""
    section = scenario.spec.client
    for name in sorted(unused):
        value = getattr(section, name)
        default: Any = type(section).model_fields[name].default
        if isinstance(value, BaseModel):  # kind and whatever else was written
            value, default = value.model_dump(exclude_defaults=True), {"kind": default}
        if value != default:
            what = f"{section.kind} makes no use of it, and would do the same without; take it out"
            raise scenario.error(("client", name), what)


def right_partner(scenario: Scenario) -> None:
    """A rule that makes sense behind one client method alone stands behind it, with the same hyper-parameters."""
    for i, section in enumerate(scenario.spec.server):
        partner = link(section)().client if section.family == "rule" else None
        if partner is None:
            continue
        (kind, same), client = partner, scenario.spec.client
        if client.kind != kind:
            what = f"{section.kind} undoes what the client method {kind} does, and client.kind is {client.kind}"
            raise scenario.error(("server", i), f"{what}; write method: {kind}, or another rule")
        for name, value in same.items():
            if (found := getattr(client, name)) != value:
                what = f"is {shown(value)} here and {shown(found)} in client.{name}; both sides need the same"
                raise scenario.error(("server", i, name), what)


def possible_rule(scenario: Scenario, least: int, K: int, sums: bool, repeats: bool) -> None:
    """The rule against the nominal cohort; survivors are checked again in every round."""
    if least > K:
        path, section = next(found for found in _ordered(scenario.spec) if _least(found[1]) == least)
        names = [n for n in ("f", "trim", "select", "neighbours") if getattr(section, n, None) is not None]
        what = f"{section.kind} needs at least {least} reporting clients, the cohort has {K}"
        instead = f"lower {' or '.join(names)}, or enlarge the cohort" if names else "enlarge the cohort"
        raise scenario.error((*path, *names[:1]), f"{what}; {instead}")
    if repeats and not sums:
        what = f"{scenario.spec.cohort.kind} draws a client twice, which only a rule that is a sum can weigh"
        raise scenario.error(("cohort",), f"{what}; use the rule mean, or another cohort")


def _ordered(spec: Any) -> list[tuple[tuple, Any]]:
    """(path, section) of all links that see a stack."""
    lists = {"wire": spec.wire, "server": spec.server}
    found = [((name, i), section) for name, sections in lists.items() for i, section in enumerate(sections)]
    return [(path, section) for path, section in found if section.family != "optimizer"]


def _least(section: Any) -> int:
    return getattr(link(section)(), "least", 1)


def known_clients(scenario: Scenario, N: int, names: Any) -> None:
    """Clients that are written by id must be there; `names` are those that the cohort names itself."""
    spec = scenario.spec
    if isinstance(spec.client.steps, list) and len(spec.client.steps) != N:
        what = f"{len(spec.client.steps)} numbers of steps for {N} clients; write one per client, or a single number"
        raise scenario.error(("client", "steps"), what)
    named = {("cohort", "rounds"): getattr(spec.cohort, "rounds", names), ("fleet", "malicious"): spec.fleet.malicious}
    for section, ids in named.items():
        for path, unknown in _beyond(ids, N, section):
            raise scenario.error(path, f"there is no client {unknown}; clients are 0 to {N - 1}, take it out")


def enough_clients(scenario: Scenario, eligible: int, repeats: bool) -> None:
    """A cohort is no larger than what can be drawn."""
    size = getattr(scenario.spec.cohort, "size", 0)
    if size > eligible and not repeats:
        what = f"a cohort of {size} of {eligible} clients with samples; write at most {eligible}"
        raise scenario.error(("cohort", "size"), what)


def _beyond(ids: Any, N: int, path: tuple) -> Iterator[tuple[tuple, int]]:
    """(path, id) of every client in a list, or in lists of a list, that is not there."""
    for i, id in enumerate(ids if isinstance(ids, list | tuple) else ()):
        if isinstance(id, list):
            yield from _beyond(id, N, (*path, i))
        elif id >= N:
            yield (*path, i), id


def fitting_model(scenario: Scenario, net: Model, federation: Federation, plan: Plan, variables: Any) -> int:
    """One batch, traced only: shapes that do not fit are a line, not a traceback; and no short batch may be mixed.

    Returns:
      Bytes of the largest value that the model makes of a batch.
    """
    sizes = federation.sizes[plan.eligible]
    wide = plan.local.widest(sizes)
    x = jax.ShapeDtypeStruct((wide, *federation.x.shape[1:]), federation.x.dtype)
    mask, key = jax.ShapeDtypeStruct((wide,), bool), jax.eval_shape(jax.random.key, 0)
    try:
        forward = lambda v, x, mask, key: net.apply(v, x, mask=mask, key=key, train=True)
        activations = widest(forward, variables, x, mask, key)
    except (TypeError, ValueError) as error:
        raise scenario.error(("model",), str(error).splitlines()[0]) from None
    short = (sizes < wide) if scenario.spec.client.drop_last else (sizes % wide != 0)
    if net.mixes_rows and short.any():
        what = f"mixes the rows of a batch without looking at mask, and client {plan.eligible[short.argmax()]} has short batches"
        raise scenario.error(("model",), f"{what}; set client.drop_last and a batch that every client can fill")
    return activations


def read_server_samples(scenario: Scenario) -> None:
    """Samples that the server keeps are there for a rule that asks for them; else they are lost to the clients."""
    spec = scenario.spec
    asked = any("server" in link(section)().needs for section in spec.server if section.family == "rule")
    if spec.data.server.samples and not asked:
        what = f"no link of server reads the server's own samples, and these {spec.data.server.samples} would be lost"
        raise scenario.error(("data", "server", "samples"), f"{what} to the clients; take it out")
