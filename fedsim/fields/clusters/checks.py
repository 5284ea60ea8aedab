"""Servers with several models: what must hold of their number."""

from fedsim.assemble.facts import Facts
from fedsim.assemble.problems import Findings


def too_many_models(facts: Facts) -> Findings:
    """More models than there are clients for."""
    bank = facts.client.bank
    if bank is None:
        return
    path = ("client", "clusters")
    if bank.choice is not None and bank.models > facts.eligible:
        text = f"{bank.models} models for {facts.eligible} clients with samples"
        yield path, f"{text}; write at most {facts.eligible}"
    elif bank.grouping is not None and (bank.grouping.least or 1) > facts.K:
        text = f"{bank.grouping.least} groups of the {facts.K} clients of a round"
        yield path, f"{text}; write at most {facts.K}, or enlarge the cohort"
