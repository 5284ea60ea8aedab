"""An asynchronous schedule: what it needs and takes away, and what must hold."""

from collections.abc import Iterator
from typing import Any

from fedsim.assemble.facts import Facts
from fedsim.assemble.problems import Findings
from fedsim.assemble.traits import SILENT, Reason, Voice
from fedsim.fleet import Cohort, Timetable

PATH = ("schedule",)


def schedule_voice(facts: Facts) -> Voice:
    """The schedule of a scenario."""
    voice = voice_of_schedule(facts.spec.schedule.kind, facts.timetable)
    if sends_twice(facts.timetable, facts.cohort):
        voice.takes.extend(_forgets(facts.spec.schedule))
    return voice


def voice_of_schedule(kind: str, timetable: Timetable) -> Voice:
    """A schedule alone, under which no client sends two messages between two steps."""
    if not timetable.asynchronous:
        return SILENT
    mixes = f"{kind} mixes updates of several rounds"
    needs = [Reason(noun, mixes) for noun in ("one_model", "whole_messages", "server_leaves")]
    needs.append(Reason("server", f"{kind} says when a server steps"))
    needs.append(Reason("seen_messages", f"{kind} takes messages one by one"))
    takes = [
        Reason("rounds", f"{kind} has clients with models of several rounds"),
        Reason("known_share", f"{kind} does not tell how often a client is drawn"),
        Reason("counted_draws", f"{kind} lets clients take part whenever they are ready"),
    ]
    return Voice(PATH, "use schedule: sync", needs, takes)


def _forgets(section: Any) -> Iterator[Reason]:
    """What nobody can remember of a client that may send two messages between two steps."""
    remedy = "use a cohort that is drawn"
    if section.kind == "fedbuff":
        remedy = "write restart: flush and a cohort that is drawn, or buffer: 1"
    text = f"a client of {section.kind} may send two messages before the server steps"
    yield Reason("message_memory", text, remedy)
    yield Reason("update_memory", text, remedy, at_taker=True)


def sends_twice(timetable: Timetable, cohort: Cohort) -> bool:
    """Whether an asynchronous server may take two messages of one client in one step.

    It may not where it takes one message at a time. Otherwise a client that has reported may be
    back before the step, unless all clients wait for it; and a cohort that names its clients may
    name one twice, which a drawn cohort does not.
    """
    waits_for_the_step = timetable.waits and not cohort.names
    return timetable.buffer > 1 and not waits_for_the_step


def too_many_at_a_time(facts: Facts) -> Findings:
    """More clients that train at a time than there are."""
    concurrency = facts.timetable.concurrency
    if facts.timetable.asynchronous and concurrency > facts.eligible:
        text = f"{concurrency} clients at a time of {facts.eligible} with samples"
        yield ("schedule", "concurrency"), f"{text}; write at most {facts.eligible}"
