"""What is left of a refused scenario without its wrong parts: the rest of it can be checked as well, and told at once.

A part that is wrong is left out, so that its default stands there, and its path is remembered in `Document.broken`. Whoever
checks further skips what depends on it: a problem that only the default would have is not the reader's.
"""

from collections.abc import Callable, Iterable
from typing import Any

from pydantic import ValidationError

from fedsim.errors import MOST_PROBLEMS, OrderError, Problem, ScenarioError
from fedsim.kinds import ALIASES, FAMILIES
from fedsim.scenario.diagnostics import blamed, meant_paths, problem_at
from fedsim.scenario.order import index_of_rule
from fedsim.scenario.reader import Document, Path, value_at
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import Spec
from fedsim.scenario.shorthand import with_optimizer

PASSES = 6  # a part that is left out may leave its section without what it needs, and so on upwards
STAND_INS = {("name",): "unnamed", ("data",): "digits"}  # for what a scenario must have
METHOD = ("method",)
OWNED = (METHOD, ("client",), ("server",))  # what a method that is compared may replace
LINKS = ("wire", "server")
NEUTRAL = {"kind": "clip", "norm": 1.0}  # stands for a link before the rule
_ABSENT = object()


def mended(document: Document, errors: list[Any]) -> tuple[Scenario | None, list[Problem]]:
    """A scenario of the parts that are not wrong, and the problems that the wrong ones hid.

    Args:
      document: as written.
      errors: pydantic's.

    Returns:
      The scenario, or None where too little is left; and further problems, none of which is a mere consequence.
    """
    if len(errors) > MOST_PROBLEMS:
        return None, []
    hidden: dict[Path, str] = {}
    for number in range(PASSES):
        complete = with_optimizer(document)
        texts = blamed(complete, Spec, complete.values, errors)
        if number:
            hidden |= {
                path: text for path, text in texts.items() if not touches(document.broken, path)
            }
        for path in texts:
            document = _without(document, _as_written(document, path))
        scenario, errors = _validated(document)
        if scenario is not None:
            break
    else:
        return None, []
    problems = [problem_at(document, path, text) for path, text in hidden.items()]
    ordered, misplaced = in_sound_order(scenario)
    return ordered, [*problems, *misplaced]


def in_sound_order(scenario: Scenario) -> tuple[Scenario | None, list[Problem]]:
    """The scenario with a server list whose links stand in an order that means something, and what was wrong with it."""
    problems: list[Problem] = []
    for _ in range(2):
        try:
            index_of_rule(scenario.spec.server)
            return scenario, problems
        except OrderError as error:
            document, path = (
                scenario.document,
                ("server",) if error.index is None else ("server", error.index),
            )
            if (
                METHOD in document.broken and error.index is None
            ):  # which would have brought the rule
                links = [*document.values.get("server", []), "mean"]
                broken = {("server", len(links) - 1)}
                document = document._replace(values={**document.values, "server": links})
            else:
                if not touches(document.broken, ("server",)):
                    problems.append(problem_at(document, path, str(error)))
                broken = {("server",)}
                document = _without(document, ("server",))
            repaired, _ = _validated(document._replace(broken=document.broken | broken))
            if repaired is None:
                return None, problems
            scenario = repaired
    return None, problems


def touches(broken: Iterable[Path], path: Path) -> bool:
    """Whether one of these parts is at, below or above a path."""
    return any(part[: len(path)] == path or path[: len(part)] == part for part in broken)


def _validated(document: Document) -> tuple[Scenario | None, list[Any]]:
    """The scenario that a document is, or None and pydantic's errors."""
    complete = with_optimizer(document)
    try:
        return Scenario(Spec.model_validate(complete.values), document), []
    except ValidationError as error:
        return None, error.errors()


def _as_written(document: Document, path: Path) -> Path:
    """A path below `client.optimizer` in a document that has its keys in short."""
    short = (
        path[:2] == ("client", "optimizer")
        and value_at(document.values, path[:2], _ABSENT) is _ABSENT
    )
    return ("client", *path[2:]) if short else path


def _without(document: Document, path: Path) -> Document:
    """The document without what is wrong at a path."""
    if path[-1:] == (
        "<key>",
    ):  # a key that is not known: what it was to say, its neighbours do not
        meant = meant_paths(path[:-1], Spec, document.values)
        return _put(document, path[:-1], _ABSENT)._replace(broken=document.broken | meant)
    part = _replaceable(document, path)
    if not part:
        return document
    return _put(document, part, _stand_in(document, part))._replace(broken=document.broken | {part})


def _replaceable(document: Document, path: Path) -> Path:
    """The smallest part around a path without which the rest keeps its meaning: a key, or a link of wire or server."""
    if path[-1:] == ("kind",):
        path = path[:-1]
    while path and value_at(document.values, path, _ABSENT) is _ABSENT and path not in STAND_INS:
        path = path[:-1]  # something is missing in it
    while len(path) > 1 and isinstance(path[-1], int) and not (len(path) == 2 and path[0] in LINKS):
        path = path[:-1]
    return path


def _stand_in(document: Document, part: Path) -> Any:
    """What stands in the place of a wrong part: mostly nothing."""
    if part in STAND_INS:
        return STAND_INS[part]  # pyright: ignore[reportArgumentType]
    name, *place = part
    if name not in LINKS or len(place) != 1 or not isinstance(place[0], int):
        return _ABSENT
    if name == "wire":
        return NEUTRAL
    links = document.values["server"]
    rules = [i for i, link in enumerate(links) if i != place[0] and _kind(link) in FAMILIES["rule"]]
    if not rules:
        return "mean"
    return NEUTRAL if place[0] < rules[0] else {"kind": "sgd", "lr": 1.0}


def _kind(link: Any) -> str:
    kind = str(link.get("kind", "") if isinstance(link, dict) else link)
    return ALIASES.get(kind, kind)


def _put(document: Document, path: Path, value: Any) -> Document:
    """The document with another value at a path; without the key for `_ABSENT`."""

    def replaced(holder: Any, rest: Path) -> Any:
        key, *below = rest
        known = value_at(holder, (key,), _ABSENT)
        if below:
            return (
                _with(holder, key, replaced(known, tuple(below)))
                if known is not _ABSENT
                else holder
            )
        return _with(holder, key, value)

    return document._replace(values=replaced(document.values, path))


def _with(holder: Any, key: Any, value: Any) -> Any:
    """A mapping or list with another value at a key."""
    if isinstance(holder, list):
        return [*holder[:key], *([] if value is _ABSENT else [value]), *holder[key + 1 :]]
    if not isinstance(holder, dict):
        return holder
    others = {name: inner for name, inner in holder.items() if name != key}
    return others if value is _ABSENT else {**holder, key: value}


def attempted(
    document: Document,
    change: Callable[[Document], Document],
    parts: Iterable[Path],
    problems: list[Problem],
) -> Document:
    """The document after a change; where that is refused, as it was before.

    Args:
      document: as written.
      change: an edit, or the method merged in.
      parts: that it would have changed; they count as wrong where the change is refused.
      problems: what is said against it is added to them.
    """
    try:
        return change(document)
    except ScenarioError as error:
        problems += error.problems
        if METHOD in parts:
            document = _put(document, METHOD, _ABSENT)
        return document._replace(broken=document.broken.union(parts))
