"""Every integer that a scenario can hold, and a tiny scenario around each: what the law of bounds goes through.

As a program (`python -m hostile.integers FAMILY`, in a process of its own) it reads, builds and, where it is accepted,
plays each integer of a family at values far beyond sense. It prints a line of JSON for each.
"""

import inspect
import json
import resource
import sys
import tempfile
import time
import types
import typing
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Union

import numpy as np
from annotated_types import Le, Lt
from hostile.numbers import OURS, _asked, _filled, _model, _placed, forget_peak, peak, within
from pydantic import BaseModel

import fedsim
from fedsim.build import build
from fedsim.build.experiment import numerics
from fedsim.kinds import FAMILIES
from fedsim.limits import MOST
from fedsim.machine import memory_now
from fedsim.scenario import read
from fedsim.scenario import sections as sections_module

HUGE = 2 * 10**9  # the largest round number that an int32 holds
VALUES = (HUGE, 2**63, -1)
SECONDS = 10
BYTES = 1 << 30
TOKENS = ("leaf", "text", "tff_hdf5")
SMALL = {"size": 2, "candidates": 3, "tiers": 2, "concurrency": 2, "buffer": 2, "clusters": 2, "groups": 2}
BESIDE = {  # kind, integer -> what must stand beside it
    ("label_flip", "source"): {"target": 1},
    ("label_flip", "target"): {"source": 1},
    ("count_sketch", "k"): {"columns": 10},
    ("concept_shift", "every"): {"groups": 2},
}


class Integer(NamedTuple):
    """An integer of a kind's signature, or of a section that is the same for all kinds.

    Attributes:
      family: of the kind, or `section`.
      kind: its name, or the name of the section.
      name: of the parameter or key.
      depth: how many lists it stands in.
      most: its upper bound; None where its annotation has none below that of all counters.
    """

    family: str
    kind: str
    name: str
    depth: int
    most: int | None

    @property
    def place(self) -> str:
        return f"{self.family} {self.kind}.{self.name}"


def of_kinds() -> Iterator[Integer]:
    """The integers of all registered kinds."""
    for family, kinds in FAMILIES.items():
        for kind, factory in kinds.items():
            for parameter in inspect.signature(factory, eval_str=True).parameters.values():
                yield from _integers(family, kind, parameter.name, parameter.annotation)


def of_sections() -> Iterator[Integer]:
    """The integers of the sections that are the same for all kinds."""
    for name, section in vars(sections_module).items():
        if (
            isinstance(section, type)
            and issubclass(section, BaseModel)
            and section.__module__ == sections_module.__name__
        ):
            for key, field in section.model_fields.items():
                annotation = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
                yield from _integers("section", name, key, annotation)


def _integers(family: str, kind: str, name: str, annotation: Any) -> Iterator[Integer]:
    for depth, notes in _bounds(annotation):
        yield Integer(family, kind, name, depth, _most(notes))


