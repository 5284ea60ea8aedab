"""`fedsim data partition`: the samples of a scenario, partitioned as in a run; without training."""

from pathlib import Path

import numpy as np

from fedsim.assemble.federation import (
    PartitionedSamples,
    federations_from,
    partitioned_samples,
    resolved_data,
)
from fedsim.assemble.sample_notes import partition_notes
from fedsim.data import Federation, PartitionError, split_text
from fedsim.data.partition import column_of
from fedsim.disk import files, tables
from fedsim.errors import DataError
from fedsim.report import figures
from fedsim.report.context import context_of
from fedsim.runs.directory import open_output_folder
from fedsim.scenario import Scenario
from fedsim.study.label_skew import Heterogeneity, column_counts, heterogeneity

MAX_VALUES = 1000  # of a column that is drawn


def write_partition(
    scenario: Scenario,
    folder: Path,
    split: Path | None = None,
    by: str | None = None,
    force: bool = False,
) -> tuple[dict[int, Heterogeneity], list[str]]:
    """Partition the samples for every seed; write `partition.csv` and a figure of the first seed.

    Args:
      split: a file for the sample numbers of every client, as the partition `file` reads them; for
        the first seed.
      by: a column whose values the figure shows instead of labels; None: for `domains` the column
        that it names, else labels.

    Returns:
      How far the clients differ, by seed, and sentences about the partition of the first seed.
    """
    scenario, by = _with_column(scenario, by)
    samples = partitioned_samples(scenario, None, np.dtype(scenario.spec.numerics.dtype))
    federations = federations_from(scenario, samples)
    several = len(federations) > 1
    partitions = {}
    for seed, federation in federations.items():
        partitions[seed] = heterogeneity(federation, seed if several else None)

    first = next(iter(federations))
    if by is not None:
        counts = column_counts(federations[first], by, _column(samples, by))
        partitions[first] = partitions[first]._replace(counts=counts)

    context = context_of(_resolved(scenario, federations[first]))
    picture = figures.figure_of_partition(
        partitions[first].counts, context, first if several else None
    )
    table = tables.to_csv([partition.rows for partition in partitions.values()], tables.PARTITION)

    contents = {"partition.csv": table, **figures.files_of([picture], "partition")}
    with open_output_folder(folder, contents, force):
        for name, content in contents.items():
            files.write(folder / name, content)
    if split is not None:
        as_json = split.suffix == ".json"
        files.write_output(split, split_text(samples.parts[first], samples.sets.rows, as_json))
    return partitions, partition_notes(federations[first])


def _with_column(scenario: Scenario, by: str | None) -> tuple[Scenario, str | None]:
    """The scenario whose data set has the column that is drawn, and the column; None for labels."""
    data = scenario.spec.data
    if by is None and data.partition.kind == "domains":
        by = data.partition.column
    if by in (None, "label"):
        return scenario, None
    if hasattr(data, "columns"):
        data = data.model_copy(update={"columns": [*data.columns, by]})
    return scenario._replace(spec=scenario.spec.model_copy(update={"data": data})), by


def _column(samples: PartitionedSamples, by: str) -> np.ndarray:
    """The values of a column, of which there may not be too many to draw."""
    try:
        values = column_of(samples.sets.columns, by)
    except PartitionError as error:
        raise DataError(str(error)) from None
    count = len(np.unique(values))
    if count > MAX_VALUES:
        raise DataError(f"column {by[:40]!a} has {count} values; at most {MAX_VALUES} are drawn")
    return values


def _resolved(scenario: Scenario, federation: Federation) -> dict:
    """The resolved scenario, with what its samples decide."""
    data = resolved_data(scenario, None, federation)
    return scenario._replace(spec=scenario.spec.model_copy(update={"data": data})).resolved()
