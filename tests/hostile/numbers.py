"""Every number of a scenario, from the schema, at its extremes in an otherwise tiny scenario.

As a program (`python -m hostile.numbers PLACE`, in its own process) it plays all cases of a place
under a limit of address space. It prints a line of JSON for each that went wrong, and a last one
with the outcomes of the others.
"""

import inspect
import json
import resource
import sys
import traceback
import types
import typing
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, NamedTuple, Union

import jax
from fits.combinations import kinds, loaded, over, scenario
from hostile.confinement import forget_peak, peak, within
from pydantic import BaseModel

import fedsim
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.errors import DataError, ScenarioError
from fedsim.machine import memory_now
from fedsim.scenario import read
from fedsim.scenario.annotations import annotation_of, kinds_of
from fedsim.scenario.schema import AllowedKinds
from fedsim.scenario.sections import Spec

WHOLE = [0, 1, -1, 10**9, 10**18, -(10**18)]
REAL = [0.0, 1.0, -1.0, 1e9, 1e38, -1e38, 5e-324, 1e-40]
OURS = (ScenarioError, DataError)
SPACE = 6 * 10**9  # bytes of address space of a child: JAX alone maps more than two
MOST = 1 << 30  # bytes that a case may hold on top
SECONDS = 300  # after which a case hangs, however slow the machine is
DATA = {"kind": "gaussian_blobs", "shape": [4], "classes": 3, "samples": 60, "clients": 4}
TINY = {"name": "tiny", "rounds": 2, "data": DATA, "client": {"batch": 4, "steps": 2}}
ROWS = {  # as in `fits/kinds.yaml`
    **loaded("kinds.yaml"),
    "dataset": {"written": {"data": "KIND"}},
    "partition": {"written": {"data": {"partition": "KIND"}}},
    "model": {"written": {"model": "KIND"}, "arguments": {"cnn": {"channels": [2], "hidden": 4}}},
    "loss": {"written": {"model": {"kind": "logistic", "loss": "KIND"}}},
    "schedule": {"written": {"client": {"lr": "KIND"}}},
    "method": {"written": {"method": "KIND"}},
}
WITHIN = {"dataset": {"data": {"clients": 4}}, "model": {"data": {"shape": [4, 4, 1]}}}
FAMILIES = (*ROWS, "sections")


class Case(NamedTuple):
    """A scenario with one extreme number."""

    title: str
    scenario: dict[str, Any]


def cases(place: str) -> Iterator[Case]:
    """All cases of the kinds at a place, or of the sections that are the same for all kinds."""
    if place == "sections":
        yield from _of_sections()
        return
    row = ROWS[place]
    family = row.get("family", place)
    for name, fragment in kinds(place, row).items():
        kind = name.removeprefix(f"{place} ")
        model = _model(family, kind)
        known = inspect.signature(fedsim.compose.FAMILIES[family][kind]).parameters
        needed = {
            name: next((1 if type is int else 0.5 for type in _numbers(field.annotation)), "x")
            for name, field in model.model_fields.items()
            if field.is_required() and name != "kind"
        }
        for parameter, value in _extremes(model):
            if parameter in known:
                changed = _changed(fragment, kind, needed, {parameter: value})
                written = scenario(over(WITHIN.get(place, {}), changed))
                yield Case(f"{name}.{parameter} = {value}", written)


def _changed(fragment: Any, kind: str, needed: dict[str, Any], values: dict[str, Any]) -> Any:
    """A fragment whose link of a kind has all that it needs, and these values."""
    if isinstance(fragment, list):
        return [_changed(link, kind, needed, values) for link in fragment]
    if not isinstance(fragment, dict):
        return fragment
    if fragment.get("kind") == kind:
        return {**needed, **fragment, **values}
    return {key: _changed(value, kind, needed, values) for key, value in fragment.items()}


def _of_sections() -> Iterator[Case]:
    for name, value in _extremes(Spec):
        yield Case(f"{name} = {value}", {**TINY, name: value})
    commons = {"data": _model("dataset", "gaussian_blobs"), "client": _model("client", "sgd")}
    for name in ("data", "client", "fleet", "evaluate", "numerics", "checkpoint"):
        model = commons.get(name) or Spec.model_fields[name].annotation
        for key, value in _extremes(model):
            section = {**TINY.get(name, {}), key: value}
            if key == "epochs":
                section.pop("steps")
            yield Case(f"{name}.{key} = {value}", {**TINY, name: section})
    for value in WHOLE:
        data = {**DATA, "server": {"samples": value}}
        yield Case(f"data.server.samples = {value}", {**TINY, "data": data})


def _model(family: str, kind: str) -> type[BaseModel]:
    """The model of a kind, with what its family has in common."""
    at = {"dataset": "data", "client": "client"}.get(family)
    kinds = kinds_of(annotation_of(Spec.model_fields[at])) if at else AllowedKinds(family)
    return next(one.model for one in kinds if one.name == kind)


def _numbers(annotation: Any, depth: int = 0) -> dict[type, int]:
    """The numbers that may stand somewhere -> in how many lists."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in (int, float):
        return {annotation: depth}
    if origin is Annotated:
        return _numbers(inside[0], depth)
    if origin is list:
        return _numbers(inside[0], depth + 1)
    found: dict[type, int] = {}
    for member in inside if origin in (Union, types.UnionType) else ():
        found = {**_numbers(member, depth), **found}
    return found


def _extremes(model: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    """(field, extreme value) of every field of a section that takes numbers."""
    for name, field in model.model_fields.items():
        for kind, depth in _numbers(field.annotation).items():
            for value in WHOLE if kind is int else REAL:
                for _ in range(depth):
                    value = [value]
                yield name, value


def outcome(case: Case) -> str:
    """Return `refused`, `done`, `diverged` ... for a case; anything else is an error."""
    forget_peak()
    held = memory_now()
    try:
        with within(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "labels run from|test labels|XLA runs with")
            result = _played(case)
    except OURS as error:
        lines = str(error).splitlines()
        assert lines and all(
            line.isprintable() and len(line) < 420 and ": " in line for line in lines
        ), lines
        result = f"refused: {type(error).__name__}"
    assert peak() - held < MOST, f"held {(peak() - held) / 1e6:.0f} MB"
    return result


def _played(case: Case) -> str:
    checked = read(case.scenario)
    with numerics(checked) as devices:
        build(checked, devices=devices[:1])
    return fedsim.run(checked).status


def main(place: str, every: int = 1) -> None:
    """Play every `every`-th case of a place; print a line for each failure, then the outcomes."""
    resource.setrlimit(resource.RLIMIT_AS, (SPACE, resource.getrlimit(resource.RLIMIT_AS)[1]))
    came_to: Counter[str] = Counter()
    for number, case in enumerate(islice(cases(place), None, None, every)):
        print(f"{number} {case.title}", file=sys.stderr, flush=True)
        try:
            came_to[outcome(case)] += 1
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{where.filename}:{where.lineno}"
            what = f"{type(error).__name__}: {str(error)[:300]}"
            print(json.dumps({"case": case.title, "what": what, "at": place}), flush=True)
        if number % 100 == 99:
            jax.clear_caches()
    print(json.dumps({"came to": came_to}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
