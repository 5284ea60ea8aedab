"""What a word that means nothing here was meant as: the table of synonyms, and what is registered.

A row of the table counts as long as nothing has the name that it is about. As soon as there is a
kind or a key of that name, the name answers itself.
"""

from fedsim.kinds import ALIASES, FAMILIES
from fedsim.scenario.expected import SECTIONS_OF, joined, with_article
from fedsim.scenario.sections import Spec
from fedsim.spelling import plain
from fedsim.synonyms import ABSENT, Synonym, answer, synonym


def meant(word: str, *wheres: str, **values: str) -> str:
    """Return what to write for a word, by the table; empty if it is not there."""
    row = row_of(word, *wheres)
    return in_words(row, word, **values) if row else ""


def row_of(word: str, *wheres: str) -> Synonym | None:
    """Return the row of a word; one of what does not exist here counts wherever it is typed."""
    return synonym(word, *wheres, ABSENT)


def in_words(row: Synonym, word: str, **values: str) -> str:
    """Return what to write for a word, by its row, or by what exists since the row was written."""
    for name in new_names(row, word):
        return what_is(name)
    values = {"value": word, "typed": word, "rest": _usual_argument(row.ours), **values}
    if row.where in ("command", "list") and row.ours:
        row = row._replace(ours=f"fedsim {row.ours}")
    if row.where != ABSENT:
        return answer(row, **values)

    nearest = row.ours.split()
    reason = f"; {row.remark}" if row.remark else ""
    names = f"{joined(nearest)} (fedsim explain {nearest[0]})"
    return f"it does not exist in fedsim; nearest: {names}{reason}"


def _usual_argument(command: str) -> str:
    """Return the argument of a command, for one that was typed without any."""
    arguments = {"new": "NAME", "explain": "NAME", "data describe": "PATH"}
    arguments |= dict.fromkeys(("run", "compare", "check", "data partition"), "SCENARIO")
    return arguments.get(command.partition(" {rest}")[0], "DIRECTORY")


def new_names(row: Synonym, word: str) -> list[str]:
    """Return the names that a row waits for and that exist by now."""
    waited_for = row.once
    if row.where == ABSENT:
        waited_for = (word, *row.once)
    return [name for name in waited_for if families_with(name) or name in Spec.model_fields]


def what_is(name: str) -> str:
    """Return what an existing name is, and how to see it; empty for any other word.

    >>> what_is("Krum")
    'krum is a rule, which belongs in server: fedsim explain krum'
    """
    if name in Spec.model_fields:
        return f"write {name} (fedsim explain {name})"
    kinds = families_with(name)
    if not kinds:
        return ""
    kind = next(iter(kinds.values()))
    return f"{kind} is {belonging(kinds)}: fedsim explain {kind}"


def belonging(kinds: dict[str, str]) -> str:
    """Return of family -> kind what it is in each family, and where that belongs."""
    return joined(
        f"{with_article([family])}, which belongs in {SECTIONS_OF.get(family, family)}"
        for family in kinds
    )


def families_with(name: str) -> dict[str, str]:
    """Return family -> kind of a name, in any spelling; the method first."""
    word = plain(name)
    by_alias = {plain(alias): kind for alias, kind in ALIASES.items()}
    kinds: dict[str, str] = {}
    for family in ("method", *FAMILIES):
        for kind in FAMILIES[family]:
            if word and plain(kind) in (word, plain(by_alias.get(word, ""))):
                kinds[family] = kind
    return kinds
