"""What the sections that every run has need, and what they take away."""

from collections.abc import Iterator

import jax

from fedsim.assemble.facts import Facts
from fedsim.assemble.traits import SILENT, Reason, Voice
from fedsim.fleet import Cohort
from fedsim.fleet.selection import FEEDBACK, HISTORY


def server_voice(facts: Facts) -> Voice:
    """The list `server`, where it is written."""
    needs = []
    written = facts.scenario.document.values
    by_method = bool(written.get("method"))
    if written.get("server"):
        whose = "the method" if by_method else "the list server"
        needs.append(Reason("server", f"{whose} says what a server does with updates"))
    path = ("method",) if by_method else ("server",)
    return Voice(path, f"remove {path[0]}", needs, [])


def cohort_voice(facts: Facts) -> Voice:
    """Who is drawn."""
    kind = facts.spec.cohort.kind
    voice = voice_of_cohort(kind, facts.cohort)
    if facts.scenario.document.values.get("cohort"):
        voice.needs.insert(0, Reason("server", "a cohort is drawn by a server", "remove cohort"))
    return voice


def voice_of_cohort(kind: str, cohort: Cohort) -> Voice:
    """A cohort alone."""
    needs = list(_cohort_needs(kind, cohort))
    takes = list(_cohort_takes(kind, cohort))
    return Voice(("cohort",), "use another cohort, such as uniform", needs, takes)


def _cohort_needs(kind: str, cohort: Cohort) -> Iterator[Reason]:
    if cohort.feedback or HISTORY in cohort.needs:
        words = " and ".join(f"the {FEEDBACK[name]} of" for name in cohort.feedback)
        text = f"{kind} looks at {words or 'who took part in'} the round before"
        yield Reason("rounds", text)
    if {"norm", "sketch"} & cohort.needs:
        yield Reason("parameters", f"{kind} looks at what clients send")
    if "labels" in cohort.needs:
        for noun in ("classes", "one_label"):
            text = f"{kind} is for samples with one class each"
            yield Reason(noun, text, path=("cohort", "kind"))
    if cohort.factors:
        yield Reason("factors", f"{kind} gives clients factors")
        yield Reason("seen_messages", f"{kind} weighs messages")
    elif cohort.repeats:
        yield Reason("factors", f"{kind} draws a client twice")


def _cohort_takes(kind: str, cohort: Cohort) -> Iterator[Reason]:
    if cohort.repeats or cohort.factors:
        does = "gives clients factors" if cohort.factors else "draws a client twice"
        remedy = "use the cohort uniform or poisson"
        yield Reason("update_memory", f"{kind} {does}", remedy, at_taker=True)
    if kind != "all":
        yield Reason("everybody", f"{kind} leaves clients out", "write cohort: all")
    if cohort.share is None:
        text = f"{kind} does not tell how often a client is drawn"
        yield Reason("known_share", text, "use the cohort uniform or poisson")
    if cohort.sampling is None:
        text = f"{kind} draws clients in a way that no accountant knows"
        yield Reason("counted_draws", text, "use a cohort such as all, poisson or uniform")
    if "loss" in cohort.needs:
        yield Reason("noised_gradients", f"{kind} draws clients by the losses on their samples")
    if "labels" in cohort.needs:
        yield Reason("noised_gradients", f"{kind} draws clients by their labels")


def message_voices(facts: Facts) -> Iterator[Voice]:
    """Sections about messages, where they are written."""
    spec = facts.spec
    if spec.wire:
        needs = [
            Reason("messages", "a wire changes messages"),
            Reason("changes", "a wire changes what clients send"),
        ]
        yield Voice(("wire",), "remove wire", needs, [])
    if spec.client.statistics != "averaged":
        needs = _all("running statistics are to be pooled", "statistics")
        yield Voice(("client", "statistics"), "remove client.statistics", needs, [])
    if spec.on_nonfinite == "keep":
        needs = _all("a message may keep numbers that are not finite", "seen_messages")
        yield Voice(("on_nonfinite",), "write on_nonfinite: drop or stop", needs, [])


def record_voices(facts: Facts) -> Iterator[Voice]:
    """What a run keeps of its rounds."""
    if facts.spec.checkpoint.updates:
        text = "the run keeps what single clients send"
        needs = _all(text, "federation", "server", "one_model", "server_leaves", "rows")
        yield Voice(("checkpoint", "updates"), "remove checkpoint.updates", needs, [])


def _all(text: str, *nouns: str) -> list[Reason]:
    """Several nouns that are needed for the same reason."""
    return [Reason(noun, text) for noun in nouns]


def fleet_voices(facts: Facts) -> Iterator[Voice]:
    """Keys of a fleet, where they are not their defaults."""
    fleet = facts.spec.fleet
    if fleet.malicious not in (0, []):
        needs = _all("malicious clients change what they send", "messages")
        yield Voice(("fleet", "malicious"), "remove fleet.malicious", needs, [])


def samples_voice(facts: Facts) -> Voice:
    """The samples."""
    takes = []
    if not facts.classes:
        remedy = "use data whose targets are classes"
        takes.append(Reason("classes", "these targets are numbers", remedy))
    if facts.per_token:
        takes.append(Reason("one_label", "here every token has one"))
    return Voice(("data",), "use data with a label for each sample", [], takes)


def model_voice(facts: Facts) -> Voice:
    """What a model section says about leaves."""
    section = facts.spec.model
    return voice_of_frozen_leaves() if section.freeze or section.train else SILENT


def voice_of_frozen_leaves() -> Voice:
    """Leaves of the model that are frozen."""
    takes = [Reason("all_leaves", "leaves of the model are frozen")]
    return Voice(("model",), "remove freeze, train and adapter", [], takes)


def outputs_voice(facts: Facts) -> Voice:
    """What a model returns."""
    takes = []
    if facts.model.features is None:
        takes.append(Reason("features", "this model returns none"))
    return Voice(("model",), "use a model with `features`, such as mlp or cnn", [], takes)


def stats_voice(facts: Facts) -> Voice:
    """The running statistics of a model."""
    kind = facts.spec.model.kind
    instead = "use a norm without statistics, such as group"
    takes = []
    if facts.shapes["stats"]:
        takes.append(Reason("update_alone", f"clients send batch statistics of {kind} as well"))
        takes.append(Reason("stateless_model", f"{kind} has batch statistics"))
    if facts.shapes["stats"] or facts.model.mixes_rows:
        text = f"in {kind}, the samples of a batch see each other"
        takes.append(Reason("sample_gradients", text))
    if not jax.tree.leaves(facts.shapes["stats"]):
        remedy = "use a norm with statistics, such as batch"
        takes.append(Reason("statistics", "the model has none", remedy))
    return Voice(("model",), instead, [], takes)
