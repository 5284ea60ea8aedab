"""The data section -> federations."""

import contextlib
import itertools
import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.build.links import factory_of, locate_link_errors
from fedsim.build.memory import check_memory_of_clients
from fedsim.compose import FAMILIES
from fedsim.data import Arrays, Federation, Parts, Pool, Sets, federate, of_frame, prepare, sha256_of_data
from fedsim.data.arrays import per_token
from fedsim.data.partition import even, offsets_of
from fedsim.errors import DataError, MissingFileError, PartitionError, nearest, shortened
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario.expected import value_in_words
from fedsim.scenario.schema import Scenario


@locate_link_errors
def federations_of(scenario: Scenario, data: Arrays | None, dtype: np.dtype) -> dict[int, Federation]:
    """A federation per seed: the samples are loaded once and partitioned anew for every seed.

    Args:
      scenario: as read.
      data: `Arrays` in place of the scenario's data set.
      dtype: float type of the features.

    Raises:
      ScenarioError: when the samples cannot be partitioned as asked.
      DataError: for samples that cannot be learned from.
    """
    sets, classes = _load(scenario, data, dtype)
    return {seed: _partition(scenario, sets, classes, seed) for seed in scenario.spec.seeds}


@locate_link_errors
def evenly_partitioned(scenario: Scenario, data: Arrays | None, dtype: np.dtype) -> Federation:
    """The samples in equal parts: what the rest of a scenario is checked on, where the partition asked for is impossible.

    Raises:
      ScenarioError: when there are no samples to partition.
      DataError: for samples that cannot be learned from.
    """
    sets, classes = _load(scenario, data, dtype)
    n, clients = len(sets.y), scenario.spec.data.clients
    return federate(sets, classes, Parts(np.arange(n, dtype=np.int32), offsets_of(even(n, clients))))


def settled_data(scenario: Scenario, data: Arrays | None, federation: Federation) -> Any:
    """The data section as it was understood, so that reading it again gives the same federation.

    The partition that was used, the number of clients, whether a test set was cut, and where a file lies and its hash.
    """
    section = scenario.spec.data
    partition = partition_section(section, federation.named)
    known = {"clients": federation.N, "partition": partition, "test": _test_share(section, data)}
    if data is None and hasattr(section, "path"):
        path = _data_file(scenario, section)
        known["path"] = str(path.resolve())
        if hasattr(section, "sha256"):
            known["sha256"] = sha256_of_data(path)
    return section.model_copy(update=known)


def _load(scenario: Scenario, data: Arrays | None, dtype: np.dtype) -> tuple[Sets, int]:
    section = scenario.spec.data
    file = {"path": str(_data_file(scenario, section))} if data is None and hasattr(section, "path") else {}
    with np.errstate(over="ignore", invalid="ignore"):  # what is no finite number is named below, with its row
        arrays = factory_of(section)(**file) if data is None else _given(scenario, data)
    try:
        sets, classes = prepare(
            arrays,
            test=_test_share(section, data),
            seed=section.seed,
            dtype=dtype,
            validation=section.validation,
            server=section.server.samples,
            missing=getattr(section, "missing", "refuse"),
            standardize=getattr(section, "standardize", False),
        )
    except PartitionError as error:
        raise scenario.error(("data", error.where), str(error)) from None
    except DataError as error:
        raise (error.within(file["path"]) if file else error) from None
    by_id = partition_section(section, sets.owner is not None).kind == "natural"
    if by_id and data is None and "clients" in section.model_fields_set and section.clients != sets.owners:
        text = f"{section.clients} clients, but the samples name {sets.owners}; leave it out, or choose a partition"
        raise scenario.error(("data", "clients"), text)
    check_memory_of_clients(scenario, len(sets.y), 0 if per_token(sets.y) else classes)
    return sets, classes


def _given(scenario: Scenario, data: Any) -> Arrays:
    """What a Python program handed over as samples: a frame is read by the keys of the data section, as a table is.

    Raises:
      ScenarioError: for keys that name columns, where there are none.
    """
    section = scenario.spec.data
    keys = {name: getattr(section, name) for name in ("target", "client", "missing", "drop") if hasattr(section, name)}
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        return of_frame(data, **keys)
    for name in ("target", "client", "drop"):
        if section.kind == "supplied" and keys[name] != type(section).model_fields[name].default:
            text = "names a column, and the samples are arrays without names; take it out, or pass a DataFrame"
            raise scenario.error(("data", name), text)
    return data if isinstance(data, Arrays) else Arrays(*data)


