"""What cannot work under an asynchronous schedule, as checks like those of `feasibility`.

Its server has no rounds of one cohort, and one client may send two messages between two of its
steps.
"""

from typing import Any

import jax

from fedsim.assemble.links import Link
from fedsim.assemble.problems import Findings
from fedsim.assemble.programs import Training
from fedsim.assemble.wire import remembers
from fedsim.fleet import Cohort, Timetable
from fedsim.fleet.selection import FEEDBACK, HISTORY
from fedsim.scenario.scenario import Scenario
from fedsim.types import Rule

INSTEAD = "use schedule: sync, or another"


def asynchronous_cohort(
    scenario: Scenario, timetable: Timetable, cohort: Cohort, eligible: int
) -> Findings:
    """A cohort that looks at the round before, or fewer clients than are to train at a time."""
    if not timetable.asynchronous:
        return
    spec = scenario.spec
    if cohort.feedback or HISTORY in cohort.needs:
        words = " and ".join(f"the {FEEDBACK[name]}" for name in cohort.feedback)
        text = f"{spec.cohort.kind} looks at {words or 'who took part'} of the round before"
        yield ("cohort",), f"{text}, and {spec.schedule.kind} has none; {INSTEAD} cohort"
    if timetable.concurrency > eligible:
        text = f"{timetable.concurrency} clients at a time of {eligible} with samples"
        yield ("schedule", "concurrency"), f"{text}; write at most {eligible}"


def asynchronous_client(
    scenario: Scenario, timetable: Timetable, trained: Training, shared: Any
) -> Findings:
    """A client method that remembers a row of its last round; `shared`: shapes of the variables."""
    if not timetable.asynchronous:
        return
    key = jax.eval_shape(jax.random.key, 0)
    row = jax.eval_shape(trained.client.memory, shared, key)
    if jax.tree.leaves(row):
        spec = scenario.spec
        culprit = "optimizer_state" if spec.client.optimizer_state == "carry" else "kind"
        text = "a client remembers a row of its last round"
        reason = f"may send two messages between two steps of the server under {spec.schedule.kind}"
        yield ("client", culprit), f"{text}, and {reason}; {INSTEAD} method"


def asynchronous_links(
    scenario: Scenario,
    timetable: Timetable,
    cohort: Cohort,
    trained: Training,
    links: list[Link],
) -> Findings:
    """Links that need one message a round of each client, or one model for all of them."""
    if not timetable.asynchronous:
        return
    spec = scenario.spec
    kind = spec.schedule.kind
    if sends_twice(timetable, cohort):
        yield from _forgetting(kind, links)
    if spec.broadcast:
        text = f"clients of {kind} get the model at different times"
        yield ("broadcast",), f"{text}; {INSTEAD} downlink"

    for link in links:
        if isinstance(link.made, Rule) and len(link.made.adapter.freezes) > 1:
            text = f"{link.section.kind} trains leaves in turn"
            reason = f"clients of {kind} start in different turns"
            yield link.path, f"{text}, and {reason}; {INSTEAD} rule, as lora_mean(how=product)"

    needs_losses = any("loss" in getattr(link.made, "needs", ()) for link in links)
    if trained.client.probe is not None or needs_losses:
        culprit = ("server",) if needs_losses else ("client", "kind")
        text = "the method has a pass at the model of the round before training"
        yield culprit, f"{text}, and {kind} has clients with several models; {INSTEAD} method"


def sends_twice(timetable: Timetable, cohort: Cohort) -> bool:
    """Whether an asynchronous server may take two messages of one client in one step.

    It may not where it takes one message at a time. Otherwise a client that has reported may be
    back before the step, unless all clients wait for it; and a cohort that names its clients may
    name one twice, which a drawn cohort does not.
    """
    waits_for_the_step = timetable.waits and not cohort.names
    return timetable.buffer > 1 and not waits_for_the_step


def _forgetting(kind: str, links: list[Link]) -> Findings:
    """Links that remember one message of a client, where a step may have two."""
    remembering = [link for link in links if remembers(link.made)]
    if kind == "fedbuff":
        instead = "write restart: flush and a cohort that is drawn, or buffer: 1, or use another"
    else:
        instead = "use a cohort that is drawn, or another"

    for link in remembering:
        if not isinstance(link.made, Rule):
            text = "remembers a client's last message, and it may send two between two steps"
            yield link.path, f"{link.section.kind} {text}; {instead} link"
    if any(isinstance(link.made, Rule) for link in remembering):
        text = "the rule remembers one update of a client, and a buffer may have two"
        yield ("schedule",), f"{text}; {instead} rule"
