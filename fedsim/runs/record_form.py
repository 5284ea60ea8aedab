"""The form of a `run.json`: which entries it has, and of which type, so that a stranger's is checked once and then read."""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fedsim.study.summary import SCORES


class Every(NamedTuple):
    """A mapping of any names to values of one form."""

    form: Any


def count(value: Any) -> bool:
    """Whether a value is an integer of at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def number(value: Any) -> bool:
    """Whether a value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def maybe(form: Any) -> Callable[[Any], bool]:
    """A value of this form, or none."""
    return lambda value: value is None or not any(misfits(value, form))


def anything(value: Any) -> bool:
    """Any value: it is only printed or compared."""
    return True


FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,255}", re.ASCII)  # a part of one, which leads nowhere
LINK = {"kind": str}
SCENARIO = {  # resolved; as far as it is looked at before it is read, or without being read
    "name": str,
    "rounds": count,
    "seeds": lambda value: isinstance(value, list) and value != [] and all(map(count, value)),
    "data": {
        "kind": str,
        "partition": {**LINK, "path?": maybe(str)},
        "clients?": maybe(count),
        "path?": maybe(str),
    },
    "model": {"kind": str, "loss?": maybe(str)},
    "fleet?": {"malicious?": lambda value: number(value) or not any(misfits(value, [anything]))},
    "cohort": LINK,
    "client": {"kind": str, "lr": anything, "batch": anything},
    "wire?": [LINK],
    "server": [LINK],
    "evaluate": {
        "every": lambda value: count(value) and value > 0,
        "last": lambda value: count(value) and value > 0,
        "metric": str,
        "target?": maybe(number),
    },
    "numerics?": dict,
    "compare?": {
        "methods?": [lambda value: isinstance(value, str | dict)],
        "vary?": maybe(Every([anything])),
        "tune?": maybe(Every([anything])),
    },
}
RECORD = {
    "status": str,
    "scenario": SCENARIO,
    "method": str,
    "names?": Every(
        lambda value: isinstance(value, str) and FILE_NAME.fullmatch(value) is not None
    ),
    "hashes": {
        "scenario": str,
        **dict.fromkeys(("data?",), str),
        **dict.fromkeys(("partition?", "start?", "cells?"), Every(str)),
    },
    "supplied": [str],
    "own_links": Every(str),
    "environment": {"threads?": maybe(count)},
    "surroundings": {
        "command": [str],
        "devices": [str],
        "cores": anything,
        "platform": str,
        "git?": maybe({"commit": str}),
    },
    "wall_seconds?": number,
    "unfinished?": {"mark": str, "runs": Every([count]), "files?": [str]},
    "reasons?": Every(str),
    "files?": Every(str),
}
COMPARISON = {
    **RECORD,
    "baseline": str,
    "score": lambda value: value in SCORES,
    "cells": [{"method": str}],
    "planned?": Every({"rounds": count, "seeds": [count]}),
    "halves?": Every(str),
    "verdict?": [str],
}


def malformed(record: dict[str, Any], *needed: str) -> list[str]:
    """Entries of a record that are not as a run or a comparison writes them.

    Args:
      record: of a `run.json`.
      needed: entries that one of a run that has ended has.
    """
    kind = record.get("kind", "run")
    form = {"run": RECORD, "compare": COMPARISON}.get(kind) if isinstance(kind, str) else None
    missing = [name for name in needed if name not in record]
    return [*missing, *(misfits(record, form) if form else ("kind",))]


def misfits(value: Any, form: Any, path: str = "") -> Iterator[str]:
    """Dotted paths of values that are not of a form.

    Args:
      value: of JSON.
      form: a type; a condition; `[form]` of a list's members; `Every(form)` of a mapping's values; or a dictionary of the
        forms of a mapping's entries, those with `?` behind their names need not be there, and others may.
      path: of the value.
    """
    inside: Iterator[tuple[str, Any, Any]] = iter(())
    if isinstance(form, type):
        fits = isinstance(value, form)
    elif isinstance(form, list):
        fits = isinstance(value, list)
        inside = (
            (f"{path}[{i}]", member, form[0]) for i, member in enumerate(value if fits else ())
        )
    elif isinstance(form, Every):
        fits = isinstance(value, dict)
        inside = (
            (_dotted(path, name), entry, form.form)
            for name, entry in (value if fits else {}).items()
        )
    elif isinstance(form, dict):
        fits = isinstance(value, dict)
        inside = (
            (_dotted(path, name.rstrip("?")), *_entry(value, name, one))
            for name, one in form.items()
            if fits
        )
    else:
        fits = form(value)
    if not fits:
        yield path
    for inner_path, inner, inner_form in inside:
        yield from misfits(inner, inner_form, inner_path)


def _entry(value: dict[str, Any], name: str, form: Any) -> tuple[Any, Any]:
    """An entry of a mapping and its form; one that is missing is of its form where it may be."""
    key = name.rstrip("?")
    return (
        (value[key], form) if key in value else (None, anything if name != key else lambda _: False)
    )


def _dotted(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
