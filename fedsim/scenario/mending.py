"""A refused scenario without its wrong values: what is left can be checked, and reported at once.

A wrong value is removed, so that its default takes its place, and its path is added to
`Document.broken`. Later checks skip what depends on it: a problem of the default alone is not the
author's.
"""

import copy
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from fedsim.errors import MAX_PROBLEMS, OrderError, Problem
from fedsim.kinds import FAMILIES
from fedsim.scenario.diagnostics import meant_paths, problem_at, texts_by_path
from fedsim.scenario.order import index_of_rule
from fedsim.scenario.reader import Document, KeyPath, value_at
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import Spec
from fedsim.scenario.shorthand import kind_name, with_optimizer

# A section that loses a key may be wrong without it, and has to go as well; and so on upwards.
MAX_PASSES = 6

METHOD = ("method",)
SERVER = ("server",)
OWNED = (METHOD, ("client",), SERVER)  # what a method that is compared may replace

# What takes the place of keys that a scenario must have.
STAND_INS: dict[KeyPath, Any] = {("name",): "unnamed", ("data",): "digits"}

# What takes the place of a link before the rule: other links keep their indices.
NEUTRAL_STAGE = {"kind": "clip", "norm": 1.0}
NEUTRAL_OPTIMIZER = {"kind": "sgd", "lr": 1.0}

_ABSENT = object()


def mended(document: Document, errors: list[Any]) -> tuple[Scenario | None, list[Problem]]:
    """Return a scenario without its wrong values, and the problems that these have hidden.

    Returns:
      The scenario, None if too little is left; and the further problems, none of which only follows
      from the others.
    """
    if len(errors) > MAX_PROBLEMS:
        return None, []

    hidden: dict[KeyPath, str] = {}
    scenario = None
    for attempt in range(MAX_PASSES):
        complete = with_optimizer(document)
        texts = texts_by_path(complete, Spec, complete.values, errors)
        if attempt > 0:
            for path, text in texts.items():
                if not touches(document.broken, path):
                    hidden[path] = text
        for path in texts:
            document = _without(document, _path_as_written(document, path))
        scenario, errors = _validated(document)
        if scenario is not None:
            break
    if scenario is None:
        return None, []

    problems = [problem_at(document, path, text) for path, text in hidden.items()]
    scenario, problems_of_order = in_sound_order(scenario)
    return scenario, [*problems, *problems_of_order]


def in_sound_order(scenario: Scenario) -> tuple[Scenario | None, list[Problem]]:
    """Return a scenario whose server list has a valid order, and what was wrong with its order."""
    problems: list[Problem] = []
    for _ in range(2):
        try:
            index_of_rule(scenario.spec.server)
            return scenario, problems
        except OrderError as error:
            index = error.index
            text = str(error)

        document = scenario.document
        if index is None and METHOD in document.broken:
            # The refused method would have brought the rule.
            links = [*document.values.get("server", []), "mean"]
            document = document._replace(values={**document.values, "server": links})
            broken: KeyPath = ("server", len(links) - 1)
        else:
            if not touches(document.broken, SERVER):
                path = SERVER if index is None else (*SERVER, index)
                problems.append(problem_at(document, path, text))
            document = _without(document, SERVER)
            broken = SERVER
        document = document._replace(broken=document.broken | {broken})

        repaired, _ = _validated(document)
        if repaired is None:
            return None, problems
        scenario = repaired
    return None, problems


def touches(broken: Iterable[KeyPath], path: KeyPath) -> bool:
    """Whether one of the broken paths is at, below or above a path."""
    return any(b[: len(path)] == path or path[: len(b)] == b for b in broken)


def with_refused(document: Document, paths: Iterable[KeyPath]) -> Document:
    """Return a document in which paths count as wrong, since a change of them was refused."""
    if METHOD in paths:
        document = _put(document, METHOD, _ABSENT)
    return document._replace(broken=document.broken.union(paths))


def _validated(document: Document) -> tuple[Scenario | None, list[Any]]:
    """Return the scenario of a document; or None, and pydantic's errors."""
    complete = with_optimizer(document)
    try:
        return Scenario(Spec.model_validate(complete.values), document), []
    except ValidationError as error:
        return None, error.errors()


def _path_as_written(document: Document, path: KeyPath) -> KeyPath:
    """Return a path below `client.optimizer` as that of the short key that is written."""
    optimizer = ("client", "optimizer")
    if path[:2] != optimizer or value_at(document.values, optimizer, _ABSENT) is not _ABSENT:
        return path
    return ("client", *path[2:])


def _without(document: Document, path: KeyPath) -> Document:
    """Return a document without what is wrong at a path."""
    if path[-1:] == ("<key>",):
        # The value of an unknown key was meant for another one, whose value is then not known.
        meant = meant_paths(path[:-1], Spec, document.values)
        document = _put(document, path[:-1], _ABSENT)
        return document._replace(broken=document.broken.union(meant))

    path = _replaceable(document, path)
    if not path:
        return document
    document = _put(document, path, _stand_in(document, path))
    return document._replace(broken=document.broken | {path})


def _replaceable(document: Document, path: KeyPath) -> KeyPath:
    """Return the lowest path, at or above a wrong value, without which the rest keeps its meaning.

    That is a key, or a link of `wire` or `server`.
    """
    if path[-1:] == ("kind",):
        path = path[:-1]
    # If something is missing, the section is wrong that should have it.
    while path and value_at(document.values, path, _ABSENT) is _ABSENT and path not in STAND_INS:
        path = path[:-1]
    while len(path) > 1 and isinstance(path[-1], int) and not _is_link(path):
        path = path[:-1]
    return path


def _is_link(path: KeyPath) -> bool:
    return len(path) == 2 and path[0] in ("wire", "server") and isinstance(path[1], int)


def _stand_in(document: Document, path: KeyPath) -> Any:
    """Return what takes the place of a wrong value: mostly nothing."""
    if not _is_link(path):
        return STAND_INS.get(path, _ABSENT)
    section, index = path
    if section == "wire":
        return NEUTRAL_STAGE
    links = document.values["server"]
    rules = [i for i, link in enumerate(links) if kind_name(link) in FAMILIES["rule"]]
    other_rules = [i for i in rules if i != index]
    if not other_rules:
        return "mean"
    return NEUTRAL_STAGE if path < (*SERVER, other_rules[0]) else NEUTRAL_OPTIMIZER


def _put(document: Document, path: KeyPath, value: Any) -> Document:
    """Return a document with another value at a path; without the key for `_ABSENT`."""
    *above, key = path
    if value_at(document.values, above, _ABSENT) is _ABSENT:
        return document
    values = dict(document.values)
    holder: Any = values
    for outer_key in above:
        holder[outer_key] = copy.copy(holder[outer_key])
        holder = holder[outer_key]
    if value is not _ABSENT:
        holder[key] = value
    elif value_at(holder, (key,), _ABSENT) is not _ABSENT:
        del holder[key]
    return document._replace(values=values)
