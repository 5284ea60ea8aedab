"""Every integer that a scenario can hold, each in a tiny scenario: all have bounds that hold.

As a program (`python -m hostile.integers FAMILY`, in its own process) it reads and builds each
integer of a family at absurd values and, where one is accepted, plays it. It prints a line of JSON
for each that is neither refused nor harmless, as `REASONS` says, and a last one with the counts.
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
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Union

import numpy as np
import workbooks
from annotated_types import Ge, Gt, Le, Lt
from hostile.numbers import OURS, TINY, _asked, _filled, _model, _placed, forget_peak, peak, within
from hostile.reasons import CAPPED, COMPARED, COUNTED, COUNTER, SEED, reasons

import fedsim
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.kinds import FAMILIES
from fedsim.limits import MAX_INTEGER
from fedsim.machine import memory_now
from fedsim.scenario import read
from fedsim.scenario.schema import Section

HUGE = 2 * 10**9  # the largest round number that an int32 holds
SECONDS = 10  # of the processor, to read and to build
BYTES = 1 << 30  # held by that, and by two rounds
SPACE = 12 * 10**9  # bytes of address space of a process that plays

TOKENS = ("leaf", "shakespeare_shaped", "text", "tff_hdf5")
BASES: dict[str, dict[str, Any]] = {  # kind -> what a tiny scenario needs of it
    "label_flip": {"source": 1, "target": 2},
    "xlsx": {"target": "y"},
    "top_k": {"k": 1},
    "rand_k": {"k": 1},
    "semantic": {"clusters": 2},
    "domains": {"column": "c", "values": 2},
    "count_sketch": {"columns": 10},
    "fedbuff": {"concurrency": 2, "buffer": 2},
    "fedasync": {"concurrency": 2},
    "semi_sync": {"concurrency": 2},
    "mlp": {"hidden": [4]},
    "cnn": {"channels": [2], "hidden": 4},
    "char_gru": {"embedding": 2, "width": 2, "layers": 1},
    "char_lstm": {"embedding": 2, "width": 2, "layers": 1},
    "transformer": {"heads": 1, "width": 4, "layers": 1},
}
COHORT = {"size": 2, "candidates": 3, "tiers": 2}


class Integer(NamedTuple):
    """An integer in the signature of a kind, or in a section that is the same for all kinds.

    Attributes:
      family: of the kind, or `section`.
      kind: its name, or that of the section.
      name: of the parameter, or of the key.
      depth: how many lists it stands in.
      least: its lower bound, where there is one.
      most: its upper bound, where it has one of its own, below that of all counters.
    """

    family: str
    kind: str
    name: str
    depth: int
    least: int | None
    most: int | None

    @property
    def place(self) -> str:
        """What `REASONS` calls it."""
        return f"{self.family}: {self.kind}.{self.name}"


def integers() -> list[Integer]:
    """All that there are: of every registered kind, and of the sections."""
    of_kinds = [
        integer
        for family, kinds in FAMILIES.items()
        for kind, factory in kinds.items()
        for parameter in inspect.signature(factory, eval_str=True).parameters.values()
        for integer in _integers(family, kind, parameter.name, parameter.annotation)
    ]
    places = {(integer.place, integer.depth): integer for integer in [*of_kinds, *_of_sections()]}
    return list(places.values())


SECTIONS = {
    "Spec": "scenario",
    "DataCommon": "data",
    "ServerSamples": "data.server",
    "ClientCommon": "client",
    "Fleet": "fleet",
    "Malicious": "fleet.malicious",
    "Evaluate": "evaluate",
    "TopologyCommon": "topology",
    "Numerics": "numerics",
    "Checkpoint": "checkpoint",
    "Compare": "compare",
}


def _of_sections() -> Iterator[Integer]:
    """The integers of the sections."""
    of_sections = [each for each in Section.__subclasses__() if not hasattr(each, "family")]
    for section in of_sections:
        if section.__module__.startswith("fedsim."):
            for key, field in section.model_fields.items():
                whole = (
                    Annotated[field.annotation, *field.metadata]
                    if field.metadata
                    else field.annotation
                )
                yield from _integers(
                    "section", SECTIONS.get(section.__name__, section.__name__), key, whole
                )


def _integers(family: str, kind: str, name: str, annotation: Any) -> Iterator[Integer]:
    for depth, notes in _noted(annotation):
        least = next(
            (
                note.ge if isinstance(note, Ge) else note.gt
                for note in notes
                if isinstance(note, Ge | Gt)
            ),
            None,
        )
        yield Integer(family, kind, name, depth, least, _most(notes))


def _noted(annotation: Any, notes: tuple = (), depth: int = 0) -> Iterator[tuple[int, tuple]]:
    """(lists around it, what is noted of it) of every integer in an annotation."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is int:
        yield depth, notes
    elif origin is Annotated:
        yield from _noted(inside[0], inside[1:], depth)
    elif origin is list:
        yield from _noted(inside[0], (), depth + 1)
    elif origin in (Union, types.UnionType):
        for member in inside:
            yield from _noted(member, notes, depth)


