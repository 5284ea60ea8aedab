"""Whether a scenario fits into memory: what `engine.footprint` counts, against what there is, as a line with a place."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fedsim.data import Federation, scale_remark
from fedsim.engine.footprint import TABLE_BYTES, Held, Kept, footprint
from fedsim.engine.processes import joined
from fedsim.engine.records import Program
from fedsim.errors import TooLarge, exhausted, in_parts, shortened
from fedsim.fleet import Plan
from fedsim.limits import require_memory
from fedsim.machine import memory_now
from fedsim.scenario.reader import Path
from fedsim.scenario.scenario import Scenario

REMEDY = {  # part -> where it comes from, and what to do
    "start_models": (("model",), "take a smaller model, or fewer seeds"),
    "server": (("model",), "take a smaller model"),
    "lanes": (
        ("numerics", "lanes"),
        "lower numerics.lanes and numerics.block, or take a smaller model",
    ),
    "batches": (
        ("client", "steps"),
        "lower client.steps or epochs, client.batch or numerics.lanes",
    ),
    "work": (
        ("client", "batch"),
        "lower client.batch, numerics.lanes, the cohort, or take a smaller model",
    ),
    "cohort": (("cohort",), "lower the cohort's size"),
    "stack": (("cohort",), "lower the cohort's size, or take a rule that is a sum"),
    "codec": (("wire",), "take a smaller codec or model, or lower numerics.lanes"),
    "client_memory": (
        ("client", "kind"),
        "lower checkpoint.resident_mb, or take a method without client memory",
    ),
    "samples": (("data",), "lower data.resident_mb, or take fewer samples"),
    "partition": (("data", "clients"), "lower data.clients, or take fewer seeds"),
    "skew": (("data", "skew"), "take fewer seeds or samples, or skews of labels alone"),
    "attack": (("data", "attack"), "take fewer seeds or samples, or attacks on labels alone"),
    "tables": (("data", "clients"), "lower data.clients"),
    "rows": (("rounds",), "lower it, or evaluate less often with evaluate.every"),
}


def run_footprint(
    scenario: Scenario, program: Program, plan: Plan, shared: Any, activations: int = 0
) -> Held:
    """What a run of a scenario holds besides what the process holds already.

    Args:
      scenario: as read.
      program: as built.
      plan: of a seed.
      shared: start variables, or their shapes.
      activations: bytes of the largest value in a pass through the model, of one client.
    """
    spec = scenario.spec
    samples = 0.0 if joined() else spec.data.resident_mb * 1e6
    resident = Kept(samples, spec.checkpoint.resident_mb * 1e6)
    rows = len(spec.seeds) * (
        2 + spec.rounds // spec.evaluate.every
    )  # of evaluated rounds, of all seeds
    return footprint(program, plan, shared, resident, rows, activations)


def check_memory(scenario: Scenario, parts: Mapping[str, int]) -> None:
    """Refuse what will not fit, beside what the process holds already.

    Raises:
      TooLargeError: naming the bytes, and the place of what takes most of them.
    """
    try:
        require_memory(process=memory_now(), **parts)
    except TooLarge as error:
        path, remedy = _largest(scenario, parts)
        raise scenario.too_large(path, f"{error}; {remedy}") from None


def _largest(scenario: Scenario, parts: Mapping[str, int]) -> tuple[Path, str]:
    """The place of what takes most memory, and what to do."""
    largest, spec = max(parts.items(), key=lambda part: part[1])[0], scenario.spec
    path, remedy = REMEDY[largest]
    if largest == "lanes":  # what was written, or else the model is to blame
        written = [name for name in ("lanes", "block") if getattr(spec.numerics, name) != "auto"]
        path, remedy = (("numerics", written[0]), remedy) if written else REMEDY["server"]
    if largest == "batches":
        path = ("client", "epochs" if spec.client.steps is None else "steps")
    return path, remedy


@contextlib.contextmanager
def allocations(scenario: Scenario, parts: Mapping[str, int]) -> Iterator[None]:
    """An allocation that fails all the same, within what was counted or beyond it, as a line with the count.

    Raises:
      TooLargeError: instead of that error.
    """
    try:
        yield
    except Exception as error:
        if not (reason := exhausted(error)):
            raise
        path, remedy = _largest(scenario, parts)
        text = f"an allocation failed ({reason}); the forecast is {in_parts(parts)}; {remedy}"
        raise scenario.too_large(path, text) from error


def check_memory_of_clients(scenario: Scenario, n: int, classes: int) -> None:
    """Refuse more clients than tables, plans and partitions of all seeds have room for, before anything is partitioned.

    Args:
      scenario: as read.
      n: training samples.
      classes: of them.
    """
    spec = scenario.spec
    N = spec.data.clients
    a_seed = 4 * n + 8 * N * (
        6 + classes
    )  # index lists; sizes, offsets, steps, ids; labels by client
    check_memory(scenario, {"partition": len(spec.seeds) * a_seed, "tables": TABLE_BYTES * N})


def data_warnings(scenario: Scenario, federation: Federation) -> list[str]:
    """What a user may not have meant with the samples: one line for each, mostly none."""
    unused = _unused_samples(federation)
    return [*unused, *_label_warnings(federation), *_scale_warnings(scenario.spec.data, federation)]


def partition_notes(federation: Federation) -> list[str]:
    """Samples that nobody gets, and clients that never train, where there are such."""
    f, notes = federation, _unused_samples(federation)
    if f.held_out.any():
        tests = np.bincount(f.test_holders.owner, minlength=f.N)[f.held_out]
        notes.append(
            f"{len(tests):,} of {f.N:,} clients never train, and are tested on {tests.sum():,} samples of their own"
        )
    return notes


def _unused_samples(f: Federation) -> list[str]:
    return [
        f"the partition leaves {f.unused:,} of {len(f.train.x):,} training samples to nobody"
    ] * bool(f.unused)


def _scale_warnings(section: Any, federation: Federation) -> list[str]:
    """Features whose scales differ by orders, where the data section could do something about it."""
    if getattr(section, "standardize", None) is not False:
        return []
    remark = scale_remark(federation.train.x, federation.names.features)
    return [remark] if remark else []


def _label_warnings(federation: Federation) -> list[str]:
    """Labels that are trained for nothing."""
    f = federation
    if not f.classes or f.per_token:
        return []
    trained = np.bincount(f.train.y[f.holders.indices], minlength=f.classes) > 0
    count = int(trained.sum())
    if f.names.labels is None and f.classes - count >= max(f.classes // 2, 1):
        text = f"labels run from 0 to {f.classes - 1}, {f.classes} classes, and {count} of them have training samples"
        return [f"{text}; number the classes 0, 1, 2, ... without gaps"]
    unseen = (
        np.flatnonzero(~trained & (np.bincount(f.test.y, minlength=f.classes) > 0))
        if len(f.test.y)
        else []
    )
    if len(unseen):
        listed = ", ".join(shortened(str(f.label_names[k]), 40) for k in unseen[:5]) + ", ..." * (
            len(unseen) > 5
        )
        return [f"test labels {listed} are in no client's training samples: nobody learns them"]
    return []
