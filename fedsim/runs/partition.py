"""`fedsim partition`: the samples of a scenario, partitioned as a run would, counted, drawn and written; trains nothing."""

from pathlib import Path

import numpy as np

from fedsim.build.federation import federations_of, settled_data
from fedsim.disk import files, tables
from fedsim.report import figures
from fedsim.scenario import Scenario
from fedsim.study.label_skew import Heterogeneity, heterogeneity


def write_partition(scenario: Scenario, folder: Path) -> dict[int, Heterogeneity]:
    """Partition the samples for every seed; write `partition.csv`, and a figure of the first seed.

    Returns:
      How far the clients differ, by seed.

    Raises:
      ScenarioError: when the samples cannot be partitioned as asked.
      DataError: for samples that cannot be learned from.
      DirectoryError: when nothing can be written there.
    """
    spec = scenario.spec
    federations = federations_of(scenario, None, np.dtype(spec.numerics.dtype))
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
    return partitions