def _bounds(annotation: Any, notes: tuple = (), depth: int = 0) -> Iterator[tuple[int, tuple]]:
    """(lists around it, what is noted of it) of every integer in an annotation."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is int:
        yield depth, notes
    elif origin is Annotated:
        yield from _bounds(inside[0], inside[1:], depth)
    elif origin is list:
        yield from _bounds(inside[0], (), depth + 1)
    elif origin in (Union, types.UnionType):
        for member in inside:
            yield from _bounds(member, notes, depth)


def _most(notes: tuple) -> int | None:
    for note in notes:
        if isinstance(note, Le) and note.le < MOST:
            return note.le
        if isinstance(note, Lt) and note.lt <= MOST:
            return note.lt - 1
    return None


def scenario_with(integer: Integer, value: int | None, folder: Path) -> dict[str, Any]:
    """A tiny scenario in which the integer has a value; with None, the one around it."""
    written = {"kind": integer.kind, **_needed(integer)}
    if value is not None:
        written[integer.name] = _nested(value, integer)
    if "path" in written:
        written["path"] = str(file_for(integer.kind, folder))
    scenario = _placed(integer.family, written)
    if integer.kind in ("trust", "zeno"):
        scenario["data"] = {**scenario["data"], "server": {"samples": 4}}
    if integer.kind == "domains":
        path = str(file_for("npz", folder))
        scenario["data"] = {"kind": "npz", "path": path, "clients": 4, "partition": written}
    if integer.family == "data_attack":
        scenario["data"]["shape"] = [9, 9, 1]
    if integer.kind in TOKENS:
        scenario["model"] = {"kind": "char_gru", "embedding": 2, "width": 2, "layers": 1}
        del scenario["data"]["clients"]
    if integer.kind == "text":
        scenario["data"]["clients"] = 4
    return scenario


def _needed(integer: Integer) -> dict[str, Any]:
    """What a kind must be told, and what makes it small enough for four clients."""
    fields = _model(integer.family, integer.kind).model_fields
    needed = {name: _filled(name, field) for name, field in fields.items() if _asked(name, field)}
    small = {
        name: value for name, value in SMALL.items() if name in fields and integer.family in ("cohort", "timetable")
    }
    beside = BESIDE.get((integer.kind, integer.name), {})
    return {**needed, **small, **beside}


def _nested(value: int, integer: Integer) -> Any:
    if integer.family == "dataset" and integer.name == "size":
        return [value, 1]
    nested: Any = value
    for _ in range(integer.depth):
        nested = [nested]
    return nested


def file_for(kind: str, folder: Path) -> Path:
    """A small set of a kind, on disk."""
    from encoded import FORM, classes, encoded, image_column, saved, typed
    from leaf_sets import written as leaf_written
    from tff_sets import written as tff_written

    place = folder / kind
    if place.exists() and kind != "text":
        return place
    if kind == "npz":
        rng = np.random.default_rng(0)
        np.savez(folder / "set.npz", x=rng.normal(size=(60, 4)), y=np.arange(60) % 3, c=np.arange(60) % 5)
        return folder / "set.npz"
    images = [encoded(np.full((4, 4), i * 20, np.uint8)) for i in range(12)]
    place.mkdir(exist_ok=True)
    if kind == "text":
        (place / "t.txt").write_text("to be or not to be, that is the question. " * 40)
        return place / "t.txt"
    if kind == "imagefolder":
        for label in "ab":
            (place / label).mkdir()
            for i, image in enumerate(images):
                (place / label / f"{i}.png").write_bytes(image)
    if kind == "huggingface":
        import pyarrow as pa

        table = pa.table({"image": image_column(images), "label": [0, 1] * 6})
        saved(typed(table, {"image": FORM, "label": classes("a", "b")}), place)
    if kind == "leaf":
        tweet = lambda i: ["id", "date", "query", "user", f"good day number {i} and more"]
        users = {f"u{k}": ([tweet(i) for i in range(6)], [0, 4] * 3) for k in range(4)}
        leaf_written(place, "train", users)
    if kind == "tff_hdf5":
        tff_written(place / "set_train.h5", {f"c{k}": {"tokens": ["to be or not", "to be"] * 3} for k in range(4)})
    return place


def came_to(scenario: dict[str, Any], plays: bool) -> tuple[str, str]:
    """`refused` and the line, or `accepted` and how it ended."""
    try:
        read_one = read(scenario)
        with numerics(read_one) as devices:
            build(read_one, devices=devices[:1])
    except OURS as error:
        return "refused", str(error)
    return "accepted", fedsim.run(read_one).status if plays else ""


def main(family: str, *values: str) -> None:
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp())
    known = set()
    for integer in of_kinds():
        if integer.family != family:
            continue
        if integer.kind not in known:
            known.add(integer.kind)
            try:
                told = came_to(scenario_with(integer, None, folder), plays=False)
            except BaseException as error:
                told = "FAILED", f"{type(error).__name__}: {str(error)[:200]}"
            if told[0] != "accepted":
                print("BASE", integer.kind, told, flush=True)
        for value in map(int, values or VALUES):
            start, held = time.monotonic(), memory_now()
            forget_peak()
            try:
                with within(20):
                    told = came_to(scenario_with(integer, value, folder), plays=value > 0)
            except BaseException as error:
                told = "FAILED", f"{type(error).__name__}: {str(error)[:200]}"
            seconds, megabytes = time.monotonic() - start, (peak() - held) / 1e6
            print(
                json.dumps([integer.place, value, f"{seconds:.1f} s", f"{megabytes:.0f} MB", *told])[:330], flush=True
            )


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (7 * 10**9, resource.getrlimit(resource.RLIMIT_AS)[1]))
    main(*sys.argv[1:])
