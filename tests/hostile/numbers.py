"""Every number of a scenario, from the schema, at its extremes in an otherwise tiny scenario.

As a program (`python -m hostile.numbers FAMILY`, in its own process) it plays all cases of a family
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
NEEDED = {
    "seconds": [1.0],
    "f": 0,
    "codec": {"kind": "top_k", "k": 1},
    "rounds": [[0, 1]],
    "transition_steps": 2,
    "decay_steps": 4,
    "warmup_steps": 1,
}
PLACES = (
    "dataset",
    "partition",
    "model",
    "loss",
    "cohort",
    "client",
    "rule",
    "stage",
    "attack",
    "codec",
    "mechanism",
    "speed",
    "link",
    "availability",
    "optimizer",
    "schedule",
)
FAMILIES = (*PLACES, "method", "local optimizer", "sections")


class Case(NamedTuple):
    """A scenario with one extreme number."""

    title: str
    scenario: dict[str, Any]
    plays: bool = True  # whether two rounds are played when it is admitted


def cases(family: str) -> Iterator[Case]:
    """All cases of a family of links, or of the sections that are the same for all kinds."""
    if family == "sections":
        yield from _of_sections()
        return
    kinds = fedsim.compose.FAMILIES["optimizer" if family == "local optimizer" else family]
    for kind in kinds:
        model = _model("optimizer" if family == "local optimizer" else family, kind)
        needed = {
            name: _filled(name, field)
            for name, field in model.model_fields.items()
            if _asked(name, field)
        }
        for name, value in _extremes(model):
            if name in inspect.signature(kinds[kind]).parameters and (family, name) != (
                "local optimizer",
                "lr",
            ):
                written = {"kind": kind, **needed, name: value}
                # after the rule each is played; on clients only the outermost, the rest is built
                plays = family != "local optimizer" or value in (1e38, -1e38, 5e-324)
                yield Case(f"{family} {kind}.{name} = {value}", _placed(family, written), plays)


def _of_sections() -> Iterator[Case]:
    for name, value in _extremes(Spec):
        plays = name != "rounds" or (isinstance(value, int) and value <= 2)
        yield Case(f"{name} = {value}", {**TINY, name: value}, plays)
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


def _asked(name: str, field: Any) -> bool:
    return (
        name != "kind"
        and (field.is_required() or name == "lr")
        and name not in ("partition", "optimizer")
    )


def _filled(name: str, field: Any) -> Any:
    """A plain value for a parameter that must be given."""
    return NEEDED.get(
        name, next((1 if kind is int else 0.5 for kind in _numbers(field.annotation)), "x")
    )


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


def _placed(family: str, written: dict[str, Any]) -> dict[str, Any]:
    """The tiny scenario with a link of a family."""
    images = {**TINY, "data": {**DATA, "shape": [4, 4, 1]}}
    client = {"lr": 0.1, **TINY["client"]}
    match family:
        case "dataset":
            small = {"classes": 3, "samples": 60} if written["kind"] == "gaussian_blobs" else {}
            few = {"clients": 4} if "clients" not in written else {}
            return {**TINY, "data": {**small, **few, **written}}
        case "partition":
            return {**TINY, "data": {**DATA, "partition": written}}
        case "mechanism":
            spent = {"clip": 1.0, "noise_multiplier": 1.0, "delta": 1e-5, "accountant": "rdp"}
            return {**TINY, "cohort": "all", "privacy": {**spent, "mechanism": written}}
        case "model":
            return {
                **images,
                "model": {
                    **({"channels": [2], "hidden": 4} if written["kind"] == "cnn" else {}),
                    **written,
                },
            }
        case "loss":
            return {**TINY, "model": {"kind": "logistic", "loss": written}}
        case "client":
            return {
                **TINY,
                "model": {"kind": "mlp", "hidden": [4]},
                "client": {**TINY["client"], **written},
            }
        case "rule":
            return {
                **TINY,
                "server": [written],
                "client": {"kind": _partner(written), **TINY["client"]},
            }
        case "stage":
            return {**TINY, "server": [written, "mean"]}
        case "attack":
            return {**TINY, "fleet": {"malicious": 0.25}, "wire": [written]}
        case "speed" | "availability":
            return {**TINY, "fleet": {family: written}}
        case "link":
            return {**TINY, "fleet": {"links": written}}
        case "codec":
            uniform = {"kind": "mean", "weights": "uniform"}  # as sums of integers need it
            return {**TINY, "wire": [written], "server": [uniform]}
        case "optimizer":
            return {**TINY, "server": ["mean", written]}
        case "local optimizer":
            return {
                **TINY,
                "client": {**client, "optimizer": {n: v for n, v in written.items() if n != "lr"}},
            }
        case "schedule":
            return {**TINY, "client": {**TINY["client"], "lr": written}}
        case "method":
            return {**TINY, "model": {"kind": "mlp", "hidden": [4]}, "method": written}
    return {**TINY, family: written}


def _partner(written: dict[str, Any]) -> dict[str, Any] | str:
    return "fednova" if written["kind"] == "nova" else "sgd"


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
    scenario = read(case.scenario)
    with numerics(scenario) as devices:
        build(scenario, devices=devices[:1])
    return fedsim.run(scenario).status if case.plays else "admitted"


def main(family: str, every: int = 1) -> None:
    """Play every `every`-th case of a family; print a line for each failure, then the outcomes."""
    resource.setrlimit(resource.RLIMIT_AS, (SPACE, resource.getrlimit(resource.RLIMIT_AS)[1]))
    came_to: Counter[str] = Counter()
    for number, case in enumerate(islice(cases(family), None, None, every)):
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
