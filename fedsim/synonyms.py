"""What the field calls by other names -> ours: `synonyms.csv`, read when something that was typed is unknown.

A row has the words that are typed (spaces between them), where (`key`, `option`, `command`, `kind`; behind a colon the
section, command or family that it is about), what to write (`ours`), and a remark. `{value}` is what was typed as the
value or kind, `{rest}` the other words of the command line. A row speaks only of what is not there: once fedsim has a
kind or key of that name, the name means that, and a test asks for the row to be taken out.
"""

import csv
import functools
import re
from importlib.resources import files
from typing import NamedTuple


class Synonym(NamedTuple):
    """A row for one word."""

    typed: str
    where: str  # `key`, `kind:dataset` ...
    ours: str  # a key's path, an option, a command, a kind; empty where there is none
    remark: str


@functools.cache
def synonyms() -> tuple[Synonym, ...]:
    """Every word of the table, in its order."""
    text = files("fedsim").joinpath("synonyms.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return tuple(
        Synonym(word, row["where"], row["ours"], row["remark"])
        for row in rows
        for word in row["typed"].split()
    )


def synonym(typed: str, *wheres: str) -> Synonym | None:
    """The row of a word at the first of these places that has one; capitals, dashes and underscores make no difference."""
    word = _plain(typed)
    at = {s.where: s for s in reversed(synonyms()) if _plain(s.typed) == word}
    return next((at[where] for where in wheres if where in at), None)


def answer(synonym: Synonym, **values: str) -> str:
    """What to write instead, in words."""
    text = (
        f"write {synonym.ours}" + (f" ({synonym.remark})" if synonym.remark else "")
        if synonym.ours
        else synonym.remark
    )
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _plain(word: str) -> str:
    """`batchSize`, `batch-size` and `batch_size` are one word."""
    return re.sub(r"[^a-z0-9]", "", word.lower())