def _most(notes: tuple) -> int | None:
    for note in notes:
        if isinstance(note, Le) and note.le < MAX_INTEGER:
            return note.le
        if isinstance(note, Lt) and note.lt <= MAX_INTEGER:
            return note.lt - 1
    return None


# ---------------------------------------------------------------------------------- tiny scenarios


def scenario_with(integer: Integer, value: int | None, folder: Path) -> dict[str, Any]:
    """A tiny scenario in which the integer has a value; with None, the one around it."""
    if integer.family == "section":
        return _with_key(integer, value)
    written = {"kind": integer.kind, **_needed(integer)}
    if value is not None:
        written[integer.name] = _nested(value, integer)
    if "path" in written:
        written["path"] = str(set_of(integer.kind, folder))
    scenario = _placed(integer.family, written)
    data = scenario["data"]
    if integer.kind == "domains":
        path = str(set_of("npz", folder))
        scenario["data"] = {"kind": "npz", "path": path, "clients": 4, "partition": written}
    if integer.family == "data_attack":
        data["shape"] = [9, 9, 1]
    if integer.kind in ("trust", "zeno"):
        scenario["data"] = {**data, "server": {"samples": 4}}
    if integer.kind in TOKENS:
        scenario["model"] = {"kind": "char_gru", **BASES["char_gru"]}
    if integer.kind in ("leaf", "tff_hdf5"):
        del data["clients"]  # they bring their own
    if integer.kind.startswith("char_"):
        path = str(set_of("text", folder))
        scenario["data"] = {"kind": "text", "path": path, "length": 8, "clients": 4}
    return scenario


def _with_key(integer: Integer, value: int | None) -> dict[str, Any]:
    """A tiny scenario with a key of a section."""
    if value is None:
        return TINY
    if integer.kind == "scenario":
        return {**TINY, integer.name: _nested(value, integer)}
    first, *others = integer.kind.split(".")
    section: dict[str, Any] = {integer.name: _nested(value, integer)}
    for name in reversed(others):
        section = {name: section}
    beside = {
        key: known
        for key, known in TINY.get(first, {}).items()
        if (key, integer.name) != ("steps", "epochs")
    }
    return {**TINY, first: {**beside, **section}}


def _needed(integer: Integer) -> dict[str, Any]:
    """What a kind must be told, and what makes it small enough for four clients."""
    fields = _model(integer.family, integer.kind).model_fields
    needed = {name: _filled(name, field) for name, field in fields.items() if _asked(name, field)}
    if integer.family == "cohort":
        needed |= {name: value for name, value in COHORT.items() if name in fields}
    return {**needed, **BASES.get(integer.kind, {})}


def _nested(value: int, integer: Integer) -> Any:
    if integer.family == "dataset" and integer.name == "size":
        return [value, 1]
    nested: Any = value
    for _ in range(integer.depth):
        nested = [nested]
    return nested


