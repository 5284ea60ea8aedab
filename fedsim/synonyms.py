"""What the field calls by other names -> fedsim's names: `synonyms.csv`, for unknown words.

A row has the words that a user types (spaces between them), where (`key`, `option`, `command`,
`kind`, `python`; behind a colon the section, command or family that it is about), what to write
(`ours`), and a remark. `{value}` is what was typed as the value or kind, `{rest}` the other words
of the command line.

Rows of `python` are names that fedsim had in earlier versions.

A row is about names that fedsim does not have. Once there is a kind or key of that name, the name
means that, and a test asks for the row to be removed.
"""

import csv
import functools
import re
from importlib.resources import files
from typing import NamedTuple

# What Python says of a name that does not exist -> the name.
ERRORS = {
    r"(\w+)\.__new__\(\) got an unexpected keyword argument '(\w+)'": r"\1.\2",
    r"'(\w+)' object has no attribute '(\w+)'": r"\1.\2",
    r"No module named '([\w.]+)'": r"\1",
    r"^'(\w+)'$": r"aux.\1",
}


class Synonym(NamedTuple):
    """A row for one word."""

    typed: str
    where: str  # `key`, `kind:dataset` ...
    ours: str  # a key's path, an option, a command, a kind; empty where there is none
    remark: str


@functools.cache
def synonyms() -> tuple[Synonym, ...]:
    """Return every word of the table, in its order."""
    text = files("fedsim").joinpath("synonyms.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return tuple(
        Synonym(word, row["where"], row["ours"], row["remark"])
        for row in rows
        for word in row["typed"].split()
    )


def synonym(typed: str, *wheres: str) -> Synonym | None:
    """Return the row of a word, for the first of several `where` that has one.

    Capitals, dashes and underscores make no difference.
    """
    word = _plain(typed)
    rows: dict[str, Synonym] = {}  # by `where`; the first one of each counts
    for row in synonyms():
        if _plain(row.typed) == word:
            rows.setdefault(row.where, row)
    return next((rows[where] for where in wheres if where in rows), None)


def answer(synonym: Synonym, **values: str) -> str:
    """Return what to write instead, in words.

    Args:
      synonym: the row.
      values: texts for `{value}` and `{rest}` in it.
    """
    if not synonym.ours:
        text = synonym.remark
    elif synonym.remark:
        text = f"write {synonym.ours} ({synonym.remark})"
    else:
        text = f"write {synonym.ours}"
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def renamed(name: str) -> str:
    """Return a line about a Python name of earlier versions; empty for any other.

    >>> renamed("fedsim.types.Facts"), renamed("fedsim.types.Fact")
    ('fedsim.types.Facts is now fedsim.types.Work', '')
    """
    row = synonym(name, "python")
    return f"{name} is now {row.ours}" if row is not None else ""


def renamed_in(error: Exception) -> str:
    """Return `renamed` of the name that an error is about.

    >>> renamed_in(TypeError("Client.__new__() got an unexpected keyword argument 'first'"))
    'Client.first is now Client.probe'
    """
    for pattern, name in ERRORS.items():
        match = re.search(pattern, str(error))
        if match is not None:
            return renamed(match.expand(name))
    return ""


def _plain(word: str) -> str:
    """`batchSize`, `batch-size` and `batch_size` are one word."""
    return re.sub(r"[^a-z0-9]", "", word.lower())
