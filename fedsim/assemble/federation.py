"""The data section -> federations: samples, and which client holds which."""

from typing import Any, NamedTuple

import numpy as np

from fedsim.assemble.data_files import path_of, resolved_file
from fedsim.assemble.fields import alterations
from fedsim.assemble.links import factory_of, locate_link_errors
from fedsim.assemble.problems import Problems
from fedsim.assemble.samples import (
    is_natural,
    load_samples,
    partition_problem,
    partition_section,
    require_count,
    share_of_test_samples,
    test_clients,
)
from fedsim.assemble.skews import with_skews
from fedsim.data import Arrays, Federation, Parts, Pool, Samples, Sets, federate
from fedsim.data.federation import with_client_validation
from fedsim.data.partition import even_sizes, offsets_of
from fedsim.data.splits import clients_to_test
from fedsim.errors import OutOfMemoryError, PartitionError
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario.named_files import DATA, PARTITION, TOKENIZER
from fedsim.scenario.scenario import Scenario
from fedsim.sources.arrays import is_per_token


class PartitionedSamples(NamedTuple):
    """Samples, and who holds which of them."""

    sets: Sets
    classes: int
    parts: dict[int, Parts]  # by seed


@locate_link_errors
def federations_of(
    scenario: Scenario, data: Arrays | None, dtype: np.dtype
) -> dict[int, Federation]:
    """Return a federation for every seed: samples are loaded once, and partitioned by seed."""
    return federations_from(scenario, partitioned_samples(scenario, data, dtype))


@locate_link_errors
def partitioned_samples(
    scenario: Scenario, data: Arrays | None, dtype: np.dtype
) -> PartitionedSamples:
    """Return the samples, and who holds which of them under every seed.

    Arguments and errors are those of `federations_of`.
    """
    sets, classes = load_samples(scenario, data, dtype)
    section = scenario.spec.data
    partition = partition_section(section, sets.owner is not None)
    pool = Pool(
        y=sets.train.y,
        classes=0 if is_per_token(sets.train.y) else classes,
        owner=sets.owner,
        owners=sets.owners,
        x=sets.train.x,
        scale=sets.scale,
        columns=sets.columns,
        names=sets.names.clients,
        rows=sets.rows,
        rows_read=sets.rows_read,
    )
    parts = {}
    try:
        assign = factory_of(partition)(**path_of(scenario, PARTITION))
        for seed in scenario.spec.seeds:
            rng = generator(seed, Stream.PARTITION)
            parts[seed] = assign(pool, section.clients, rng)
            if section.partition.kind == "file":
                count = len(parts[seed].offsets) - 1
                text = f"the partition's file names {count}; leave it out"
                require_count(scenario, count, text)
    except PartitionError as error:
        raise partition_problem(scenario, error) from None
    except OutOfMemoryError as error:
        raise scenario.too_large(PARTITION, str(error)) from None
    return PartitionedSamples(sets, classes, parts)


def federations_from(scenario: Scenario, partitioned: PartitionedSamples) -> dict[int, Federation]:
    """Return the federations of partitioned samples, by seed.

    Clients that never train are chosen here, and the samples are changed.
    """
    section = scenario.spec.data
    sets = partitioned.sets
    by_id = is_natural(section, sets.owner is not None)

    federations = {}
    test_sets: dict[bytes, Samples] = {}  # by their rows: seeds may hold out the same samples
    for seed, parts in partitioned.parts.items():
        held_out = None
        if test_clients(section):
            held_out = sets.held_out if by_id else _test_clients(scenario, parts)
            assert held_out is not None
            rows = np.sort(parts.indices[np.repeat(held_out, np.diff(parts.offsets))])
            key = rows.tobytes()
            if key not in test_sets:
                test_sets[key] = Samples(sets.train.x[rows], sets.train.y[rows])
            sets = sets._replace(test=test_sets[key])

        federation = federate(
            sets,
            classes=partitioned.classes,
            parts=parts,
            client_test=section.client_test,
            rng=generator(seed, Stream.CLIENT_TEST),
            by_id=by_id,
            held_out=held_out,
        )
        federation = altered(scenario, federation, seed)
        if scenario.spec.evaluate.personal:
            rng = generator(seed, Stream.CLIENT_VALIDATION)
            federation = with_client_validation(federation, rng)
        federations[seed] = federation
    return federations


def _test_clients(scenario: Scenario, parts: Parts) -> np.ndarray:
    """The clients that never train `[N]`."""
    section = scenario.spec.data
    has_samples = np.diff(parts.offsets) > 0
    try:
        names = range(len(has_samples)) if parts.names is None else parts.names
        return clients_to_test(has_samples, section.test.clients, section.seed, names)
    except PartitionError as error:
        raise partition_problem(scenario, error) from None


def altered(scenario: Scenario, federation: Federation, seed: int) -> Federation:
    """Return the federation after `data.skew`, and after what fields do to the samples."""
    problems = Problems(scenario)
    for change in (with_skews, *(alteration.alter for alteration in alterations())):
        federation = problems.attempt(change, scenario, federation, seed) or federation
    problems.raise_all()
    return federation


@locate_link_errors
def evenly_partitioned(scenario: Scenario, data: Arrays | None, dtype: np.dtype) -> Federation:
    """Return the samples in equal parts.

    Where the partition asked for is impossible, the rest of a scenario is checked on them.
    """
    sets, classes = load_samples(scenario, data, dtype)
    n = len(sets.train.y)
    sizes = even_sizes(n, scenario.spec.data.clients)
    parts = Parts(np.arange(n, dtype=np.int32), offsets_of(sizes))
    return federate(sets, classes, parts)


def resolved_data(scenario: Scenario, data: Arrays | None, federation: Federation) -> Any:
    """Return the data section with what was decided written out.

    Reading it again gives the same federation: the partition that was used, the number of clients,
    whether a test set was cut, and the paths and hashes of files.
    """
    section = scenario.spec.data
    partition = partition_section(section, federation.has_client_ids)
    resolved = {
        "clients": federation.N,
        "partition": partition.model_copy(update=resolved_file(scenario, PARTITION)),
        "test": section.test if test_clients(section) else share_of_test_samples(section, data),
    }
    if data is None:
        resolved |= resolved_file(scenario, DATA)
    file = resolved_file(scenario, TOKENIZER)
    if file:
        resolved["tokenizer"] = section.tokenizer.model_copy(update=file)
    return section.model_copy(update=resolved)
