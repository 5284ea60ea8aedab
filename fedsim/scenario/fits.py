"""What goes with what: for `fedsim explain` and `fedsim list --with`.

It is read from what kinds and sections say of themselves, alone and with the least arguments.
Whether numbers fit, such as f and the size of a cohort, `fedsim check` says of a scenario.
"""

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

from fedsim.errors import Problem, ScenarioError, did_you_mean
from fedsim.kinds import ALIASES
from fedsim.kinds.shipped import homes
from fedsim.scenario.expected import plural_of
from fedsim.scenario.index import remedy

Traits = dict[str, dict[str, str]]
"""`needs` and `takes`: each of them noun -> why."""

MOST = 5  # kinds of a family that a line names


@functools.cache
def _recorded() -> dict[str, Any]:
    recorded: dict[str, Any] = {}
    for folder in homes().values():
        file = folder / "traits.json"
        if file.exists():
            for family, kinds in json.loads(file.read_text(encoding="utf-8")).items():
                recorded.setdefault(family, {}).update(kinds)
    return recorded


def nouns() -> dict[str, str]:
    """Return noun -> what is there unless something takes it away."""
    return _recorded()["nouns"]


def traits() -> dict[str, dict[str, Traits]]:
    """Return family -> kind -> its traits; sections are the family `section`."""
    return {family: kinds for family, kinds in _recorded().items() if family != "nouns"}


def needs_and_takes(kind_traits: Traits) -> dict[str, str]:
    """Return `needs NOUN` or `takes away NOUN` -> why, and who meets it there."""
    lines = {}
    for noun, why in kind_traits["needs"].items():
        if partners := _names("takes", noun):
            lines[f"needs {noun}"] = f"{why}; not beside {partners}"
    for noun, why in kind_traits["takes"].items():
        if partners := _names("needs", noun):
            lines[f"takes away {noun}"] = f"{why}; not beside {partners}"
    return lines


def _names(side: str, noun: str) -> str:
    """The kinds and sections that take a noun away, or need it, by family."""
    return "; ".join(_shortly(family, kinds) for family, kinds in meeting(side, noun))


def _shortly(family: str, kinds: list[str]) -> str:
    """The kinds of a family, or the first of many."""
    if family == "section":
        return ", ".join(kinds)
    more = f" and {len(kinds) - MOST} more" if len(kinds) > MOST + 1 else ""
    named = kinds[:MOST] if more else kinds
    return f"{plural_of(family) if len(kinds) > 1 else family} {', '.join(named)}{more}"


def meeting(side: str, noun: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (family, kinds) of those that have a noun on a side, `needs` or `takes`."""
    for family, of_kinds in traits().items():
        kinds = [kind for kind, each in of_kinds.items() if noun in each[side]]
        if kinds:
            yield family, kinds


def refusal(one: Traits, other: Traits) -> str:
    """Return why two kinds do not go together, or nothing where they do."""
    for needing, taking in ((one, other), (other, one)):
        for noun, why in needing["needs"].items():
            if noun in taking["takes"]:
                return f"{why}, and {taking['takes'][noun]}"
    return ""


def traits_named(name: str) -> tuple[str, Traits]:
    """Return the family and the traits of a kind or section, by its name or as FAMILY/NAME."""
    family, _, word = name.rpartition("/")
    word = ALIASES.get(word, word)
    matches = [
        (each, of_kinds[word])
        for each, of_kinds in traits().items()
        if word in of_kinds and family in ("", each, plural_of(each))
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        text = f"'{word}' is a kind of several families; write {matches[0][0]}/{word}"
        raise ScenarioError([Problem("", text)], "list")
    known = [kind for of_kinds in traits().values() for kind in of_kinds]
    text = f"nothing is known of what goes with '{name}'{remedy(word) or did_you_mean(word, known)}"
    raise ScenarioError([Problem("", text)], "list")


def by_reason(reasons: dict[str, str]) -> dict[str, list[str]]:
    """Return reason -> the kinds that have it, where only the kind's name differs."""
    grouped: dict[str, list[str]] = {}
    for kind, reason in reasons.items():
        if reason:
            grouped.setdefault(re.sub(rf"\b{kind}\b", "each", reason), []).append(kind)
    return {
        reasons[kinds[0]] if len(kinds) == 1 else text: kinds for text, kinds in grouped.items()
    }