def set_of(kind: str, folder: Path) -> Path:
    """A small set of a kind, on disk."""
    from encoded import FORM, classes, encoded, image_column, saved, typed
    from leaf_sets import written as leaf_written
    from tff_sets import written as tff_written

    place = folder / kind
    images = [encoded(np.full((4, 4), i * 20, np.uint8)) for i in range(12)]
    place.mkdir(exist_ok=True)
    if kind == "text":
        (place / "t.txt").write_text("to be or not to be, that is the question. " * 40)
        return place / "t.txt"
    if kind == "npz":
        rng = np.random.default_rng(0)
        np.savez(
            place / "w.npz", x=rng.normal(size=(60, 4)), y=np.arange(60) % 3, c=np.arange(60) % 5
        )
        return place / "w.npz"
    if kind == "xlsx":
        return workbooks.written(place / "t.xlsx", workbooks.parts())
    if kind == "imagefolder":
        for label in "ab":
            (place / label).mkdir(exist_ok=True)
            for i, image in enumerate(images):
                (place / label / f"{i}.png").write_bytes(image)
    if kind == "huggingface":
        import pyarrow as pa

        table = pa.table({"image": image_column(images), "label": [0, 1] * 6})
        saved(typed(table, {"image": FORM, "label": classes("a", "b")}), place)
    if kind == "leaf":
        rows = [["id", "date", "query", "user", f"good day number {i} and more"] for i in range(6)]
        leaf_written(place, "train", {f"u{k}": (rows, [0, 4] * 3) for k in range(4)})
    if kind == "tff_hdf5":
        tff_written(
            place / "set_train.h5",
            {f"c{k}": {"tokens": ["to be or not", "to be"] * 3} for k in range(4)},
        )
    return place


# ----------------------------------------------------------------------------------------- the law


def fault(integer: Integer, value: int, folder: Path) -> str:
    """Return what is wrong with how a value ended; empty if it is refused, or harmless."""
    forget_peak()
    held, start = memory_now(), time.process_time()
    ended, said = _ended(
        scenario_with(integer, value, folder), plays=value > 0 and integer.most is None
    )
    seconds, size = time.process_time() - start, peak() - held
    if size > BYTES or seconds > (SECONDS if ended == "refused" else 6 * SECONDS):
        return f"{ended} after {seconds:.0f} s with {size / 1e6:.0f} MB: {said}"
    if ended == "refused":
        return _fault_of_refusal(integer, value, said)
    reason = reasons().get(integer.place)
    refused = value >= 2**63 or (
        value == HUGE and (integer.most is not None or reason in (COUNTED, COMPARED))
    )
    return (
        f"accepted ({said}), and should be refused: {reason or 'it has a bound'}" if refused else ""
    )


def _fault_of_refusal(integer: Integer, value: int, said: str) -> str:
    """A line that blames something else, or one of an allocation that was tried and failed."""
    if "needs more memory than there is" in said or "allocation failed" in said:
        return f"tried, not counted: {said}"
    if value == integer.most:
        return ""  # whatever is too small for it may be blamed
    words = (str(value), integer.name.rpartition("_")[2], " MB", " bytes")
    if not any(word in said.replace(",", "") for word in words):
        return f"blames something else: {said}"
    if (
        value == HUGE
        and reasons().get(integer.place) in (CAPPED, COUNTER, SEED)
        and integer.kind != "scenario"
    ):
        return f"refused, and should be accepted: {said}"
    return ""


def _ended(scenario: dict[str, Any], plays: bool) -> tuple[str, str]:
    """`refused` and the lines, or `accepted` and how two rounds of it ended."""
    try:
        understood = read(scenario)
        with numerics(understood) as devices:
            build(understood, devices=devices[:1])
    except OURS as error:
        return "refused", str(error)
    return "accepted", fedsim.run(understood).status if plays else ""


def values_of(integer: Integer) -> list[int]:
    """Beyond all sense, beyond any integer of a computer, below nothing, and the very bound."""
    return [HUGE, 2**63, -1, *([integer.most] if integer.most is not None else [])]


def main(family: str) -> None:
    """Print what is wrong with the integers of a family."""
    warnings.simplefilter("ignore")
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for integer in [one for one in integers() if one.family == family]:
            base = _ended(scenario_with(integer, None, Path(folder)), plays=False)
            if base[0] != "accepted":
                print(json.dumps({"case": f"around {integer.place}", "what": base[1]}), flush=True)
            for value in values_of(integer):
                print(f"{integer.place} = {value}", file=sys.stderr, flush=True)
                try:
                    with within(600):  # of the clock, on a machine that others use too
                        what = fault(integer, value, Path(folder))
                except BaseException as error:
                    what = f"{type(error).__name__}: {str(error)[:300]}"
                counted[what and "wrong"] += 1
                if what:
                    print(
                        json.dumps({"case": f"{integer.place} = {value}", "what": what[:400]}),
                        flush=True,
                    )
    print(json.dumps({"right": counted[""], "wrong": counted["wrong"]}), flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (SPACE, resource.getrlimit(resource.RLIMIT_AS)[1]))
    main(sys.argv[1])
