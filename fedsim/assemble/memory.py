"""Whether a scenario fits into memory.

`engine.footprint` counts bytes. Here they are compared with what there is, and refused at a path.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax

from fedsim import tree
from fedsim.engine.footprint import TABLE_BYTES, DeviceLimits, Footprint, footprint
from fedsim.engine.loop import AHEAD
from fedsim.engine.processes import is_multiprocess
from fedsim.engine.program import Program
from fedsim.engine.server_records import Messages
from fedsim.errors import OutOfMemoryError, exhausted, memory_in_words
from fedsim.fleet import Plan
from fedsim.limits import require_memory
from fedsim.machine import memory_now
from fedsim.scenario.reader import KeyPath
from fedsim.scenario.scenario import Scenario

# purpose of memory -> the path that decides how much it takes, and what to do
REMEDIES: dict[str, tuple[KeyPath, str]] = {
    "start_models": (("model",), "use a smaller model, or fewer seeds"),
    "server": (("model",), "use a smaller model"),
    "frozen": (("model",), "use a smaller model, or fewer seeds"),
    "lanes": (
        ("numerics", "lanes"),
        "lower numerics.lanes and numerics.block, or use a smaller model",
    ),
    "batches": (
        ("client", "steps"),
        "lower client.steps or epochs, client.batch or numerics.lanes",
    ),
    "work": (
        ("client", "batch"),
        "lower client.batch, numerics.lanes, the cohort, or use a smaller model",
    ),
    "cohort": (("cohort",), "lower the cohort's size"),
    "stack": (("cohort",), "lower the cohort's size, or use a rule that is a sum"),
    "codec": (("wire",), "use a smaller codec or model, or lower numerics.lanes"),
    "updates": (("checkpoint", "updates"), "remove it, or lower the cohort's size"),
    "client_memory": (
        ("client", "kind"),
        "lower checkpoint.resident_mb, or use a method without client memory",
    ),
    "samples": (("data",), "lower data.resident_mb, or use fewer samples"),
    "partition": (("data", "clients"), "lower data.clients, or use fewer seeds"),
    "skew": (("data", "skew"), "use fewer seeds or samples, or skews of labels alone"),
    "tables": (("data", "clients"), "lower data.clients"),
    "rows": (("rounds",), "lower it, or evaluate less often with evaluate.every"),
}


def run_footprint(
    scenario: Scenario, program: Program, plan: Plan, shared: Any, activations: int = 0
) -> Footprint:
    """Return the memory that a run adds to what the process holds already.

    Args:
      activations: bytes of the largest value in a pass of one client through the model.
    """
    spec = scenario.spec
    resident = DeviceLimits(
        samples=0.0 if is_multiprocess() else spec.data.resident_mb * 1e6,
        memory=spec.checkpoint.resident_mb * 1e6,
    )
    evaluated_rounds = 2 + spec.rounds // spec.evaluate.every
    rows = len(spec.seeds) * evaluated_rounds
    counted = footprint(program, plan, shared, resident, rows, activations)

    # Frozen leaves that are drawn differ from seed to seed, and all of them are made.
    counted.bytes_by_purpose["frozen"] *= len(spec.seeds)
    if spec.checkpoint.updates:
        counted.bytes_by_purpose["updates"] = recorded_bytes(program, counted.shapes["messages"])
    return counted


def recorded_bytes(program: Program, messages: Messages) -> int:
    """Return the bytes of the updates that are kept, until they are on the disk.

    Rounds on their way hold what arrived in them. The host has a copy of one run's round, and its
    file.
    """
    sent = messages.rows.message
    of_all_runs = program.capacity.blocks * tree.nbytes((sent.delta, sent.stats))
    of_a_run = of_all_runs // program.capacity.runs
    return (1 + AHEAD) * of_all_runs + 2 * of_a_run


def check_rows_of_all(scenario: Scenario, program: Program, shapes: Any) -> None:
    """Refuse client memory in a file, where the server sends clients what it makes of all rows."""
    if program.server.client.travel.sends is None:
        return
    memories = program.server.memories
    members = program.capacity.members
    rows = jax.eval_shape(lambda shared: memories.empty(shared, members), shapes).rows
    megabytes = tree.nbytes(rows) / 1e6
    if megabytes > scenario.spec.checkpoint.resident_mb:
        kind = scenario.spec.client.kind
        text = f"{kind} reads the models of all clients, which take {megabytes:.0f} MB"
        path = ("checkpoint", "resident_mb")
        raise scenario.too_large(path, f"{text}; write at least {math.ceil(megabytes)}")


def check_memory(scenario: Scenario, parts: Mapping[str, int]) -> None:
    """Refuse what does not fit together with what the process holds already."""
    try:
        require_memory(process=memory_now(), **parts)
    except OutOfMemoryError as error:
        path, remedy = _remedy(scenario, parts)
        raise scenario.too_large(path, f"{error}; {remedy}") from None


def _remedy(scenario: Scenario, parts: Mapping[str, int]) -> tuple[KeyPath, str]:
    """The path of what takes most memory, and what to do."""
    spec = scenario.spec
    largest = max(parts, key=lambda purpose: parts[purpose])
    path, remedy = REMEDIES[largest]

    if largest == "lanes":
        # Lanes and block are to blame where they were written; otherwise the model is.
        requested = [key for key in ("lanes", "block") if getattr(spec.numerics, key) != "auto"]
        if not requested:
            return REMEDIES["server"]
        return ("numerics", requested[0]), remedy
    if largest == "batches" and spec.client.steps is None:
        return ("client", "epochs"), remedy
    return path, remedy


@contextlib.contextmanager
def allocations(scenario: Scenario, parts: Mapping[str, int]) -> Iterator[None]:
    """Report an allocation that fails inside, although it was counted, as a line with the count."""
    try:
        yield
    except Exception as error:
        reason = exhausted(error)
        if not reason:
            raise
        path, remedy = _remedy(scenario, parts)
        text = (
            f"an allocation failed ({reason}); the forecast is {memory_in_words(parts)}; {remedy}"
        )
        raise scenario.too_large(path, text) from error


def check_memory_of_clients(scenario: Scenario, n: int, classes: int) -> None:
    """Refuse more clients than memory has space for, before anything is partitioned."""
    spec = scenario.spec
    N = spec.data.clients
    index_bytes = 4 * n
    client_bytes = 8 * N * (6 + classes)  # sizes, offsets, steps, ids ...; labels by client
    partition_bytes = len(spec.seeds) * (index_bytes + client_bytes)
    check_memory(scenario, {"partition": partition_bytes, "tables": TABLE_BYTES * N})
