"""What the field calls by other names -> fedsim's names: `synonyms.csv`, for unknown words.

A row has the words that a user types (spaces between them), where, what to write (`ours`), a
remark, and perhaps `once`. Where is one of:

| where | the words are | `ours` is |
|---|---|---|
| `key` | keys; `key:top` at the top, `key:SECTION` in a section | a path |
| `key:FAMILY` | keys of a family's kinds | a path |
| `parameter` | parameters of kinds | names; the first that the kind has is meant |
| `value:PATH` | values of a key, or of an option | a value |
| `number:FAMILY` | `number`: a number in place of a kind | a kind |
| `suffix:FAMILY` | endings of a file's name in place of a kind | a kind |
| `kind` | kinds; `kind:FAMILY` of one family | a kind |
| `column` | columns of tables | a column |
| `option` | options; `option:COMMAND` of one command | an option |
| `command` | commands | a command line |
| `list` | what `fedsim list` is asked for | a command line |
| `absent` | any of these, and nothing of it exists in fedsim | the names that come nearest |

In texts `{value}` is what was typed as the value or kind, `{typed}` the word itself, `{number}` the
digits at its end, and `{rest}` the other words of the command line.

A row is about names that fedsim does not have. Once there is a kind or key of that name, or of a
name in `once`, that one is the answer (`fedsim.scenario.guesses`).
"""

import csv
import functools
import re
from typing import NamedTuple

from fedsim.installed import texts_of
from fedsim.spelling import plain, spellings

ABSENT = "absent"
PARAMETER = "parameter"


class Synonym(NamedTuple):
    """A row for one word."""

    typed: str
    where: str  # `key`, `kind:dataset` ...
    ours: str  # a key's path, an option, a command, a kind; empty where there is none
    remark: str
    once: tuple[str, ...] = ()  # names that are the answer as soon as they exist
    number: str = ""  # the digits that were typed after the word


@functools.cache
def synonyms() -> tuple[Synonym, ...]:
    """Return every word of the tables, in their order."""
    return tuple(
        Synonym(word, row["where"], row["ours"], row["remark"], tuple(row["once"].split()))
        for text in texts_of("synonyms.csv")
        for row in csv.DictReader(text.splitlines())
        for word in row["typed"].split()
    )


@functools.cache
def _by_word() -> dict[str, dict[str, list[Synonym]]]:
    """Return plain word -> where -> its rows."""
    rows_of: dict[str, dict[str, list[Synonym]]] = {}
    for row in synonyms():
        rows_of.setdefault(plain(row.typed), {}).setdefault(row.where, []).append(row)
    return rows_of


def synonym(typed: str, *wheres: str) -> Synonym | None:
    """Return the row of a word, for the first of several `where` that has one.

    Capitals, dashes and underscores make no difference, nor does what other tools add to a name.
    A number at the end may be left out.
    """
    words = spellings(typed)
    numbered = [re.fullmatch(r"(.*?\D)(\d+)", word) for word in words]
    candidates = [(word, "") for word in words]
    candidates += [match.groups() for match in numbered if match]
    for word, number in candidates:
        rows = _by_word().get(word, {})
        for where in wheres:
            row = rows[where][0] if where in rows else None
            if row is not None and (not number or _takes_number(row)):
                return row._replace(number=number)
    return None


def _takes_number(row: Synonym) -> bool:
    """Whether a row is also about its words with a number behind them, as in `vgg16`."""
    return "{number}" in row.ours or not row.ours or row.where == ABSENT


def parameters_like(typed: str) -> list[Synonym]:
    """Return the rows of a word as a parameter of a kind."""
    return _by_word().get(plain(typed), {}).get(PARAMETER, [])


def answer(synonym: Synonym, **values: str) -> str:
    """Return what to write instead, in words.

    Args:
      synonym: the row.
      values: texts for `{value}`, `{typed}` and `{rest}` in it.
    """
    if not synonym.ours:
        text = synonym.remark
    elif synonym.remark:
        text = f"write {synonym.ours} ({synonym.remark})"
    else:
        text = f"write {synonym.ours}"
    for name, value in {"number": synonym.number, **values}.items():
        text = text.replace(f"{{{name}}}", value)
    return text
