"""The data section -> federations."""

import contextlib
import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.build.links import link, placing_faults
from fedsim.build.memory import demand_population
from fedsim.data import Arrays, Federation, Pool, Sets, federate, prepare, sha256_of
from fedsim.errors import DataError, MissingFileError, PartitionError, nearest, shortened
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario.expected import shown
from fedsim.scenario.schema import Scenario


@placing_faults
def federations_of(scenario: Scenario, data: Arrays | None, dtype: np.dtype) -> dict[int, Federation]:
    """A federation per seed: the samples are loaded once, dealt out anew for every seed.

    Args:
      scenario: as read.
      data: `Arrays` in place of the scenario's data set.
      dtype: float type of the features.

    Raises:
      ScenarioError: when the samples cannot be dealt out as asked.
      DataError: for samples that cannot be learned from.
    """
    sets, classes = _loaded(scenario, data, dtype)
    demand_population(scenario, len(sets.y), classes)
    return {seed: _dealt(scenario, sets, classes, seed) for seed in scenario.spec.seeds}


def settled_data(scenario: Scenario, data: Arrays | None, federation: Federation) -> Any:
    """The data section as it was understood, so that reading it again gives the same federation.

    The partition that was used, the number of clients, whether a test set was cut, and where a file lies and its hash.
    """
    section = scenario.spec.data
    known = {"clients": federation.N, "partition": _partition(section, federation.named), "test": _test(section, data)}
    if data is None and hasattr(section, "path"):
        path = _place(scenario, section.path)
        known["path"] = str(path.resolve())
        if hasattr(section, "sha256"):
            known["sha256"] = sha256_of(path)
    return section.model_copy(update=known)


def _loaded(scenario: Scenario, data: Arrays | None, dtype: np.dtype) -> tuple[Sets, int]:
    section = scenario.spec.data
    place = {"path": str(_place(scenario, section.path))} if hasattr(section, "path") else {}
    with np.errstate(over="ignore", invalid="ignore"):  # what is no finite number is named below, with its row
        own = data if data is not None else link(section)(**place)
    try:
        sets, classes = prepare(
            own,
            test=_test(section, data),
            seed=section.seed,
            dtype=dtype,
            validation=section.validation,
            server=section.server.samples,
        )
    except PartitionError as error:
        raise scenario.error(("data", error.where), str(error)) from None
    except DataError as error:
        raise DataError(f"{place['path']}: {error}" if place and data is None else str(error)) from None
    by_id = _partition(section, sets.owner is not None).kind == "natural"
    if by_id and data is None and "clients" in section.model_fields_set and section.clients != sets.owners:
        what = f"{section.clients} clients, but the samples name {sets.owners}; leave it out, or choose a partition"
        raise scenario.error(("data", "clients"), what)
    return sets, classes


def _dealt(scenario: Scenario, sets: Sets, classes: int, seed: int) -> Federation:
    section = scenario.spec.data
    pool = Pool(sets.y, classes, sets.owner, sets.owners)
    try:
        assign = link(_partition(section, sets.owner is not None))()
        parts = assign(pool, section.clients, generator(seed, Stream.PARTITION))
    except PartitionError as error:
        raise scenario.error(("data", error.where), str(error)) from None
    return federate(sets, classes, parts, section.client_test, generator(seed, Stream.CLIENT_TEST))


def _partition(section: Any, named: bool) -> Any:
    """The partition as written; where none is, `natural` for samples that bring client ids."""
    if "partition" in section.model_fields_set or not named:
        return section.partition
    return type(section).model_validate({**section.model_dump(), "partition": {"kind": "natural"}}).partition


def _test(section: Any, data: Arrays | None) -> float:
    """Share of the samples to test on: from samples brought in Python, none is taken unless it is asked for."""
    return section.test if data is None or "test" in section.model_fields_set else 0.0


def _place(scenario: Scenario, path: str) -> Path:
    """Where a data file is: beside the scenario, or else in the working directory, or else in a `--data-root`.

    A scenario file may name what lies in these folders, symbolic links followed, and nothing else: it may be a stranger's.

    Raises:
      ScenarioError: when there is no such file, or it lies elsewhere.
    """
    document = scenario.document
    roots = document.roots or (str(Path(document.file).parent), ".")
    homes = [os.path.realpath(root) for root in roots] if document.roots is not None else ["/"]
    places = dict.fromkeys(os.path.normpath(os.path.join(root, path)) for root in roots)
    try:
        inside = [place for place in places if any(Path(os.path.realpath(place)).is_relative_to(h) for h in homes)]
        found = next((place for place in inside if os.path.exists(place)), None)
    except (OSError, ValueError) as error:
        raise scenario.error(("data", "path"), f"found {shown(path)}, which no file can be called: {error}") from None
    if found is not None:
        return Path(found)
    if not inside or any(os.path.lexists(place) for place in places if place not in inside):
        what = f"{shown(path)} lies outside the scenario's folder and the working directory"
        raise scenario.error(("data", "path"), f"{what}; move it there, or allow its folder with --data-root DIR")
    near = _alike(inside)
    outside = ", or allow its folder with --data-root DIR" * bool(document.roots)
    instead = f"did you mean '{near}'?" if near else f"write its path from the scenario's folder{outside}"
    looked = " and ".join(dict.fromkeys(shortened(os.path.dirname(place) or ".", 80) for place in inside))
    what = f"there is no file {shown(os.path.basename(os.path.normpath(path)))}; {instead} (looked in {looked})"
    raise MissingFileError(scenario.error(("data", "path"), what).problems, document.file)


def _alike(places: list[str]) -> str | None:
    """A file there with a name like one that is missing."""
    for place in map(Path, places):
        with contextlib.suppress(OSError):
            names = {entry.name for entry in itertools.islice(os.scandir(place.parent), 1000)}
            if (near := nearest(place.name, names - {place.name})) is not None:
                return near
    return None