def _partition(scenario: Scenario, sets: Sets, classes: int, seed: int) -> Federation:
    section = scenario.spec.data
    partition = partition_section(section, sets.owner is not None)
    pool = Pool(
        y=sets.y,
        classes=0 if per_token(sets.y) else classes,
        owner=sets.owner,
        owners=sets.owners,
        x=sets.x,
        scale=sets.scale,
        columns=sets.columns,
    )
    try:
        assign = factory_of(partition)()
        parts = assign(pool, section.clients, generator(seed, Stream.PARTITION))
    except PartitionError as error:
        raise scenario.error(("data", error.where), str(error)) from None
    rng = generator(seed, Stream.CLIENT_TEST)
    return federate(sets, classes, parts, section.client_test, rng, partition.kind == "natural")


def partition_section(section: Any, named: bool) -> Any:
    """The partition as written; where none is, `natural` for samples that bring client ids."""
    if "partition" in section.model_fields_set or not named:
        return section.partition
    return type(section).model_validate({**section.model_dump(), "partition": {"kind": "natural"}}).partition


def _test_share(section: Any, data: Arrays | None) -> float:
    """Share of the samples to test on: from samples brought in Python, none is taken unless it is asked for."""
    return section.test if data is None or "test" in section.model_fields_set else 0.0


def _data_file(scenario: Scenario, section: Any) -> Path:
    """Where a data file is: beside the scenario, or else in the working directory, or else in a `--data-root`.

    A scenario file may name what lies in these folders, symbolic links followed, and nothing else: it may be a stranger's.
    Where it says the file's SHA-256, as run directories do, the file may have moved: below these folders, or wherever its
    relative path leads; whoever knows the hash knows the file.

    Raises:
      ScenarioError: when there is no such file, or it lies elsewhere.
    """
    document, path, sha256 = scenario.document, section.path, getattr(section, "sha256", None)
    roots = document.roots or (str(Path(document.file).parent), ".")
    allowed = [os.path.realpath(root) for root in roots] if document.roots is not None else ["/"]
    places = dict.fromkeys(os.path.normpath(os.path.join(root, path)) for root in roots)
    try:
        inside = [p for p in places if any(Path(os.path.realpath(p)).is_relative_to(root) for root in allowed)]
        existing = [place for place in inside if os.path.exists(place)]
        if sha256 and len(existing) != 1:
            existing = [*filter(partial(_holds, sha256), [*existing, *_moved(path, roots)]), *existing]
    except (OSError, ValueError) as error:
        raise scenario.error(
            ("data", "path"), f"found {value_in_words(path)}, which no file can be called: {error}"
        ) from None
    if existing:
        return Path(existing[0])
    if not inside or any(os.path.lexists(place) for place in places if place not in inside):
        text = f"{value_in_words(path)} lies outside the scenario's folder and the working directory"
        raise scenario.error(("data", "path"), f"{text}; move it there, or allow its folder with --data-root DIR")
    raise _missing_file(scenario, path, inside)


def _moved(path: str, roots: Iterable[str]) -> list[str]:
    """Where a file may be that is not where its path leads inside: wherever else that is, and below the roots."""
    parts = Path(path).parts
    ends = [
        os.path.join(*parts[i:]) for i in range(len(parts)) if ".." not in parts[i:] and not os.path.isabs(parts[i])
    ]
    names = [*([] if os.path.isabs(path) else [path]), *ends]
    return list(dict.fromkeys(os.path.normpath(os.path.join(root, name)) for name in names for root in roots))


def _holds(sha256: str, place: str) -> bool:
    """Whether a file is the one with this hash."""
    try:
        return sha256_of_data(place) == sha256.lower()
    except (OSError, DataError):
        return False


def _missing_file(scenario: Scenario, path: str, places: list[str]) -> MissingFileError:
    """A data file that is in none of the places where it may be; a reader's `WHERE` says where such files come from."""
    kind, document, near = scenario.spec.data.kind, scenario.document, _similar_file(places)
    outside = ", or allow its folder with --data-root DIR" * bool(document.roots)
    instead = f"did you mean '{near}'?" if near else f"write its path from the scenario's folder{outside}"
    folders = " and ".join(dict.fromkeys(shortened(os.path.dirname(place) or ".", 80) for place in places))
    text = (
        f"there is no file {value_in_words(os.path.basename(os.path.normpath(path)))}; {instead} (looked in {folders})"
    )
    problems = scenario.error(("data", "path"), text).problems
    if source := getattr(sys.modules[FAMILIES["dataset"][kind].__module__], "WHERE", ""):
        problems += scenario.error(("data", "kind"), f"{kind}: {source}").problems
    return MissingFileError(problems, document.file)


def _similar_file(places: list[str]) -> str | None:
    """A file with a name like one that is missing, in its folder."""
    for place in map(Path, places):
        with contextlib.suppress(OSError):
            names = {entry.name for entry in itertools.islice(os.scandir(place.parent), 1000)}
            if (near := nearest(place.name, names - {place.name})) is not None:
                return near
    return None
