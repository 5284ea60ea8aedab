"""Samples of the server, and the rules that read them."""

from fedsim.assemble.facts import Facts
from fedsim.assemble.problems import Findings
from fedsim.fields.server_samples import NEEDS


def unread_samples(facts: Facts) -> Findings:
    """Samples that the server holds and no rule reads, or that a rule reads and it does not hold.

    Unread samples are lost to the clients. In a comparison that makes sense, next to a method that
    reads them.
    """
    rule = facts.rule
    spec = facts.spec
    facts.require_sound(("compare", "methods"), ("client", "steps"))
    facts.require("N")  # before samples are split, too many for the server are not refused yet
    if rule is None or facts.refused("data.server"):
        return
    samples = spec.data.server.samples
    reads = rule.made.needs & set(NEEDS)
    if reads and not samples:
        text = f"{rule.section.kind} reads samples that the server keeps for itself"
        remedy = "write them into the data section, as server: {samples: 100}, or use another rule"
        yield rule.path, f"{text}, and it keeps none; {remedy}"
    if "reference" in reads and isinstance(spec.client.steps, list):
        text = f"{rule.section.kind} trains the server as one more client"
        remedy = "write a single number, or epochs"
        yield ("client", "steps"), f"{text}, and these are steps of the others; {remedy}"
    if samples and not reads and not spec.compare.methods:
        text = "no rule of server reads the server's own samples"
        reason = f"these {samples} would be lost to the clients"
        remedy = "remove it, or compare with trust or zeno"
        yield ("data", "server", "samples"), f"{text}, and {reason}; {remedy}"
