"""`fedsim partition`: a scenario's samples dealt out as a run would, counted, drawn and written down; trains nothing."""

import sys
from pathlib import Path

import numpy as np

from fedsim.build.federation import federations_of, settled_data
from fedsim.disk import files
from fedsim.disk import tables as frames
from fedsim.report import figures
from fedsim.report.partition_text import fitting, text
from fedsim.scenario import Scenario
from fedsim.study.label_skew import Holdings, inspected


def dealt(scenario: Scenario, folder: Path) -> dict[int, Holdings]:
    """Deal out for every seed -> what was found, by seed; written to `partition.csv`, and of the first seed a picture.

    Raises:
      ScenarioError: when the samples cannot be dealt out as asked.
      DataError: for samples that cannot be learned from.
      DirectoryError: when nothing can be written there.
    """
    spec = scenario.spec
    federations = federations_of(scenario, None, np.dtype(spec.numerics.dtype))
    several = len(federations) > 1
    found = {seed: inspected(f, seed if several else None) for seed, f in federations.items()}
    first = next(iter(found))
    settled = {"data": settled_data(scenario, None, federations[first])}
    resolved = scenario._replace(spec=spec.model_copy(update=settled)).resolved()
    drawn = figures.partition(found[first].tally, resolved, first if several else None)
    table = frames.to_csv([held.rows for held in found.values()], frames.PARTITION)
    files.make_folder(folder)
    for name, content in {"partition.csv": table, **drawn}.items():
        files.write(folder / name, content)
    return found


def show(found: dict[int, Holdings], folder: Path) -> None:
    """The first seed's partition for the terminal, and where the files are."""
    seed, held = next(iter(found.items()))
    if len(found) > 1:
        print(f"seed {seed} (partition.csv has all {len(found)})\n")
    print(text(held, *fitting(sys.stdout)))
    print(f"{folder}/  partition.png  partition.svg  partition.csv")
