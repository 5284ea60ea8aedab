"""What machines need and take away, and what must hold between their keys."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedsim.assemble.facts import Facts
from fedsim.assemble.problems import Findings
from fedsim.assemble.traits import Reason, Voice
from fedsim.data.apportionment import count_of
from fedsim.field import ShareOfClients
from fedsim.fleet import Cohort

# Kinds of availability under which no data and no other client decide who can be reached.
INDEPENDENT = ("bernoulli", "lognormal", "markov")


def machine_voices(facts: Facts) -> Iterator[Voice]:
    """Keys of a fleet, where they are not their defaults."""
    fleet = facts.spec.fleet
    defaults: dict[str, Any] = {"deadline": None, "stragglers": None, "over_select": 1.0}
    for key, default in defaults.items():
        if getattr(fleet, key) != default:
            needs = [Reason("rounds", f"{key} is about rounds of one cohort")]
            yield Voice(("fleet", key), f"remove fleet.{key}", needs, [])
    if fleet.availability is not None and fleet.availability.kind == "label_dependent":
        takes = [Reason("noised_gradients", "who can be reached depends on labels")]
        yield Voice(("fleet", "availability"), "use bernoulli or markov", [], takes)


def missing_voice(facts: Facts) -> Voice:
    """Clients of a fleet that may be missing."""
    takes = []
    if facts.fleet.selective:
        takes.append(Reason("known_share", "the fleet does not tell who will be missing"))
    return Voice(("fleet",), "remove from fleet what makes clients miss a round", [], takes)


def shares(spec: Any, N: int, cohort: Cohort) -> Iterator[ShareOfClients]:
    """The share of stragglers."""
    if spec.fleet.stragglers is not None:
        share = spec.fleet.stragglers.share
        m = cohort.nominal(N)
        path = ("fleet", "stragglers", "share")
        yield ShareOfClients(path, share, m, m - count_of(1 - share, m))


def idle_fleet_keys(facts: Facts) -> Findings:
    """Keys of a fleet that would change nothing."""
    work_keys = [("client", key) for key in ("steps", "epochs")]
    facts.require_sound(("fleet",), ("cohort",), ("schedule",), *work_keys)
    spec = facts.spec
    fleet = spec.fleet
    if fleet.over_select > 1 and not isinstance(getattr(spec.cohort, "size", None), int):
        text = f"{spec.cohort.kind} has no size to end a round at"
        yield ("fleet", "over_select"), f"{text}; use the cohort uniform, or remove it"

    if not isinstance(fleet.dropout, float) and sum(fleet.dropout.model_dump().values()) > 1 + 1e-9:
        text = "before, during and after are probabilities of the same client"
        yield ("fleet", "dropout"), f"{text}, and more than 1 together; lower one"

    if fleet.partial_work and fleet.deadline is None:
        text = "nobody is late without a deadline"
        yield ("fleet", "partial_work"), f"{text}; write fleet.deadline, or remove it"

    if fleet.stragglers is not None and fleet.stragglers.work == "partial":
        name = "epochs" if spec.client.steps is None else "steps"
        if np.max(getattr(spec.client, name)) == 1:
            text = f"a straggler does 1 to E − 1 of E {name}, and client.{name} is 1"
            yield ("fleet", "stragglers"), f"{text}; write more, or work: drop"


def energy_of_clients(facts: Facts) -> Findings:
    """Joules of other clients than there are."""
    energy = facts.spec.fleet.energy
    for key in ("per_step", "per_byte"):
        joules = getattr(energy, key, None)
        if isinstance(joules, list) and len(joules) != facts.N:
            text = f"{len(joules)} numbers of joules for {facts.N} clients"
            yield ("fleet", "energy", key), f"{text}; write one per client, or a single number"


def private_fleet(facts: Facts) -> Findings:
    """A fleet in which data, or other clients, decide whose message counts."""
    spec = facts.spec
    privacy = getattr(spec, "privacy", None)  # the section may not be installed
    if privacy is None:
        return
    section = spec.fleet
    yield from _lost_noise(section, privacy.mechanism)
    available = section.availability
    if available is not None and available.kind != "always":
        path = ("fleet", "availability")
        if spec.cohort.kind == "uniform":
            text = "uniform draws its size among fewer clients than are counted"
            yield path, f"{text}; use the cohort poisson"
        elif available.kind not in INDEPENDENT:
            text = f"under {available.kind}, who can be reached depends on samples or on others"
            yield path, f"{text}; use {' or '.join(INDEPENDENT)}"
    if section.deadline is not None:
        text = "who is late depends on sizes and on who else came"
        yield ("fleet", "deadline"), f"{text}; remove it, or write fleet.dropout"
    if section.over_select > 1:
        text = "who counts depends on who else came"
        yield ("fleet", "over_select"), f"{text}; remove it"
    if section.stragglers is not None:
        text = "who is slow depends on who else came"
        yield ("fleet", "stragglers"), f"{text}; remove it, or write fleet.dropout"


def _lost_noise(fleet: Any, mechanism: Any) -> Findings:
    """Clients that leave with the noise that they would have added."""
    in_shares = hasattr(mechanism, "shares")  # every client adds its own
    if not in_shares or mechanism.shares is not None:
        return
    text = f"a client that is missing takes its share of the noise {mechanism.kind} along"
    remedy = "write privacy.mechanism.shares, the messages that a round needs"
    available = fleet.availability
    if available is not None and available.kind != "always":
        yield ("fleet", "availability"), f"{text}; {remedy}, or remove it"
    if fleet.dropout:
        yield ("fleet", "dropout"), f"{text}; {remedy}, or remove it"
