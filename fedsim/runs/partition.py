"""`fedsim partition`: the samples of a scenario, partitioned as a run would, counted, drawn and written; trains nothing."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedsim.assemble.federation import Partitioned, dealt, federated, resolved_data
from fedsim.assemble.memory import partition_notes
from fedsim.data import PartitionError, split_text
from fedsim.data.partition import column_of
from fedsim.disk import files, tables
from fedsim.errors import DataError
from fedsim.report import figures
from fedsim.report.about import about
from fedsim.scenario import Scenario
from fedsim.study.label_skew import Heterogeneity, column_counts, heterogeneity

MOST_VALUES = 1000  # of a column that is drawn


class Written(NamedTuple):
    """Partitions that were written."""

    partitions: dict[int, Heterogeneity]  # how far the clients differ, by seed
    notes: list[str]  # of the first seed


def write_partition(
    scenario: Scenario, folder: Path, split: Path | None = None, by: str | None = None
) -> Written:
    """Partition the samples for every seed; write `partition.csv`, and a figure of the first seed.

    Args:
      scenario: as read.
      folder: for both.
      split: file for the numbers of every client's samples, as the partition `file` reads it; of the first seed.
      by: column whose values the figure shows in place of labels; None: of `domains` the one that it names, else labels.

    Raises:
      ScenarioError: when the samples cannot be partitioned as asked.
      DataError: for samples that cannot be learned from.
      DirectoryError: when nothing can be written there.
    """
    scenario, by = _with_column(scenario, by)
    spec = scenario.spec
    given = dealt(scenario, None, np.dtype(spec.numerics.dtype))
    federations = federated(scenario, given)
    several = len(federations) > 1
    partitions = {
        seed: heterogeneity(f, seed if several else None) for seed, f in federations.items()
    }
    first = next(iter(partitions))
    if by is not None:
        counts = column_counts(federations[first], by, _column(given, by))
        partitions[first] = partitions[first]._replace(counts=counts)
    settled = {"data": resolved_data(scenario, None, federations[first])}
    resolved = scenario._replace(spec=spec.model_copy(update=settled)).resolved()
    picture = figures.figure_of_partition(
        partitions[first].counts, about(resolved), first if several else None
    )
    drawn = figures.files_of([picture], "partition")
    table = tables.to_csv([partition.rows for partition in partitions.values()], tables.PARTITION)
    files.make_folder(folder)
    for name, content in {"partition.csv": table, **drawn}.items():
        files.write(folder / name, content)
    if split is not None:
        files.write_named(
            split, split_text(given.parts[first], given.sets.rows, split.suffix == ".json")
        )
    return Written(partitions, partition_notes(federations[first]))


def _with_column(scenario: Scenario, by: str | None) -> tuple[Scenario, str | None]:
    """The column that is drawn, and the scenario whose data set brings it; none where labels are drawn."""
    data = scenario.spec.data
    if by is None and data.partition.kind == "domains":
        by = data.partition.column
    if by in (None, "label"):
        return scenario, None
    if hasattr(data, "columns"):
        data = data.model_copy(update={"columns": [*data.columns, by]})
    return scenario._replace(spec=scenario.spec.model_copy(update={"data": data})), by


def _column(given: Partitioned, by: str) -> np.ndarray:
    try:
        values = column_of(given.sets.columns, by)
    except PartitionError as error:
        raise DataError(str(error)) from None
    if (count := len(np.unique(values))) > MOST_VALUES:
        raise DataError(f"column {by[:40]!a} has {count} values; at most {MOST_VALUES} are drawn")
    return values
