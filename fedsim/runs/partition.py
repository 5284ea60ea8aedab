"""`fedsim partition`: the samples of a scenario, partitioned as a run would, counted, drawn and written; trains nothing."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedsim.build.federation import dealt, federated, settled_data
from fedsim.build.memory import partition_notes
from fedsim.data import split_text
from fedsim.disk import files, tables
from fedsim.report import figures
from fedsim.scenario import Scenario
from fedsim.study.label_skew import Heterogeneity, heterogeneity


class Written(NamedTuple):
    """Partitions that were written."""

    partitions: dict[int, Heterogeneity]  # how far the clients differ, by seed
    notes: list[str]  # of the first seed


def write_partition(scenario: Scenario, folder: Path, split: Path | None = None) -> Written:
    """Partition the samples for every seed; write `partition.csv`, and a figure of the first seed.

    Args:
      scenario: as read.
      folder: for both.
      split: file for the numbers of every client's samples, as the partition `file` reads it; of the first seed.

    Raises:
      ScenarioError: when the samples cannot be partitioned as asked.
      DataError: for samples that cannot be learned from.
      DirectoryError: when nothing can be written there.
    """
    spec = scenario.spec
    given = dealt(scenario, None, np.dtype(spec.numerics.dtype))
    federations = federated(scenario, given)
    several = len(federations) > 1
    partitions = {seed: heterogeneity(f, seed if several else None) for seed, f in federations.items()}
    first = next(iter(partitions))
    settled = {"data": settled_data(scenario, None, federations[first])}
    resolved = scenario._replace(spec=spec.model_copy(update=settled)).resolved()
    drawn = figures.partition(partitions[first].counts, resolved, first if several else None)
    table = tables.to_csv([partition.rows for partition in partitions.values()], tables.PARTITION)
    files.make_folder(folder)
    for name, content in {"partition.csv": table, **drawn}.items():
        files.write(folder / name, content)
    if split is not None:
        files.write_named(split, split_text(given.parts[first], given.sets.rows, split.suffix == ".json"))
    return Written(partitions, partition_notes(federations[first]))
