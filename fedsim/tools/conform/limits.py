"""Limits: under which condition a kind is another one, as its file claims."""

import functools
import inspect
from collections.abc import Iterator

import numpy as np

from fedsim.errors import did_you_mean
from fedsim.kinds import FAMILIES
from fedsim.tools.conform import rows
from fedsim.tools.conform.codecs import Channel, messages_of
from fedsim.tools.conform.findings import Law
from fedsim.tools.conform.rows import Stack, counterexample, in_words, numbers, size_of
from fedsim.tools.conform.rules import as_play
from fedsim.tools.conform.runs import TOLERANCE, apart, played, scenario_of, values_of
from fedsim.tools.conform.subjects import (
    ALWAYS,
    NOTHING,
    Section,
    Subject,
    as_section,
    made,
    refusal,
)

LOOSE = 1e-6  # of rules that iterate


def limits(subject: Subject) -> Iterator[Law]:
    """The limits that a subject's file claims, as laws."""
    known = FAMILIES[subject.family]
    for condition, limit in subject.limits.items():
        other = as_section(limit)
        if other["kind"] not in known and other["kind"] != NOTHING:
            near = did_you_mean(other["kind"], known, see="fedsim list")
            text = f"{condition!r}: there is no {subject.family} '{other['kind']}'{near}"
            raise refusal(f"limits of {subject.kind}", text)
        check = functools.partial(broken, condition=condition, other=other)
        yield Law(f"{condition}: {limit}", f"with {condition} it is {limit}", check)


def broken(subject: Subject, condition: str, other: Section) -> str:
    """The smallest case in which a kind is not its limit, in words; empty if none was found.

    A rule is first tried on stacks, where a counterexample can be small, then in a run. A codec is
    tried on messages: in a run the draws of two links differ.
    """
    section, edits = subject.under(condition)
    other = _with_arguments(subject.family, other, section, condition)
    if subject.family == "codec" and other["kind"] != NOTHING and not edits:
        return _on_messages(subject, section, other)
    if subject.family == "rule" and not edits:
        example = _on_stacks(subject, section, other)
        if example:
            return example
    return _in_runs(subject, section, other, edits)


def _with_arguments(family: str, other: Section, section: Section, condition: str) -> Section:
    """A limit with the arguments of the same names that the subject has.

    Under a condition these are those without which the limit cannot be made.
    """
    if other["kind"] == NOTHING:
        return other
    taken = {}
    for name, parameter in inspect.signature(FAMILIES[family][other["kind"]]).parameters.items():
        is_needed = parameter.default is parameter.empty or condition == ALWAYS
        if name in section and is_needed:
            taken[name] = section[name]
    return {**taken, **other}


def _on_stacks(subject: Subject, section: Section, other: Section) -> str:
    """A stack of which a rule and its limit make different trees."""
    one = made("rule", section)
    two = made("rule", other)
    needs = one.needs | two.needs
    play = as_play(section, needs)
    limit = as_play(other, needs)
    least = max(one.least, two.least, 1)
    mosts = [most for most in (one.most, two.most) if most is not None]

    def violation(stack: Stack) -> tuple[np.ndarray, np.ndarray] | None:
        actual = play(stack)
        expected = limit(stack)
        differ = rows.differ(actual, expected, size_of(stack), LOOSE)
        return (actual, expected) if differ else None

    tried = rows.stacks(subject.seed, least, min(mosts, default=None))
    example = counterexample(violation, tried, least)
    return "" if example is None else in_words(*example)


def _on_messages(subject: Subject, section: Section, other: Section) -> str:
    """A message that arrives otherwise under a codec and its limit, or takes other bits."""
    messages = messages_of(subject.seed)
    one = Channel(made("codec", section)).send(messages, subject.seed)
    two = Channel(made("codec", other)).send(messages, subject.seed)
    columns = zip(messages, *one, *two, strict=True)
    for message, actual, bits, expected, bits_expected in columns:
        if not np.allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE):
            arrives = f"{numbers(actual)} in place of {numbers(expected)}"
            return f"{numbers(message)} arrives as {arrives}"
        if bits != bits_expected:
            return f"{numbers(message)} takes {bits} bits in place of {bits_expected}"
    return ""


def _in_runs(subject: Subject, section: Section, other: Section, edits: tuple[str, ...]) -> str:
    """The first number of the model in which runs of a kind and of its limit differ.

    One round is tried first, then all.
    """
    scenario = scenario_of(subject, section)
    limit = scenario_of(subject, other)
    if any(edit.startswith("rounds=") for edit in edits):
        return _apart_in_runs(subject, scenario, limit, edits)
    for rounds in (1, scenario["rounds"]):
        length = (f"rounds={rounds}", f"evaluate.every={rounds}")
        example = _apart_in_runs(subject, scenario, limit, (*length, *edits))
        if example:
            return f"after round {rounds}: {example}"
    return ""


def _apart_in_runs(subject: Subject, scenario: dict, limit: dict, edits: tuple[str, ...]) -> str:
    """The first number of the final model in which two runs differ, in words."""
    one = played(subject, scenario, edits)
    two = played(subject, limit, edits)
    return apart(_model(values_of(one)), _model(values_of(two)), TOLERANCE)


def _model(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Without what clients and server remember, which may have other names."""
    return {name: array for name, array in values.items() if " " not in name}
