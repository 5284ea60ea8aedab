"""The form of a `run.json`: its entries and their types.

A record that may be a stranger's is checked against it once, and then read without further checks.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fedsim.study.summary import SCORES

FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,255}", re.ASCII)  # part of one, which leads nowhere

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


class Every(NamedTuple):
    """A mapping of any names to values of one form."""

    form: Any


def count(value: Any) -> bool:
    """Whether a value is an integer of at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def positive(value: Any) -> bool:
    """Whether a value is an integer above 0."""
    return count(value) and value > 0


def number(value: Any) -> bool:
    """Whether a value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def seeds(value: Any) -> bool:
    """Whether a value is a list of seeds, at least one."""
    return isinstance(value, list) and value != [] and all(map(count, value))


def malicious(value: Any) -> bool:
    """Whether a value says which clients the attacker controls: a share, a list, or a mapping."""
    return number(value) or isinstance(value, list | dict)


def method_entry(value: Any) -> bool:
    """Whether a value names a method, or describes one."""
    return isinstance(value, str | dict)


def file_name(value: Any) -> bool:
    """Whether a value is a part of a file name."""
    return isinstance(value, str) and FILE_NAME.fullmatch(value) is not None


def moment(value: Any) -> bool:
    """Whether a value is a moment in UTC."""
    return isinstance(value, str) and MOMENT.fullmatch(value) is not None


def score(value: Any) -> bool:
    """Whether a value names a score."""
    return value in SCORES


def written(value: Any) -> bool:
    """Whether a value is the name and the text of a scenario file."""
    return isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value)


def anything(value: Any) -> bool:
    """Any value: it is only printed or compared."""
    del value
    return True


def optional(form: Any) -> Callable[[Any], bool]:
    """A value of a form, or None."""

    def is_optional(value: Any) -> bool:
        return value is None or not list(misfits(value, form))

    return is_optional


LINK = {"kind": str}

# The resolved scenario, as far as anything looks at it without reading it as a scenario.
SCENARIO = {
    "name": str,
    "rounds": count,
    "seeds": seeds,
    "data": {
        "kind": str,
        "partition": {**LINK, "path?": optional(str)},
        "clients?": optional(count),
        "path?": optional(str),
    },
    "model": {"kind": str, "loss?": optional(str)},
    "fleet?": {"malicious?": malicious},
    "cohort?": LINK,
    "client": {"kind": str, "lr": anything, "batch": anything},
    "wire?": [LINK],
    "server?": [LINK],
    "topology?": optional(LINK),
    "evaluate": {
        "every": positive,
        "last": positive,
        "metric": str,
        "target?": optional(number),
    },
    "numerics?": dict,
    "compare?": {
        "methods?": [method_entry],
        "vary?": optional(Every([anything])),
        "tune?": optional(Every(anything)),
    },
}
RECORD = {
    "status": str,
    "scenario": SCENARIO,
    "method": str,
    "names?": Every(file_name),
    "hashes": {
        "scenario": str,
        "data?": str,
        "partition?": Every(str),
        "start?": Every(str),
        "cells?": Every(str),
    },
    "supplied": [str],
    "own_links": Every(str),
    "environment": {"threads?": optional(count)},
    "surroundings": {
        "command": [str],
        "devices": [str],
        "cores": anything,
        "platform": str,
        "git?": optional({"commit": str}),
    },
    "not_federated?": Every(str),
    "fork?": {"scenario": str, "round": count, "fresh?": [str]},
    "written?": [written],
    "started?": moment,
    "wall_seconds?": number,
    "unfinished?": {"mark": str, "runs": Every([count]), "files?": [str]},
    "reasons?": Every(str),
    "files?": Every(str),
}
COMPARISON = {
    **RECORD,
    "baseline": str,
    "score": score,
    "cells": [{"method": str}],
    "planned?": Every({"rounds": count, "seeds": [count]}),
    "halves?": Every(str),
    "verdict?": [str],
}


def malformed(record: dict[str, Any], *needed: str) -> list[str]:
    """The entries of a record that are not as a run or a comparison writes them.

    Args:
      record: the content of a `run.json`.
      needed: names of entries that only the record of a finished run has, and this one must have.
    """
    missing = [name for name in needed if name not in record]
    kind = record.get("kind", "run")
    if kind == "run":
        return [*missing, *misfits(record, RECORD)]
    if kind == "compare":
        return [*missing, *misfits(record, COMPARISON)]
    return [*missing, "kind"]


def misfits(value: Any, form: Any, path: str = "") -> Iterator[str]:
    """The dotted paths of values that are not of a form.

    Args:
      value: a value of JSON.
      form: a type; a condition; `[form]` of a list's members; `Every(form)` of a mapping's values;
        or a dictionary with the forms of a mapping's entries, of which those whose names end with
        `?` may be missing. Other entries are allowed.
      path: where the value is.
    """
    if isinstance(form, type):
        if not isinstance(value, form):
            yield path
    elif isinstance(form, list):
        yield from _misfits_of_members(value, form[0], path)
    elif isinstance(form, Every):
        yield from _misfits_of_values(value, form.form, path)
    elif isinstance(form, dict):
        yield from _misfits_of_entries(value, form, path)
    elif not form(value):
        yield path


def _misfits_of_members(value: Any, form: Any, path: str) -> Iterator[str]:
    """Misfits of a list whose members all have one form."""
    if not isinstance(value, list):
        yield path
        return
    for index, member in enumerate(value):
        yield from misfits(member, form, f"{path}[{index}]")


def _misfits_of_values(value: Any, form: Any, path: str) -> Iterator[str]:
    """Misfits of a mapping whose values all have one form."""
    if not isinstance(value, dict):
        yield path
        return
    for name, entry in value.items():
        yield from misfits(entry, form, _dotted(path, name))


def _misfits_of_entries(value: Any, forms: dict[str, Any], path: str) -> Iterator[str]:
    """Misfits of a mapping whose entries have a form each."""
    if not isinstance(value, dict):
        yield path
        return
    for name, form in forms.items():
        key = name.removesuffix("?")
        inner_path = _dotted(path, key)
        if key in value:
            yield from misfits(value[key], form, inner_path)
        elif key == name:
            yield inner_path


def _dotted(path: str, name: str) -> str:
    """The path of an entry."""
    return f"{path}.{name}" if path else name
