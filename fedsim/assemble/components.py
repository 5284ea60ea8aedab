"""What the factories of a scenario make without samples or a model."""

import contextlib
import inspect
import math
from typing import Any

from fedsim.assemble.cohort import cohort_of
from fedsim.assemble.facts import Facts
from fedsim.assemble.fields import fields, first_answer
from fedsim.assemble.hooks import make_link
from fedsim.assemble.links import Link, factory_of, links_at
from fedsim.assemble.problems import UNKNOWN
from fedsim.assemble.rates import client_rate
from fedsim.compose import FAMILIES
from fedsim.fleet import Local
from fedsim.scenario.reader import KeyPath
from fedsim.types import Rule


def make_components(facts: Facts) -> None:
    """Make what needs neither samples nor a model: clients, links, cohort, schedule."""
    scenario = facts.scenario
    spec = scenario.spec
    links = [link_at(facts, path, section) for path, section in links_of(spec)]
    made_links = [link for link in links if link.made is not UNKNOWN]
    facts.learn(
        cohort=facts.attempt(cohort_of, scenario, reads=[("cohort",)]),
        timetable=link_at(facts, ("schedule",), spec.schedule).made,
        links=links,
        further_links=[],
        made_links=made_links,
        rule=next((link for link in made_links if isinstance(link.made, Rule)), None),
        expects_drawn=False,
    )
    _make_client(facts)
    for field in fields().values():
        field.components(facts)


def link_at(facts: Facts, path: KeyPath, section: Any) -> Link:
    """Return a link with what its factory makes; UNKNOWN where that is refused."""
    made = facts.attempt(make_link, facts.scenario, path, section, reads=[path])
    return Link(path, section, made)


def _make_client(facts: Facts) -> None:
    """Make the client method, and say how much a client trains."""
    scenario = facts.scenario
    section = scenario.spec.client
    hook_keys = _hook_keys(section)
    client = facts.attempt(make_link, scenario, ("client",), section, reads=hook_keys)
    work_keys = [("client", key) for key in ("batch", "steps", "epochs")]
    local = facts.attempt(_local_of, section, reads=work_keys)

    # The program makes the optimizer once more, for learning rates that are traced.
    make_optimizer = factory_of(section.optimizer)
    facts.attempt(make_optimizer, 0.1, reads=[("client", "optimizer")])
    facts.learn(client=client, at_server=client, local=local)


def links_of(spec: Any) -> list[tuple[KeyPath, Any]]:
    """Return (path, section) of everything in `wire` and `server`, in this order.

    A field may have other links in place of `server`.
    """
    wire = [(("wire", i), section) for i, section in enumerate(spec.wire)]
    server = first_answer(lambda field: field.links(spec))
    return wire + (server or links_at(("server",), spec.server))


def not_federated_of(spec: Any) -> str:
    """Return `Client.not_federated` of a scenario's client method.

    It is empty for one that cannot be made, which is refused when the scenario is built.
    """
    with contextlib.suppress(ValueError):
        return factory_of(spec.client)().not_federated
    return ""


def _hook_keys(section: Any) -> list[KeyPath]:
    """Return the paths that decide a client's hooks: its kind and its hyper-parameters."""
    factory = FAMILIES[section.family][section.kind]
    names = inspect.signature(factory).parameters
    return [("method",), ("client", "kind"), *(("client", name) for name in names)]


def _local_of(section: Any) -> Local:
    rate = client_rate(section)
    return Local(
        batch=None if section.batch == "full" else section.batch,
        epochs=section.epochs,
        steps=section.steps,
        shuffle=section.shuffle is True,
        drop_last=section.drop_last,
        lr=rate.of_round,
        rate=rate.of_step,
        poisson=section.shuffle == "poisson",
        cap=_cap_of(section),
    )


def _cap_of(section: Any) -> int | None:
    """Return the samples of a Poisson batch at most; None where nothing bounds them."""
    if section.shuffle != "poisson" or section.batch == "full":
        return None
    return section.batch + math.ceil(8 * math.sqrt(section.batch)) + 8  # reached once in 10^13
