"""Data sets that need no download."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fedsim.compose import dataset
from fedsim.data.arrays import Arrays
from fedsim.data.columns import Missing
from fedsim.data.files import Name
from fedsim.errors import DataError


@dataset
def digits() -> Arrays:
    """1,797 real images of handwritten digits, 8×8×1, pixels in [0, 1]; bundled with scikit-learn, works offline.

    References:
      E. Alpaydin, C. Kaynak 1998, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository.
    """
    package = find_spec("sklearn")  # located without importing it, which would cost seconds
    folders = package.submodule_search_locations if package else None
    if not folders:
        raise DataError("digits: scikit-learn is not installed, and the images are bundled with it")
    path = Path(folders[0]) / "datasets" / "data" / "digits.csv.gz"
    with gzip.open(path, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.int64)
    return Arrays((table[:, :-1] / 16).reshape(-1, 8, 8, 1), table[:, -1])


@dataset
def supplied(
    target: Name = "y",
    client: Name | None = None,
    missing: Missing = "refuse",
    standardize: bool = False,
    drop: list[str] = [],  # noqa: B006 (read, never changed)
) -> Arrays:
    """Samples that a Python program hands over: `fedsim.run(..., data=fedsim.Arrays(x, y))`, `(x, y)`, or a DataFrame.

    Args:
      target: column of the labels in a DataFrame: integers or text are classes, floats regression targets.
      client: column of the client ids; left out: `client`, if there is such a column.
      missing: what happens to blanks, NaN in arrays; as in `csv`.
      standardize: as in `csv`.
      drop: columns that are left out.

    Raises:
      DataError: always, on the command line: a scenario file holds no samples.
    """
    del target, client, missing, standardize, drop
    raise DataError(
        "data.kind: supplied: these samples came from a Python program; pass them as fedsim.run(..., data=)"
    )
