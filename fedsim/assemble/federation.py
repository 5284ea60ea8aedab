"""The data section -> federations."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.assemble.data_files import path_of, resolved_file
from fedsim.assemble.links import factory_of, locate_link_errors
from fedsim.assemble.memory import check_memory_of_clients
from fedsim.assemble.poisons import poisoned_as_written
from fedsim.assemble.problems import Problems
from fedsim.assemble.skews import skewed_as_written
from fedsim.data import Arrays, Federation, Parts, Pool, Samples, Sets, federate, prepare
from fedsim.data.partition import column_of, even, offsets_of
from fedsim.data.splits import drawn_clients
from fedsim.errors import DataError, PartitionError, TooLarge
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario.named_files import DATA, PARTITION
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import PARTITIONS
from fedsim.sources import of_frame
from fedsim.sources.arrays import per_token
from fedsim.sources.mapped import take_rows


class Partitioned(NamedTuple):
    """Samples, and who holds which of them, by seed."""

    sets: Sets
    classes: int
    parts: dict[int, Parts]


@locate_link_errors
def federations_of(
    scenario: Scenario, data: Arrays | None, dtype: np.dtype
) -> dict[int, Federation]:
    """A federation per seed: the samples are loaded once and partitioned anew for every seed.

    Args:
      scenario: as read.
      data: `Arrays` in place of the scenario's data set.
      dtype: float type of the features.

    Raises:
      ScenarioError: when the samples cannot be partitioned as asked.
      DataError: for samples that cannot be learned from.
    """
    return federated(scenario, dealt(scenario, data, dtype))


@locate_link_errors
def dealt(scenario: Scenario, data: Arrays | None, dtype: np.dtype) -> Partitioned:
    """The samples, loaded once, and who holds what, for every seed; arguments and errors are those of `federations_of`."""
    sets, classes = _load(scenario, data, dtype)
    section = scenario.spec.data
    partition = partition_section(section, sets.owner is not None)
    pool = Pool(
        y=sets.train.y,
        classes=0 if per_token(sets.train.y) else classes,
        owner=sets.owner,
        owners=sets.owners,
        x=sets.train.x,
        scale=sets.scale,
        columns=sets.columns,
        names=sets.names.clients,
        rows=sets.rows,
        read=sets.read,
    )
    parts = {}
    try:
        assign = factory_of(partition)(**path_of(scenario, PARTITION))
        for seed in scenario.spec.seeds:
            parts[seed] = assign(pool, section.clients, generator(seed, Stream.PARTITION))
            _require_count(scenario, len(parts[seed].offsets) - 1)
    except PartitionError as error:
        raise scenario.error(("data", *error.where.split(".")), str(error)) from None
    except TooLarge as error:
        raise scenario.too_large(PARTITION, str(error)) from None
    return Partitioned(sets, classes, parts)


def federated(scenario: Scenario, dealt: Partitioned) -> dict[int, Federation]:
    """The federations of samples that were dealt; clients that never train are chosen here."""
    section, sets = scenario.spec.data, dealt.sets
    by_id = partition_section(section, sets.owner is not None).kind == "natural"
    federations, tests = {}, {}
    for seed, parts in dealt.parts.items():
        held_out = None
        if _test_clients(section):
            held_out = sets.held_out if by_id else _drawn(scenario, parts)
            assert held_out is not None
            rows = np.sort(parts.indices[np.repeat(held_out, np.diff(parts.offsets))])
            key = rows.tobytes()
            if key not in tests:  # one set for all seeds that hold out the same samples
                tests[key] = Samples(take_rows(sets.train.x, rows), sets.train.y[rows])
            sets = sets._replace(test=tests[key])
        rng = generator(seed, Stream.CLIENT_TEST)
        federation = federate(sets, dealt.classes, parts, section.client_test, rng, by_id, held_out)
        federations[seed] = altered(scenario, federation, seed)
    return federations


def altered(scenario: Scenario, federation: Federation, seed: int) -> Federation:
    """The federation behind `data.skew` and `data.attack`; what is wrong with either is said at once.

    Raises:
      ScenarioError: for samples that cannot be changed so.
    """
    problems = Problems(scenario)
    skewed = problems.attempt(skewed_as_written, scenario, federation, seed)
    attacked = problems.attempt(poisoned_as_written, scenario, skewed or federation, seed)
    problems.raise_all()
    return attacked


def _drawn(scenario: Scenario, parts: Parts) -> np.ndarray:
    section = scenario.spec.data
    try:
        return drawn_clients(np.diff(parts.offsets) > 0, section.test.clients, section.seed)
    except PartitionError as error:
        raise scenario.error(("data", error.where), str(error)) from None


def _require_count(scenario: Scenario, count: int) -> None:
    """Refuse a number of clients beside a partition that says itself how many there are."""
    section = scenario.spec.data
    if (
        section.partition.kind == "file"
        and "clients" in section.model_fields_set
        and section.clients != count
    ):
        text = f"{section.clients} clients, but the partition's file names {count}; leave it out"
        raise scenario.error(("data", "clients"), text)


@locate_link_errors
def evenly_partitioned(scenario: Scenario, data: Arrays | None, dtype: np.dtype) -> Federation:
    """The samples in equal parts: what the rest of a scenario is checked on, where the partition asked for is impossible.

    Raises:
      ScenarioError: when there are no samples to partition.
      DataError: for samples that cannot be learned from.
    """
    sets, classes = _load(scenario, data, dtype)
    n, clients = len(sets.train.y), scenario.spec.data.clients
    return federate(
        sets, classes, Parts(np.arange(n, dtype=np.int32), offsets_of(even(n, clients)))
    )


def resolved_data(scenario: Scenario, data: Arrays | None, federation: Federation) -> Any:
    """The data section as it was understood, so that reading it again gives the same federation.

    The partition that was used, the number of clients, whether a test set was cut, and where files lie and their hashes.
    """
    section = scenario.spec.data
    partition = partition_section(section, federation.named)
    known = {"clients": federation.N, "partition": partition, "test": section.test}
    if not _test_clients(section):
        known["test"] = _test_share(section, data)
    known["partition"] = partition.model_copy(update=resolved_file(scenario, PARTITION))
    if data is None:
        known |= resolved_file(scenario, DATA)
    return section.model_copy(update=known)


def _load(scenario: Scenario, data: Arrays | None, dtype: np.dtype) -> tuple[Sets, int]:
    section = scenario.spec.data
    file = path_of(scenario, DATA) if data is None else {}
    column = getattr(section.partition, "column", None)
    columns = (
        {"columns": [*section.columns, *[column] * bool(column)]}
        if hasattr(section, "columns")
        else {}
    )
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # what is no finite number is named below, with its row
        arrays = (
            factory_of(section)(**file, **columns)
            if data is None
            else _given(scenario, data, **columns)
        )
    try:
        by_id = (
            partition_section(section, arrays.client is not None or column is not None).kind
            == "natural"
        )
        if by_id and column is not None:
            arrays = arrays._replace(
                client=np.asarray(column_of(arrays.columns or {}, column)), client_test=None
            )
        _require_one_test(section, arrays, by_id)
        sets, classes = prepare(
            arrays,
            test=_test_share(section, data),
            test_clients=_test_clients(section) if by_id else 0.0,
            seed=section.seed,
            dtype=dtype,
            validation=section.validation,
            server=section.server.samples,
            missing=getattr(section, "missing", "refuse"),
            standardize=getattr(section, "standardize", False),
        )
    except PartitionError as error:
        raise scenario.error(("data", *error.where.split(".")), str(error)) from None
    except DataError as error:
        raise (error.within(file["path"]) if file else error) from None
    if (
        by_id
        and data is None
        and "clients" in section.model_fields_set
        and section.clients != sets.owners
    ):
        text = f"{section.clients} clients, but the samples name {sets.owners}; leave it out, or choose a partition"
        raise scenario.error(("data", "clients"), text)
    check_memory_of_clients(scenario, len(sets.train.y), 0 if per_token(sets.train.y) else classes)
    return sets, classes


def _require_one_test(section: Any, arrays: Arrays, by_id: bool) -> None:
    """Refuse samples to test on that are asked for beside those that the data bring.

    Raises:
      PartitionError: naming the key.
    """
    brought = arrays.y_test is not None and np.size(arrays.y_test) > 0
    if brought and _test_clients(section):
        text = "the samples bring a test set of their own, and clients that never train would be another; take it out"
        raise PartitionError(text, "test")
    if brought and by_id and arrays.client_test is not None and section.client_test:
        text = "the samples bring test samples of every client; take it out, or choose a partition besides natural"
        raise PartitionError(text, "client_test")


def _given(scenario: Scenario, data: Any, columns: Sequence[str] = ()) -> Arrays:
    """What a Python program handed over as samples: a frame is read by the keys of the data section, as a table is.

    Raises:
      ScenarioError: for keys that name columns, where there are none.
    """
    section = scenario.spec.data
    keys = {
        name: getattr(section, name)
        for name in ("target", "client", "missing", "drop")
        if hasattr(section, name)
    }
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        return of_frame(data, **keys, columns=columns)
    for name in ("target", "client", "drop", "columns"):
        if (
            section.kind == "supplied"
            and getattr(section, name) != type(section).model_fields[name].default
        ):
            text = "names a column, and the samples are arrays without names; take it out, or pass a DataFrame"
            raise scenario.error(("data", name), text)
    return data if isinstance(data, Arrays) else Arrays(*data)


def partition_section(section: Any, named: bool) -> Any:
    """The partition as written; where none is, `natural` for samples that bring client ids."""
    if "partition" in section.model_fields_set or not named:
        return section.partition
    return PARTITIONS.validate("natural")


def _test_share(section: Any, data: Arrays | None) -> float:
    """Share of the samples to test on: from samples brought in Python, none is taken unless it is asked for."""
    taken = data is None or "test" in section.model_fields_set
    return section.test if taken and not _test_clients(section) else 0.0


def _test_clients(section: Any) -> float:
    """Share of the clients that never train; 0 where the test set is a share of the samples."""
    return getattr(section.test, "clients", 0.0)
