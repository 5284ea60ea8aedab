"""Pydantic's errors in our words, at their place in the file."""

import types
import typing
from typing import Annotated, Any, Union

from pydantic import BaseModel

from fedsim.scenario.problems import Problem, did_you_mean, dotted
from fedsim.scenario.reader import Document, Path


def explain(document: Document, model: Any, errors: list[Any], above: Path = ()) -> list[Problem]:
    """Pydantic's errors in our words, one line per place in the file."""
    found: dict[Path, list[str]] = {}
    values: dict[Path, Any] = {}
    for error in errors:
        path, keys = _walk(model, error["loc"], above)
        match error["type"]:
            case "extra_forbidden":
                path, what = (*path, "<key>"), f"unknown key{did_you_mean(path[-1], keys)}"
            case "missing":
                what = "is required"
            case "union_tag_invalid":
                tag, known = error["ctx"]["tag"], error["ctx"]["expected_tags"].split(", ")
                path, what = (
                    (*path, "kind"),
                    f"no such kind '{tag}'{did_you_mean(tag, {k.strip(chr(39)) for k in known} - {'-', '--'})}",
                )
            case "union_tag_not_found":
                what = "needs a kind: write {kind: ...} or the name alone"
            case "value_error":
                what = str(error["ctx"]["error"])
            case _:
                what = error["msg"].replace("Input should be ", "should be ").replace("String should", "should")
                values[path] = error["input"]
        found.setdefault(path, []).append(what)
    return [problem_at(document, path, _joined(whats, values, path)) for path, whats in found.items()]


def _joined(whats: list[str], values: dict[Path, Any], path: Path) -> str:
    text = " or ".join(dict.fromkeys(w if i == 0 else w.removeprefix("should be ") for i, w in enumerate(whats)))
    return f"{text}, found {_short(values[path])}" if path in values else text


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def problem_at(document: Document, path: Path, what: str) -> Problem:
    """A problem with the place in the file that its path has, or the nearest one above it."""
    above = path
    while above and above not in document.places:
        above = above[:-1]
    return Problem(dotted(part for part in path if part != "<key>"), what, *document.places.get(above, (None, None)))


def _walk(model: Any, loc: tuple, path: Path = ()) -> tuple[Path, list[str]]:
    """A pydantic location -> the path in the file (without the names of union branches) and the keys known there."""
    origin, arguments = typing.get_origin(model), typing.get_args(model)
    if origin is Annotated:
        return _walk(arguments[0], loc, path)
    if isinstance(model, type) and issubclass(model, BaseModel):
        known = list(model.model_fields)
        if not loc or loc[0] not in known:
            return (*path, *loc[:1]), known
        return _walk(model.model_fields[loc[0]].annotation, loc[1:], (*path, loc[0]))
    if origin is list and loc:
        return _walk(arguments[0], loc[1:], (*path, loc[0]))
    if origin in (Union, types.UnionType):
        for member in arguments:
            if loc and getattr(member, "__name__", None) == loc[0]:
                return _walk(member, loc[1:], path)
    return (*path, *(part for part in loc if isinstance(part, int))), []
